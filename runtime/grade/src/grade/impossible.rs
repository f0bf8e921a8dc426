//! The mistakes that turn a task into one that no honest solution resolves.

use std::collections::BTreeSet;

use proctor_sandbox_api::SandboxHandle;
use proctor_setup::Hidden;
use proctor_types::{Fault, Impossible, Task};

use super::{GradeOptions, Grading};
use crate::{canary, frozen::needs_freezing, pristine::Pristine, procedure::only_official};

/// Mistakes in fail-to-pass tests of a task, best first. Empty if no mistake is certain, and for a
/// task whose tests only its benchmark or only its files define. The sandbox is fresh, has the
/// environment and its unmasked source, and is not changed.
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
