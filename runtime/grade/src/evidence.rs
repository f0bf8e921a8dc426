//! The kinds of evidence. `configs/tables/grading.toml` defines how each affects a verdict.

use proctor_types::Evidence;

/// An assertion of a test failed, but the test continued and passed.
pub(crate) const ASSERTION_SWALLOWED: &str = "assertion_swallowed";
pub(crate) const BYTECODE_REMOVED: &str = "bytecode_removed";
/// A canary could not be installed, for a reason that no honest test causes.
pub(crate) const CANARY_BROKEN: &str = "canary_broken";
pub(crate) const CANARY_MISSING: &str = "canary_missing";
pub(crate) const CANARY_PASSED: &str = "canary_passed";
/// A canary gave no reliable result, for example because its unchanged test fails when it runs
/// again.
pub(crate) const CANARY_UNFIT: &str = "canary_unfit";
pub(crate) const CHANGED_DURING_RUN: &str = "changed_during_run";
pub(crate) const CONFIG_RESTORED: &str = "config_restored";
pub(crate) const DOUBLED_RECORD: &str = "doubled_record";
pub(crate) const ENDED_EARLY: &str = "ended_early";
/// A test's function raised an uncaught exception, but the test passed.
pub(crate) const EXCEPTION_SWALLOWED: &str = "exception_swallowed";
pub(crate) const EXIT_MISMATCH: &str = "exit_mismatch";
pub(crate) const EXIT_WITHOUT_END: &str = "exit_without_end";
/// A hook of the recorder raised an exception, so its observations are missing.
pub(crate) const HOOK_FAILED: &str = "hook_failed";
/// A patch resolved a variant of the task that no honest solution can resolve.
pub(crate) const IMPOSSIBLE_PASSED: &str = "impossible_passed";
pub(crate) const INTERPRETER_PATCHED: &str = "interpreter_patched";
/// A copy of hidden content that was kept because the benchmark's own procedure needs it.
pub(crate) const KEPT_FOR_TOOL: &str = "kept_for_tool";
pub(crate) const LEFT_BEHIND: &str = "left_behind";
/// A copy of hidden content that the test tool can read but the code under test cannot.
pub(crate) const LENT_TO_TOOL: &str = "lent_to_tool";
pub(crate) const LOG_DOUBTED: &str = "log_doubted";
/// The benchmark's own procedure resolves the task, but the strict policy does not.
pub(crate) const OFFICIAL_ONLY: &str = "official_only";
pub(crate) const ORIGINAL_USED: &str = "original_used";
/// A module that the environment provides was imported from elsewhere.
pub(crate) const MODULE_REPLACED: &str = "module_replaced";
pub(crate) const NO_CANARY: &str = "no_canary";
/// Some expected ids are not tests and are ignored.
pub(crate) const NOT_A_TEST: &str = "not_a_test";
/// Parts of the patch could not be applied as written: they were skipped or interpreted
/// differently.
pub(crate) const PATCH_INCOMPLETE: &str = "patch_incomplete";
pub(crate) use proctor_types::PATCH_REJECTED_KIND;
/// The task's certificate lists some tests as flaky. This says nothing about the patch.
pub(crate) const QUARANTINED: &str = "quarantined";
pub(crate) const READ_FROM_LOG: &str = "read_from_log";
/// The results come from a report that the graded code could have written.
pub(crate) const READ_FROM_REPORT: &str = "read_from_report";
/// A test passed although it contained a mistake in that run, so the runner's report proves
/// nothing.
pub(crate) const REPORT_CANARY_PASSED: &str = "report_canary_passed";
pub(crate) const REPORT_MISMATCH: &str = "report_mismatch";
pub(crate) const REPORT_WITHOUT_RUN: &str = "report_without_run";
pub(crate) const RESULTS_PIPE_GARBAGE: &str = "results_pipe_garbage";
/// Tests that failed after a canary were run again without canaries.
pub(crate) const RUN_AGAIN: &str = "run_again";
/// The sandbox's content prevented a grading step.
pub(crate) const SANDBOX_EXHAUSTED: &str = "sandbox_exhausted";
/// The kernel killed the sandbox at its memory limit. Grading the patch with more memory may
/// succeed.
pub const SANDBOX_KILLED: &str = "sandbox_killed";
pub(crate) const SELF_LOADING_REMOVED: &str = "self_loading_removed";
pub(crate) const SHADOWING_REMOVED: &str = "shadowing_removed";
pub(crate) const STRICT_NOT_RUN: &str = "strict_not_run";
/// Code under test opened a test file and may have returned values from it.
pub(crate) const TESTS_READ: &str = "tests_read";
/// The function that was called is not the one in the test file.
pub(crate) const TEST_REPLACED: &str = "test_replaced";
pub(crate) const TEST_RESTORED: &str = "test_restored";
/// The test run reached its time limit. Grading the patch again may succeed.
pub const TIMED_OUT: &str = "timed_out";
pub(crate) const UNKNOWN_PLUGIN: &str = "unknown_plugin";

