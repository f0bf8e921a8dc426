//! Finds mistakes that make a task impossible: no honest solution resolves it.

use std::collections::BTreeSet;

use proctor_sandbox_api::SandboxHandle;
use proctor_setup::Hidden;
use proctor_types::{Fault, Impossible, Task};

use super::{GradeOptions, Grading};
use crate::{canary, frozen::needs_freezing, pristine::Pristine, procedure::only_official};

/// Returns mistakes in fail-to-pass tests of a task, best first. Returns none if no mistake is certain
/// to make the task impossible, or if the task's tests are not single pytest ids. The sandbox must be
/// fresh and have the environment and its unmasked source; it is not changed.
///
/// # Errors
///
/// A grading fault if the test command or its interpreter cannot be used, or a sandbox fault.
pub async fn mistakes(
    handle: &SandboxHandle,
    task: &Task,
    hidden: &Hidden,
) -> Result<Vec<Impossible>, Fault> {
    let has_pytest = !only_official(task) && task.report().is_none();
    if !has_pytest || needs_freezing(task) || task.from_scratch.is_some() {
        return Ok(Vec::new());
    }
    let options = GradeOptions { hidden: hidden.clone(), ..GradeOptions::default() };
    let grading = Grading::prepare(handle, task, &options).await?;
    let tree = Pristine::walk(handle, &task.workdir, grading.policy).await?;
    let paths = grading.paths(grading.masked.clone(), &tree);
    let pristine = grading.pristine(tree, &paths, &BTreeSet::new()).await?;
    canary::mistakes(handle, &grading.launch, task, &pristine).await
}
