//! Builds tasks from recipes, once per machine.

use std::{fs, path::Path};

use proctor_datasets::Recipe;
use proctor_host::host_base;
use proctor_sandbox_api::Backend;
use proctor_setup::{PREPARATION, Sources};
use proctor_types::{Task, path_component, plural, sha256_hex};

use crate::{Frozen, RecipeError, draft, freeze};

/// Raised when the carver, the statement or the freezing changes what a recipe makes.
const BUILDER_VERSION: u32 = 1;

/// The task that a recipe makes: out of the cache folder, or built now and kept there as JSON in
/// the own task format.
///
/// The key holds the recipe, the builder's version, the statement's template, how sandboxes are made
/// ready and the state of this host's programs: frozen ids on a host base hold for that host. `tell` hears what is being done,
/// for a person to read.
///
/// # Errors
/// [`RecipeError`]; nothing is kept then.
pub async fn build_cached(
    recipe: &Recipe,
    backend: &dyn Backend,
    sources: &Sources,
    cache: &Path,
    tell: &(dyn Fn(&str) + Send + Sync),
) -> Result<Task, RecipeError> {
    let broken = |error: std::io::Error| RecipeError::Cache { why: error.to_string() };
    let key = key(recipe, backend);
    let name = format!("{}-{}.json", path_component(&recipe.id), &key[..16]);
    let file = cache.join(name);
    if let Some(task) =
        fs::read_to_string(&file).ok().and_then(|text| proctor_datasets::parse_task(&text).ok())
    {
        return Ok(task);
    }
    tell("not built on this machine yet: fetching and carving");
    let draft = draft(recipe, sources).await?;
    let Frozen { task, flaky, left_out } = freeze(draft, backend, sources, tell).await?;
    tell(&format!(
        "{}, {}; left out: {} flaky, {} for other reasons",
        plural(task.fail_to_pass.len(), "fail-to-pass test"),
        plural(task.pass_to_pass.len(), "pass-to-pass test"),
        flaky.len(),
        left_out.len()
    ));
    for id in &flaky {
        tell(&format!("flaky, left out: {id}"));
    }
    fs::create_dir_all(cache).map_err(broken)?;
    let text = serde_json::to_string(&task).map_err(|error| broken(error.into()))?;
    // By rename: two builders of one recipe end with one whole file.
    let fresh = cache.join(format!(".{}-{}.new", &key[..16], std::process::id()));
    fs::write(&fresh, text + "\n").map_err(broken)?;
    fs::rename(&fresh, &file).map_err(broken)?;
    Ok(task)
}

fn key(recipe: &Recipe, backend: &dyn Backend) -> String {
    let template = include_str!("../../../prompts/recipes/statement.md.j2");
    let recipe = serde_json::to_string(recipe).unwrap_or_default();
    let host = host_base::host_digest();
    let preparation = format!("{PREPARATION}\0{}", backend.agent());
    let all = format!("{BUILDER_VERSION}\0{recipe}\0{template}\0{host}\0{preparation}");
    sha256_hex(all.as_bytes())
}
