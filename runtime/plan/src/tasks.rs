//! Loads the tasks of a dataset and builds its recipes.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use proctor_datasets::{DatasetError, Hub, LoadedDataset, RecipeFile, RowRetention};
use proctor_report::deduplicate_errors;
use proctor_run::PlannedTask;
use proctor_sandbox_api::Backend;
use proctor_scaffold_api::ProgressSink;
use proctor_setup::Sources;
use proctor_types::{Task, UserError, count_with_noun};

use crate::{PlanError, cache_dir};

/// The cache subdirectory for tasks that were built from recipes.
const BUILT_TASKS_DIR: &str = "tasks";

/// Reads the tasks that the patterns match. A pattern is a file, a directory, a glob or a Hugging
/// Face dataset. Relative paths are resolved against the current directory.
pub async fn read_tasks(
    patterns: &[String],
    cache: &Path,
    say: ProgressSink<'_>,
) -> Result<LoadedDataset, UserError> {
    read_with_retention(patterns, cache, RowRetention::Tasks, say).await
}

async fn read_with_retention(
    patterns: &[String],
    cache: &Path,
    retention: RowRetention,
    say: ProgressSink<'_>,
) -> Result<LoadedDataset, UserError> {
    let patterns: Vec<String> =
        patterns.iter().map(|pattern| prefer_local_rows(pattern, cache, say)).collect();
    if patterns.iter().any(|pattern| pattern.starts_with(HUB_PREFIX)) {
        cache_dir::lock_shared(cache).map_err(|error| UserError::new(error.to_string()))?;
    }
    let hub = Hub::from_env(cache.join("hub"));
    proctor_datasets::load_with_retention(&patterns, Path::new("."), &hub, retention).await.map_err(
        |error| UserError::new(error.to_string()).hint(read_error_hint(&error, &patterns, cache)),
    )
}

fn read_error_hint(error: &DatasetError, patterns: &[String], cache: &Path) -> String {
    match error {
        DatasetError::Hub { name, .. } => {
            let is_it = |one: &&String| {
                one.strip_prefix(HUB_PREFIX).is_some_and(|rest| rest.starts_with(name.as_str()))
            };
            let by_hand = patterns.iter().find(is_it).and_then(|one| manual_download_hint(one, cache));
            let by_hand = by_hand.unwrap_or_else(|| "download its rows manually (docs/concepts/runs.md)".into());
            format!("check the network, the name and the revision; or {by_hand}")
        }
        DatasetError::BadAddress { address, .. } if address.starts_with(HUB_PREFIX) => {
            "write Hugging Face datasets as hf://OWNER/NAME, optionally followed by @REVISION and /SPLIT"
                .to_owned()
        }
        DatasetError::NoMatch { pattern, .. } if looks_like_hub_dataset(pattern) => {
            format!("pass existing files; for a Hugging Face dataset, write {HUB_PREFIX}{pattern}")
        }
        _ => "pass existing files, or a dataset (see docs/reference/datasets.md); paths in a configuration are \
              relative to the configuration file, or else to the current directory"
            .to_owned(),
    }
}

/// Suffixes of files with tasks. A pattern with such a suffix is a path and not the name of a dataset.
const FILE_SUFFIXES: [&str; 7] = [".jsonl", ".json", ".toml", ".parquet", ".csv", ".yaml", ".yml"];

/// Whether the pattern looks like `OWNER/NAME`, which is how the Hugging Face Hub itself writes
/// dataset names.
fn looks_like_hub_dataset(pattern: &str) -> bool {
    let of_name = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    let is_file = FILE_SUFFIXES.iter().any(|suffix| pattern.ends_with(suffix));
    pattern.split_once('/').is_some_and(|(owner, name)| {
        !is_file
            && !owner.starts_with('.')
            && [owner, name].iter().all(|part| !part.is_empty() && part.chars().all(of_name))
    })
}

/// The prefix of a pattern for a Hugging Face dataset.
const HUB_PREFIX: &str = "hf://";

