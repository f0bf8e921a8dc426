//! The grading rules of each benchmark, as data and as log parsers. They turn a log into a verdict.
//!
//! This crate runs nothing. `proctor-grade` runs a benchmark's procedure in a sandbox and calls
//! this crate to read the log. `proctor grade --log` calls it for an existing log.

mod by_file;
mod by_id;
mod log;
pub mod parsers;
mod policy;
pub mod reader;
mod registry;
mod row_text;
mod status_grade;
mod verdict;

pub use by_file::FileRun;
pub use policy::{
    ExitRule, FromScratchRules, LogPart, LogRules, OfficialPolicy, ParserRules, RunRules, Script,
    Subject,
};
pub use registry::PolicyError;
pub use row_text::RowText;
pub use status_grade::{StatusGrade, StatusGrades};
pub use verdict::{OfficialVerdict, add_official_verdict};
