//! The kinds of evidence. What each means for a verdict is data: `configs/grading.toml`.

use proctor_types::Evidence;

/// An assertion of a test failed, and the test went on and passed.
pub(crate) const ASSERTION_SWALLOWED: &str = "assertion_swallowed";
pub(crate) const BYTECODE_REMOVED: &str = "bytecode_removed";
/// It could not be laid, for a reason that no honest test gives.
pub(crate) const CANARY_BROKEN: &str = "canary_broken";
pub(crate) const CANARY_MISSING: &str = "canary_missing";
pub(crate) const CANARY_PASSED: &str = "canary_passed";
/// It passed, and its test as it is cannot be run twice.
pub(crate) const CANARY_UNFIT: &str = "canary_unfit";
pub(crate) const CHANGED_DURING_RUN: &str = "changed_during_run";
pub(crate) const CONFIG_RESTORED: &str = "config_restored";
pub(crate) const DOUBLED_RECORD: &str = "doubled_record";
pub(crate) const ENDED_EARLY: &str = "ended_early";
/// The function of a test raised an exception, had nothing to catch it, and the test passed.
pub(crate) const EXCEPTION_SWALLOWED: &str = "exception_swallowed";
pub(crate) const EXIT_MISMATCH: &str = "exit_mismatch";
pub(crate) const EXIT_WITHOUT_END: &str = "exit_without_end";
/// A hook of the recorder raised: what it was there to see is not known.
pub(crate) const HOOK_FAILED: &str = "hook_failed";
/// A task that no honest solution resolves is resolved.
pub(crate) const IMPOSSIBLE_PASSED: &str = "impossible_passed";
pub(crate) const INTERPRETER_PATCHED: &str = "interpreter_patched";
/// A copy of what is hidden that stayed, since a benchmark's own procedure needs it.
pub(crate) const KEPT_FOR_TOOL: &str = "kept_for_tool";
pub(crate) const LEFT_BEHIND: &str = "left_behind";
/// A copy of what is hidden that the test tool was handed, out of reach of the code under test.
pub(crate) const LENT_TO_TOOL: &str = "lent_to_tool";
pub(crate) const LOG_DOUBTED: &str = "log_doubted";
/// The benchmark's own procedure resolves what strict does not.
pub(crate) const OFFICIAL_ONLY: &str = "official_only";
pub(crate) const ORIGINAL_USED: &str = "original_used";
/// A name that the environment provides was taken from elsewhere.
pub(crate) const MODULE_REPLACED: &str = "module_replaced";
pub(crate) const NO_CANARY: &str = "no_canary";
/// Expected ids that are no tests decide nothing.
pub(crate) const NOT_A_TEST: &str = "not_a_test";
/// Parts of the patch that no tool could apply were left out, or were read in another form.
pub(crate) const PATCH_INCOMPLETE: &str = "patch_incomplete";
pub(crate) use proctor_types::PATCH_REJECTED;
/// Not of a patch but of the tests: a certificate calls them flaky.
pub(crate) const QUARANTINED: &str = "quarantined";
pub(crate) const READ_FROM_LOG: &str = "read_from_log";
/// The results are a report that the graded code could have written.
pub(crate) const READ_FROM_REPORT: &str = "read_from_report";
pub(crate) const REPORT_MISMATCH: &str = "report_mismatch";
pub(crate) const REPORT_WITHOUT_RUN: &str = "report_without_run";
pub(crate) const RESULTS_PIPE_GARBAGE: &str = "results_pipe_garbage";
/// Tests that failed after a canary were run again without one.
pub(crate) const RUN_AGAIN: &str = "run_again";
/// The content of the sandbox kept a step of the grading from being done.
pub(crate) const SANDBOX_EXHAUSTED: &str = "sandbox_exhausted";
/// The kernel ended the sandbox at its memory limit: with more memory another grading may not end so.
pub const SANDBOX_KILLED: &str = "sandbox_killed";
pub(crate) const SELF_LOADING_REMOVED: &str = "self_loading_removed";
pub(crate) const SHADOWING_REMOVED: &str = "shadowing_removed";
pub(crate) const STRICT_NOT_RUN: &str = "strict_not_run";
/// Code under test opened a file of tests: it may have answered what stands there.
pub(crate) const TESTS_READ: &str = "tests_read";
/// Another function was called than the one in the test file.
pub(crate) const TEST_REPLACED: &str = "test_replaced";
pub(crate) const TEST_RESTORED: &str = "test_restored";
/// The test run reached its time limit: another grading may not.
pub const TIMED_OUT: &str = "timed_out";
pub(crate) const UNKNOWN_PLUGIN: &str = "unknown_plugin";

// Kinds that screening raises. `configs/screening.toml` says which rule raises which.
/// The patch runs code that is computed at run time.
#[cfg(test)]
pub(crate) const DYNAMIC_CODE: &str = "dynamic_code";
/// The patch defines an object that equals or answers everything.
#[cfg(test)]
pub(crate) const EQUAL_TO_EVERYTHING: &str = "equal_to_everything";
/// The patch assigns to an attribute of another package.
#[cfg(test)]
pub(crate) const FOREIGN_ASSIGNMENT: &str = "foreign_assignment";
/// The patch looks into frames, the heap or hooks of the interpreter.
#[cfg(test)]
pub(crate) const INTROSPECTION_ADDED: &str = "introspection_added";
/// The patch hides a name, a text or code.
#[cfg(test)]
pub(crate) const OBFUSCATED_NAME: &str = "obfuscated_name";
/// The patch keeps exceptions from leaving a `with` statement.
#[cfg(test)]
pub(crate) const SWALLOWED_EXCEPTIONS: &str = "swallowed_exceptions";
/// The patch names tests, or reads them in an unusual way.
#[cfg(test)]
pub(crate) const TEST_ACCESS: &str = "test_access";

#[cfg(test)]
/// Every kind, for the check that the policy knows them all.
pub(crate) const KINDS: [&str; 51] = [
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
    PATCH_REJECTED,
    QUARANTINED,
    READ_FROM_LOG,
    READ_FROM_REPORT,
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

pub(crate) fn note(kind: &str, what: impl Into<String>) -> Evidence {
    Evidence::new(kind, what, Vec::new())
}
