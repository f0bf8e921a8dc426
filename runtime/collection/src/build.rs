//! Builds tasks from recipes and caches them on this machine.

use std::{fs, path::Path};

use proctor_datasets::Recipe;
use proctor_host::host_base;
use proctor_sandbox_api::Backend;
use proctor_setup::{PREPARATION, Sources};
use proctor_types::{Task, count_with_noun, path_component, sha256_hex};

use crate::{FrozenTask, RecipeError, draft_task, freeze};

/// Part of the cache key. Increment it when an edit to carving, the statement or freezing affects
/// the tasks built from recipes.
const BUILDER_VERSION: u32 = 1;

/// Returns a recipe's task from the cache directory. If the task is not cached, it is built and
/// then cached as JSON in the native task format.
///
/// The cache key covers the recipe, `BUILDER_VERSION`, the statement template, how sandboxes are
/// prepared, and the programs installed on this host. The host matters because test ids that were
/// frozen on a host base are valid only for that host. `on_progress` receives progress messages.
///
/// # Errors
/// [`RecipeError`]. Failed builds are not cached.
pub async fn build_cached(
    recipe: &Recipe,
    backend: &dyn Backend,
    sources: &Sources,
    cache: &Path,
    on_progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<Task, RecipeError> {
    let broken = |error: std::io::Error| RecipeError::Cache { why: error.to_string() };
    let key = cache_key(recipe, backend);
    let name = format!("{}-{}.json", path_component(&recipe.id), &key[..16]);
    let file = cache.join(name);
    if let Some(task) =
        fs::read_to_string(&file).ok().and_then(|text| proctor_datasets::parse_task(&text).ok())
    {
        return Ok(task);
    }
    on_progress("not built on this machine yet; downloading the source and removing code from it");
    let draft = draft_task(recipe, sources).await?;
    let FrozenTask { task, flaky_tests: flaky, left_out_tests: left_out } =
        freeze(draft, backend, sources, on_progress).await?;
    on_progress(&format!(
        "{}, {}; excluded: {} flaky, {} for other reasons",
        count_with_noun(task.fail_to_pass.len(), "fail-to-pass test"),
        count_with_noun(task.pass_to_pass.len(), "pass-to-pass test"),
        flaky.len(),
        left_out.len()
    ));
    for id in &flaky {
        on_progress(&format!("excluded as flaky: {id}"));
    }
    fs::create_dir_all(cache).map_err(broken)?;
    let text = serde_json::to_string(&task).map_err(|error| broken(error.into()))?;
    // Write to a temporary file and rename it, so that concurrent builds of the same recipe never
    // leave a partial file.
    let fresh = cache.join(format!(".{}-{}.new", &key[..16], std::process::id()));
    fs::write(&fresh, text + "\n").map_err(broken)?;
    fs::rename(&fresh, &file).map_err(broken)?;
    Ok(task)
}

fn cache_key(recipe: &Recipe, backend: &dyn Backend) -> String {
    let template = include_str!("../../../prompts/recipes/statement.md.j2");
    let recipe = serde_json::to_string(recipe).unwrap_or_default();
    let host = host_base::host_digest();
    let preparation = format!("{PREPARATION}\0{}", backend.agent_digest());
    let all = format!("{BUILDER_VERSION}\0{recipe}\0{template}\0{host}\0{preparation}");
    sha256_hex(all.as_bytes())
}
