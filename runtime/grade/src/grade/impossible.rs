//! Finds mistakes in tests that make a task impossible for every honest solution.

use std::collections::BTreeSet;

use proctor_sandbox_api::SandboxHandle;
use proctor_setup::HiddenCopies;
use proctor_types::{Fault, Impossible, Task};

use super::Grading;
use crate::{
    GradeOptions, canary, frozen_ids::needs_frozen_ids, pristine::PristineTree,
    procedure::is_official_only,
};

/// Returns mistakes in the task's fail-to-pass tests, best first. Each of them makes the task
/// impossible. The list is empty if no mistake is certain to do so, or if the task's tests are not
/// individual pytest ids.
///
/// The sandbox must be fresh and contain the environment and its unmasked source. It is not
/// changed.
///
/// # Errors
///
/// A grading fault if the test command or its interpreter cannot be used, or a sandbox fault.
pub async fn find_impossible_variants(
    handle: &SandboxHandle,
    task: &Task,
    hidden_copies: &HiddenCopies,
) -> Result<Vec<Impossible>, Fault> {
    let has_pytest = !is_official_only(task) && task.command_test_results().is_none();
    if !has_pytest || needs_frozen_ids(task) || task.from_scratch.is_some() {
        return Ok(Vec::new());
    }
    let options = GradeOptions { hidden_copies: hidden_copies.clone(), ..GradeOptions::default() };
    let grading = Grading::prepare(handle, task, &options).await?;
    let tree = PristineTree::walk(handle, &task.workdir, grading.policy).await?;
    let paths = grading.build_path_rules(grading.masked_paths.clone(), &tree);
    let pristine = grading.load_pristine_tree(tree, &paths, &BTreeSet::new()).await?;
    canary::find_impossible_variants(handle, &grading.launch, task, &pristine).await
}
