//! Grading: runs a task's tests on a patch in a fresh sandbox and reports the findings.

mod canary;
mod costs;
mod defences;
mod during;
mod evidence;
mod evidence_limit;
mod examine;
mod exhausted;
mod expected;
mod files;
mod find_leaks;
mod frozen;
mod given_log;
mod gradable;
mod grade;
pub mod harbor;
mod hidden;
mod launch;
mod paths;
mod plan;
mod policy;
mod pristine;
mod probe;
pub mod procedure;
mod records;
mod report_canary;
mod restore;
mod run;
mod scratch;
mod screening;
mod session;
mod shadow;
mod statuses;
mod test_trees;
mod verdict;

/// Identifies this grader: its code and its policies.
pub const GRADER: &str = env!("GRADER");

pub use costs::Costs;
pub use defences::Defences;
pub use evidence::{SANDBOX_KILLED, TIMED_OUT};
pub use evidence_limit::limit_evidence;
pub use expected::{Expected, expected_of_gold, given_by_gold};
pub use find_leaks::find_leaks;
pub use frozen::{Frozen, freeze, needs_freezing, suite};
pub use given_log::{GivenLog, LogError, LogFound, grade_log};
pub use gradable::check_gradable;
pub use grade::{FreshSandboxes, GradeOptions, Graded, grade, grade_with, mistakes};
pub use plan::{TestPlan, TestRun};
pub use policy::test_names;
pub use probe::Interpreters;
pub use run::run_tests;
