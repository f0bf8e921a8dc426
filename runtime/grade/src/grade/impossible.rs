//! The mistakes by which a task becomes one that no honest solution resolves.

use std::collections::BTreeSet;

use proctor_sandbox_api::SandboxHandle;
use proctor_setup::Hidden;
use proctor_types::{Fault, Impossible, Task};

use super::{GradeOptions, Grading};
use crate::{canary, frozen::needs_freezing, pristine::Pristine, procedure::only_official};

/// Mistakes in fail-to-pass tests of a task, the best first; none where no mistake is certain, and for a task whose tests
/// are known only by their files or only to its benchmark. The sandbox is fresh, holds the environment and its
/// unmasked source, and stays as it is.
///
/// # Errors
///
/// A fault of the grade where the test command or its interpreter cannot be used, of the sandbox where it fails.
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
