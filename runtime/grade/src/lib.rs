//! Grading: runs a task's tests over a patch in a fresh room and says what was found.

mod canary;
mod defences;
mod evidence;
mod examine;
mod launch;
mod plan;
mod policy;
mod probe;
mod records;
mod run;
mod session;
mod statuses;

pub use defences::Defences;
pub use plan::{TestPlan, TestRun};
pub use run::run_tests;
