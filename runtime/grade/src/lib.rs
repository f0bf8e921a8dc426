//! Grading: runs a task's tests on a patch in a fresh sandbox and reports the findings.

mod canary;
mod costs;
mod defences;
mod evidence;
mod evidence_limit;
mod exhaustion;
mod expected_evidence;
mod external_log;
mod file_statuses;
mod find_leaks;
mod frozen_ids;
mod gradable;
mod grade;
pub mod harbor;
mod hidden;
mod interpreter_checks;
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
mod run_changes;
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
pub use expected_evidence::{ExpectedEvidence, expected_of_gold, expected_of_strict_gold};
pub use external_log::{ExternalLog, LogError, LogSummary, grade_log};
pub use find_leaks::find_leaks;
pub use frozen_ids::{FrozenIds, freeze, needs_freezing, run_full_suite};
pub use gradable::check_gradable;
pub use grade::{
    FreshSandboxes, GradeOptions, GradingResult, find_impossible_variants, grade,
    grade_with_fresh_sandboxes,
};
pub use plan::{TestPlan, TestRun};
pub use policy::test_names;
pub use probe::ProbeCache;
pub use run::run_tests;