/// The cache subdirectory for manually downloaded rows. `proctor clean` does not remove it.
const MANUAL_DOWNLOADS_DIR: &str = "datasets";

/// Parses the pattern of a Hugging Face dataset. Returns the directory for manually downloaded
/// rows, the dataset's name and its split.
fn parse_hub_pattern<'a>(
    pattern: &'a str,
    cache: &Path,
) -> Option<(PathBuf, &'a str, Option<&'a str>)> {
    let place = pattern.strip_prefix(HUB_PREFIX)?.split('#').next()?;
    let (owner, rest) = place.split_once('/')?;
    let (name, split) = match rest.split_once('/') {
        Some((name, split)) => (name, Some(split).filter(|split| !split.is_empty())),
        None => (rest, None),
    };
    let cache = std::path::absolute(cache).ok()?;
    let folder = cache.join(MANUAL_DOWNLOADS_DIR).join(format!("{owner}--{name}"));
    let end = owner.len() + 1 + name.split('@').next()?.len();
    Some((folder, &place[..end], split))
}

/// Replaces the pattern of a Hugging Face dataset with the directory of manually downloaded rows,
/// if that directory exists. Returns other patterns unchanged.
fn prefer_local_rows(pattern: &str, cache: &Path, say: ProgressSink<'_>) -> String {
    let Some((folder, _, split)) = parse_hub_pattern(pattern, cache) else {
        return pattern.to_owned();
    };
    if !folder.is_dir() {
        return pattern.to_owned();
    }
    say(format!(
        "note: reading the rows of {} from {}",
        pattern.trim_start_matches(HUB_PREFIX),
        folder.display()
    ));
    let options = pattern.split_once('#').map(|(_, options)| options.to_owned());
    let options: Vec<String> =
        split.map(|split| format!("split={split}")).into_iter().chain(options).collect();
    let mark = if options.is_empty() { "" } else { "#" };
    format!("{}{mark}{}", folder.display(), options.join("&"))
}

/// Returns a hint about which files to download and where to put them.
fn manual_download_hint(pattern: &str, cache: &Path) -> Option<String> {
    let (folder, name, split) = parse_hub_pattern(pattern, cache)?;
    let of = split.map_or(String::new(), |split| format!(" of the split `{split}`"));
    let file = split.unwrap_or("rows");
    Some(format!(
        "download the .parquet or .jsonl files{of} from https://huggingface.co/datasets/{name} on \
         a machine with network, and put them into {} (as {file}.parquet or {file}.jsonl)",
        folder.display()
    ))
}

/// Reads the tasks that the patterns match, without building recipes. Fails if there are no tasks,
/// or if rows cannot be read, because a benchmark with missing tasks is a different benchmark. The
/// error lists the unreadable rows.
pub async fn read_complete_dataset(
    patterns: &[String],
    cache: &Path,
    say: ProgressSink<'_>,
) -> Result<LoadedDataset, UserError> {
    read_complete_dataset_with_retention(patterns, cache, RowRetention::Tasks, say).await
}

/// Like [`read_complete_dataset`], but `retention` can request data of the rows that their tasks do not
/// contain.
pub async fn read_complete_dataset_with_retention(
    patterns: &[String],
    cache: &Path,
    retention: RowRetention,
    say: ProgressSink<'_>,
) -> Result<LoadedDataset, UserError> {
    if patterns.is_empty() {
        return Err(UserError::new("no tasks given").hint("pass a file, a glob or a dataset"));
    }
    let loaded = read_with_retention(patterns, cache, retention, say).await?;
    for warning in &loaded.warnings {
        say(format!("warning: {warning}"));
    }
    let has_tasks = !loaded.tasks.is_empty();
    let (left_out, bad): (Vec<_>, Vec<_>) =
        loaded.bad_rows.iter().partition(|bad| bad.is_task_folder && has_tasks);
    if !bad.is_empty() {
        let rows = deduplicate_errors(
            bad.iter().map(|bad| (bad.location(), bad.error())),
            MAX_LISTED_ROWS,
        );
        let rows = join_rows(rows);
        return Err(UserError::new(rows).hint("fix or remove these rows"));
    }
    if !left_out.is_empty() {
        for bad in &left_out {
            say(format!("warning: {bad}; this folder was skipped"));
        }
        let folders: BTreeSet<_> = left_out.iter().filter_map(|bad| bad.file.parent()).collect();
        say(format!(
            "warning: skipped {} of {}, so the results will not cover the whole dataset",
            folders.len(),
            count_with_noun(folders.len() + loaded.tasks.len(), "task")
        ));
    }
    if loaded.tasks.is_empty() && loaded.recipes.is_empty() {
        return Err(UserError::new(format!("no tasks in {}", patterns.join(", ")))
            .hint("pass task or recipe files, or a dataset (docs/reference/datasets.md)"));
    }
    Ok(loaded)
}

