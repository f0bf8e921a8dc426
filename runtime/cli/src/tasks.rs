//! Finds the tasks that a dataset names; recipes among them are built first.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use proctor_core::PlannedTask;
use proctor_datasets::{Hub, Loaded};
use proctor_sandbox_api::Backend;
use proctor_setup::Sources;

use crate::error::{CommandError, UserError};

/// The folder of built recipe tasks below the cache.
const BUILT: &str = "tasks";

/// Reads what some patterns name: files, folders, globs, datasets of the hub.
pub async fn read(patterns: &[String], beside: &Path, cache: &Path) -> Result<Loaded, UserError> {
    let patterns: Vec<_> = patterns.iter().map(|pattern| placed(pattern, beside)).collect();
    let hub = Hub::of_this_host(cache.join("hub"));
    proctor_datasets::load_with(&patterns, Path::new("."), &hub).await.map_err(|error| {
        UserError::new(error.to_string()).hint(
            "name files that are there, from the current folder or else from the \
                 configuration's, or a dataset: docs/datasets.md",
        )
    })
}

/// Loads every task of some patterns, in order. Rows that cannot be read are named together and
/// end the command: a benchmark with silently fewer tasks is another benchmark.
pub async fn load(
    patterns: &[String],
    beside: &Path,
    cache: &Path,
    backend: &Arc<dyn Backend>,
) -> Result<Vec<PlannedTask>, CommandError> {
    built(whole(patterns, beside, cache).await?, cache, backend).await
}

/// Reads what some patterns name, where it is whole and not empty; nothing is built.
pub async fn whole(patterns: &[String], beside: &Path, cache: &Path) -> Result<Loaded, UserError> {
    if patterns.is_empty() {
        return Err(UserError::new("no tasks are named").hint("name a file, a glob or a dataset"));
    }
    let loaded = read(patterns, beside, cache).await?;
    if !loaded.bad.is_empty() {
        let rows: Vec<_> = loaded.bad.iter().map(ToString::to_string).collect();
        return Err(UserError::new(rows.join("\n")).hint("correct or remove these rows"));
    }
    if loaded.tasks.is_empty() && loaded.recipes.is_empty() {
        return Err(UserError::new(format!("no task in {}", patterns.join(", ")))
            .hint("name files of tasks or recipes, or a dataset: docs/datasets.md"));
    }
    Ok(loaded)
}

/// The tasks of what was read, recipes among them built.
pub async fn built(
    loaded: Loaded,
    cache: &Path,
    backend: &Arc<dyn Backend>,
) -> Result<Vec<PlannedTask>, CommandError> {
    let mut tasks = Vec::new();
    for task in &loaded.tasks {
        let base_dir = absolute(&loaded.base_dir(&task.id).unwrap_or_default())?;
        tasks.push(PlannedTask { task: Arc::new(task.clone()), base_dir });
    }
    let sources = Sources::new(cache.join("sources"));
    for located in loaded.recipes {
        let name = located.recipe.id.clone();
        let built = proctor_recipes::build_cached(
            &located.recipe,
            backend.as_ref(),
            &sources,
            &cache.join(BUILT),
            &|what| eprintln!("{name}: {what}"),
        )
        .await
        .map_err(|error| anyhow::anyhow!("recipe {name}: {error}"))?;
        let beside = located.file.parent().unwrap_or(Path::new("."));
        tasks.push(PlannedTask { task: Arc::new(built), base_dir: absolute(beside)? });
    }
    Ok(tasks)
}

/// The run directory outlives the current folder: what it keeps is absolute.
fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    path.canonicalize()
}

/// A pattern as it stands, unless only the folder of the configuration has what it names.
fn placed(pattern: &str, beside: &Path) -> String {
    if pattern.starts_with("hf://") {
        return pattern.to_owned();
    }
    let there = beside.join(pattern);
    if !stem(Path::new(pattern)).exists() && stem(&there).exists() {
        return there.to_string_lossy().into_owned();
    }
    pattern.to_owned()
}

/// The part of a pattern before its first wildcard.
fn stem(pattern: &Path) -> PathBuf {
    let text = pattern.to_string_lossy();
    let without_options = text.split('#').next().unwrap_or(&text);
    Path::new(without_options)
        .components()
        .take_while(|part| !part.as_os_str().to_string_lossy().contains(['*', '?', '[']))
        .collect()
}
