//! Detects tasks that cannot be graded, from the task alone.

use proctor_official::OfficialPolicy;
use proctor_types::{Fault, FaultCause, FaultLayer, Task};

use crate::{
    launch::{not_pytest_fault, starts_pytest},
    pristine::patch_paths,
    procedure::{has_official_run, policy_fault, test_patch},
};

/// Checks that a task can be graded, before trials cost money:
///
/// - Its patches are valid.
/// - Its benchmark has a policy, and the policy has a log parser.
/// - Pytest runs its tests, unless the benchmark's procedure runs them or `test_results` says where
///   the results are.
///
/// # Errors
/// A grading fault that names the invalid field.
pub fn check_gradable(task: &Task) -> Result<(), Fault> {
    // A Harbor task is graded by its own verifier.
    if task.harbor.is_some() {
        return Ok(());
    }
    check_patches(task)?;
    let policy = OfficialPolicy::for_task(task).map_err(policy_fault)?;
    match policy.filter(|_| has_official_run(task)) {
        Some(policy) => policy.check_task(task).map_err(policy_fault),
        None if task.command_test_results().is_some() || starts_pytest(&task.test_command) => {
            Ok(())
        }
        None => Err(not_pytest_fault(&task.test_command)),
    }
}

/// Checks the mask and the test patch. Every grading applies both, so an invalid patch would make
/// every grading fail.
fn check_patches(task: &Task) -> Result<(), Fault> {
    let given = [("mask", task.mask.as_deref()), ("test_patch", test_patch(task))];
    for (field, patch) in given.into_iter().filter_map(|(field, patch)| Some((field, patch?))) {
        patch_paths(patch.as_bytes()).map_err(|error| {
            Fault::new(FaultLayer::Setup, format!("field `{field}`: {error}"))
                .cause(FaultCause::Invalid)
                .hint("use a unified diff with `---` and `+++` lines, as printed by `git diff`")
        })?;
    }
    Ok(())
}
