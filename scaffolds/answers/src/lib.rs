//! Converts a model's single answer to file changes.
//!
//! ```text
//! natural answer -> edits -> matched against the files -> changes -> a patch
//! patch answer   -> the patch in it
//! probe answer   -> the file and the signature that it names
//! ```
//!
//! Natural answers use the grammar of FEA-Bench (`prompts/single-shot`, and [`natural`]). This
//! crate never accesses a disk or a sandbox: the caller provides the content of each path.

#![warn(missing_docs)]

mod apply;
mod lines;
pub mod natural;
mod patch;
mod probe;
mod thinking;

pub use apply::{ApplyOutcome, EditReport, EditResult, FileLookup, FileState, MatchMode, apply};
pub use patch::extract_patch;
pub use probe::{NamedDefinition, defined_name, parse_named_definitions};
pub use thinking::answer_after_thinking;
