//! The official grading of each benchmark: one closed policy each, as data, and what carries it out.

mod alone;
mod by_file;
mod by_id;
mod from_scratch;
mod live;
mod log;
mod policy;
mod registry;
mod script;
mod standing;
mod verdict;

pub use alone::only_official;
pub use by_file::FileRun;
pub use live::{OfficialRun, Trouble, has_official_run, procedure, run_official};
pub use policy::{ExitRule, LogRules, OfficialPolicy, ParserRules, Part, Subject};
pub use registry::PolicyError;
pub use standing::{Standing, Standings};
pub use verdict::{Official, with_official};