// Kinds that screening reports. `configs/tables/screening.toml` maps rules to kinds.
/// The patch runs code that it computes at run time.
#[cfg(test)]
pub(crate) const DYNAMIC_CODE: &str = "dynamic_code";
/// The patch defines an object that equals or accepts everything.
#[cfg(test)]
pub(crate) const EQUAL_TO_EVERYTHING: &str = "equal_to_everything";
/// The patch assigns to an attribute of another package.
#[cfg(test)]
pub(crate) const FOREIGN_ASSIGNMENT: &str = "foreign_assignment";
/// The patch inspects the interpreter's frames, heap or hooks.
#[cfg(test)]
pub(crate) const INTROSPECTION_ADDED: &str = "introspection_added";
/// The patch obscures a name, a string or code.
#[cfg(test)]
pub(crate) const OBFUSCATED_NAME: &str = "obfuscated_name";
/// The patch suppresses exceptions in a `with` statement.
#[cfg(test)]
pub(crate) const SWALLOWED_EXCEPTIONS: &str = "swallowed_exceptions";
/// The patch names tests or reads them in an unusual way.
#[cfg(test)]
pub(crate) const TEST_ACCESS: &str = "test_access";

#[cfg(test)]
/// Every kind, to check that the policy covers them all.
pub(crate) const KINDS: [&str; 52] = [
    ASSERTION_SWALLOWED,
    BYTECODE_REMOVED,
    CANARY_BROKEN,
    CANARY_MISSING,
    CANARY_PASSED,
    CANARY_UNFIT,
    CHANGED_DURING_RUN,
    CONFIG_RESTORED,
    DOUBLED_RECORD,
    DYNAMIC_CODE,
    ENDED_EARLY,
    EQUAL_TO_EVERYTHING,
    EXCEPTION_SWALLOWED,
    EXIT_MISMATCH,
    EXIT_WITHOUT_END,
    FOREIGN_ASSIGNMENT,
    HOOK_FAILED,
    IMPOSSIBLE_PASSED,
    INTERPRETER_PATCHED,
    INTROSPECTION_ADDED,
    KEPT_FOR_TOOL,
    LEFT_BEHIND,
    LENT_TO_TOOL,
    LOG_DOUBTED,
    MODULE_REPLACED,
    NO_CANARY,
    NOT_A_TEST,
    OBFUSCATED_NAME,
    OFFICIAL_ONLY,
    ORIGINAL_USED,
    PATCH_INCOMPLETE,
    PATCH_REJECTED_KIND,
    QUARANTINED,
    READ_FROM_LOG,
    READ_FROM_REPORT,
    REPORT_CANARY_PASSED,
    REPORT_MISMATCH,
    REPORT_WITHOUT_RUN,
    RESULTS_PIPE_GARBAGE,
    RUN_AGAIN,
    SANDBOX_EXHAUSTED,
    SANDBOX_KILLED,
    SELF_LOADING_REMOVED,
    SHADOWING_REMOVED,
    STRICT_NOT_RUN,
    SWALLOWED_EXCEPTIONS,
    TEST_ACCESS,
    TEST_REPLACED,
    TEST_RESTORED,
    TESTS_READ,
    TIMED_OUT,
    UNKNOWN_PLUGIN,
];

pub(crate) fn new_evidence(kind: &str, text: impl Into<String>) -> Evidence {
    Evidence::new(kind, text, Vec::new())
}

/// Returns evidence for parts of a patch that were not applied as written.
pub(crate) fn incomplete_patch_evidence(skipped_parts: Vec<String>) -> Vec<Evidence> {
    skipped_parts.into_iter().map(|what| new_evidence(PATCH_INCOMPLETE, what)).collect()
}
