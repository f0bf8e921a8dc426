//! What keeps a task from any verdict, as far as the task alone tells.

use proctor_official::OfficialPolicy;
use proctor_types::{Fault, Task};

use crate::{
    launch::{not_pytest, starts_pytest},
    procedure::{has_official_run, policy_fault},
};

/// Whether a task can be graded: its benchmark has a policy, the policy a reader for its logs, and where no
/// procedure of a benchmark runs its tests, pytest does. To be asked before anything is paid for its trials.
///
/// # Errors
/// A fault of the grade that names the field.
pub fn check_gradable(task: &Task) -> Result<(), Fault> {
    let policy = OfficialPolicy::of(task).map_err(policy_fault)?;
    match policy.filter(|_| has_official_run(task)) {
        Some(policy) => policy.check(task).map_err(policy_fault),
        None if starts_pytest(&task.test_command) => Ok(()),
        None => Err(not_pytest(&task.test_command)),
    }
}
