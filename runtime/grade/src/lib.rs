//! Grades patches: runs a task's tests on a patch in a fresh sandbox and reports the findings.

mod ascii_json;
mod canary;
mod costs;
mod defenses;
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
mod grade_options;
mod grading_result;
pub mod harbor;
mod hidden;
mod interpreter_checks;
mod launch;
mod patched_tree;
mod path_rules;
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
mod scripts;
mod session;
mod shadow;
mod statuses;
mod test_trees;
mod verdict;

/// Identifies the version of this grader's code and policies.
pub const GRADER: &str = env!("GRADER");

pub use costs::Costs;
pub use defenses::Defenses;
pub use evidence::{SANDBOX_KILLED, TIMED_OUT};
pub use evidence_limit::limit_evidence;
pub use expected_evidence::{
    ExpectedEvidence, expected_gold_evidence, expected_strict_gold_evidence,
};
pub use external_log::{ExternalLog, LogError, LogSummary, grade_log};
pub use find_leaks::find_leaks;
pub use frozen_ids::{FrozenIds, freeze_ids, needs_frozen_ids, run_full_suite};
pub use gradable::check_gradable;
pub use grade::{FreshSandboxes, find_impossible_variants, grade, grade_with_fresh_sandboxes};
pub use grade_options::GradeOptions;
pub use grading_result::GradingResult;
pub use plan::{TestPlan, TestRun};
pub use policy::test_names;
pub use probe::ProbeCache;
pub use run::run_tests;