/// Maximum number of rows to list. Without a limit, a file in another format would fill the
/// terminal.
pub const MAX_LISTED_ROWS: usize = 20;

/// Joins rows, one per line, and truncates long lists.
pub fn join_rows(mut rows: Vec<String>) -> String {
    let more = rows.len().saturating_sub(MAX_LISTED_ROWS);
    rows.truncate(MAX_LISTED_ROWS);
    if more > 0 {
        rows.push(format!("and {more} more"));
    }
    rows.join("\n")
}

/// Returns the tasks that were read. Tasks of unbuilt recipes are not included.
pub fn planned_tasks(dataset: &LoadedDataset) -> std::io::Result<Vec<PlannedTask>> {
    let planned = |task: &Task| {
        let base_dir = to_absolute_path(&dataset.base_dir(&task.id).unwrap_or_default())?;
        Ok(PlannedTask { task: Arc::new(task.clone()), base_dir })
    };
    dataset.tasks.iter().map(planned).collect()
}

/// Builds the recipes. Returns their tasks and the tasks that were read.
pub async fn build_tasks(
    dataset: LoadedDataset,
    cache: &Path,
    backend: &Arc<dyn Backend>,
    say: ProgressSink<'_>,
) -> Result<Vec<PlannedTask>, PlanError> {
    let mut tasks = planned_tasks(&dataset)?;
    tasks.extend(build_recipe_tasks(dataset.recipes, cache, backend, say).await?);
    Ok(tasks)
}

/// Returns the tasks of recipes. Builds those that are not cached.
pub async fn build_recipe_tasks(
    recipes: Vec<RecipeFile>,
    cache: &Path,
    backend: &Arc<dyn Backend>,
    say: ProgressSink<'_>,
) -> Result<Vec<PlannedTask>, PlanError> {
    let mut tasks = Vec::new();
    let sources = Sources::new(cache.join("sources"));
    for located in recipes {
        let name = located.recipe.id.clone();
        let built = proctor_collection::build_cached(
            &located.recipe,
            backend.as_ref(),
            &sources,
            &cache.join(BUILT_TASKS_DIR),
            &|what| say(format!("{name}: {what}")),
        )
        .await
        .map_err(|error| PlanError::Recipe { name: name.clone(), why: error.to_string() })?;
        let beside = located.file.parent().unwrap_or(Path::new("."));
        tasks.push(PlannedTask { task: Arc::new(built), base_dir: to_absolute_path(beside)? });
    }
    Ok(tasks)
}

/// Makes a path absolute, because the run may be resumed from another current directory.
fn to_absolute_path(path: &Path) -> std::io::Result<PathBuf> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    path.canonicalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_without_a_file_suffix_look_like_hub_datasets() {
        for (pattern, expected) in [
            ("SWE-bench/SWE-bench_Lite", true),
            ("owner/name-v1.0@main", true),
            ("tasks/demo.jsonl", false),
            ("tasks/rows.parquet", false),
            ("./tasks", false),
            ("a/b/c", false),
        ] {
            assert_eq!(looks_like_hub_dataset(pattern), expected, "{pattern}");
        }
    }
}
