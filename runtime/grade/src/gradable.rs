//! What keeps a task from any verdict, as far as the task alone tells.

use proctor_official::OfficialPolicy;
use proctor_types::{Cause, Fault, Layer, Task};

use crate::{
    launch::{not_pytest, starts_pytest},
    pristine::paths_of,
    procedure::{has_official_run, policy_fault, test_patch},
};

/// Whether a task can be graded: its patches can be read, its benchmark has a policy, the policy a reader for its logs, and where no
/// procedure of a benchmark runs its tests and no `test_results` says where they are, pytest runs them. To be asked before anything is paid for its trials.
///
/// # Errors
/// A fault of the grade that names the field.
pub fn check_gradable(task: &Task) -> Result<(), Fault> {
    // Its own verifier grades it.
    if task.harbor.is_some() {
        return Ok(());
    }
    patches(task)?;
    let policy = OfficialPolicy::of(task).map_err(policy_fault)?;
    match policy.filter(|_| has_official_run(task)) {
        Some(policy) => policy.check(task).map_err(policy_fault),
        None if task.report().is_some() || starts_pytest(&task.test_command) => Ok(()),
        None => Err(not_pytest(&task.test_command)),
    }
}

/// The mask and the test patch are laid in every grading: one that is no patch fails each of them.
fn patches(task: &Task) -> Result<(), Fault> {
    let given = [("mask", task.mask.as_deref()), ("test_patch", test_patch(task))];
    for (field, patch) in given.into_iter().filter_map(|(field, patch)| Some((field, patch?))) {
        paths_of(patch.as_bytes()).map_err(|error| {
            Fault::new(Layer::Setup, format!("field `{field}`: {error}"))
                .cause(Cause::Invalid)
                .hint(
                    "it must be a unified diff with `---` and `+++` lines, as `git diff` prints it",
                )
        })?;
    }
    Ok(())
}
