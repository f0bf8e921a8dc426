//! Recreates a dataset's tasks from the newest releases of the packages.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use proctor_patch::{Hunk, Patch, Side};
use proctor_types::{Fault, FaultCause, Source, Task, file_from_test_id};
use serde::Serialize;

use super::{
    origin::Origin,
    pipeline::{CollectError, CollectionContext, collect, to_json_lines},
};

/// A new task must remove at least this fraction of the functions that the old task for the same
/// test file removes. Otherwise, it counts as a different task.
const MIN_FUNCTION_OVERLAP: f64 = 0.5;

/// The result of renewing one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RenewalResult {
    pub task: String,
    /// The task's test file.
    pub file: String,
    /// The release that the old task was collected from.
    pub from: String,
    /// The package's newest release.
    pub to: Option<String>,
    /// The id of the new task.
    pub renewed: Option<String>,
    /// Why there is no new task.
    pub why: Option<String>,
}

/// Collects the test files of `tasks` again, this time from the newest release of each package.
/// Writes to `out`: one directory per release, `tasks.jsonl` with the new tasks, and
/// `renewed.jsonl`.
///
/// # Errors
/// [`CollectError`], for example if the index is unavailable. A test file that no longer yields a
/// task is not an error. The results list such files.
pub async fn renew(
    tasks: &[Task],
    out: &Path,
    context: &CollectionContext<'_>,
) -> Result<Vec<RenewalResult>, CollectError> {
    let mut by_release: BTreeMap<(&str, &str), Vec<&Task>> = BTreeMap::new();
    let mut results = Vec::new();
    for task in tasks {
        match &task.source {
            Some(Source::Pypi { pypi, version, .. }) => {
                by_release.entry((pypi, version)).or_default().push(task);
            }
            _ => {
                results.push(RenewalResult::new(task, "", None, "its source is not a PyPI release"))
            }
        }
    }
    let mut renewed_tasks = Vec::new();
    for ((name, version), tasks) in by_release {
        let newest = match context.sources.newest_version(name).await {
            Ok(newest) => newest,
            Err(Fault { what, cause: FaultCause::Missing, .. }) => {
                results.extend(
                    tasks.iter().map(|task| RenewalResult::new(task, version, None, &what)),
                );
                continue;
            }
            Err(fault) => return Err(fault.into()),
        };
        if newest == version {
            let same =
                |task: &&Task| RenewalResult::new(task, version, Some(&newest), "no newer release");
            results.extend(tasks.iter().map(same));
            continue;
        }
        (context.on_progress)(&format!("{name} {version} -> {newest}"));
        let origin = Origin::Release { name: name.to_owned(), version: newest.clone() };
        let release = format!("{name}=={newest}");
        let only: BTreeSet<String> = tasks.iter().map(|task| first_test_file(task)).collect();
        let context = CollectionContext { selected_files: Some(only), ..context.clone() };
        let folder = out.join(format!("{name}-{newest}"));
        let report = match collect(&origin, &release, &folder, &context).await {
            Ok(report) => report,
            Err(CollectError::NothingToCollect { what, .. }) => {
                let gone = |task: &&Task| RenewalResult::new(task, version, Some(&newest), &what);
                results.extend(tasks.iter().map(gone));
                continue;
            }
            Err(other) => return Err(other),
        };
        let fresh = read_tasks(&folder.join("tasks.jsonl"))?;
        for task in tasks {
            let file = first_test_file(task);
            let mut of = RenewalResult::new(task, version, Some(&newest), "");
            let found = fresh
                .iter()
                .find(|fresh| fresh.level == task.level && first_test_file(fresh) == file);
            let rejects = match task.level {
                Some(2) => &report.level_2.rejects,
                _ => &report.rejects,
            };
            let reject = rejects.iter().find(|reject| reject.file == file);
            match (found, reject) {
                (Some(fresh), _) if removes_same_functions(task, fresh) => {
                    (of.renewed, of.why) = (Some(fresh.id.to_string()), None);
                    renewed_tasks.push(fresh.clone());
                }
                (Some(_), _) => {
                    of.why = Some("the file now tests other functions".to_owned());
                }
                (None, Some(reject)) => {
                    of.why = Some(format!("{}: {}", reject.stage, reject.reason));
                }
                (None, None) => of.why = Some("the newest release has no such file".to_owned()),
            }
            results.push(of);
        }
    }
    results.sort_by(|a, b| a.task.cmp(&b.task));
    renewed_tasks.sort_by(|a, b| a.id.as_str().cmp(b.id.as_str()));
    for (name, text) in
        [("tasks.jsonl", to_json_lines(&renewed_tasks)), ("renewed.jsonl", to_json_lines(&results))]
    {
        let path = out.join(name);
        let written =
            fs::create_dir_all(out).and_then(|()| fs::write(&path, text.map_err(io::Error::from)?));
        written.map_err(|error| CollectError::Io { place: path, error })?;
    }
    Ok(results)
}

impl RenewalResult {
    fn new(task: &Task, old_version: &str, new_version: Option<&str>, reason: &str) -> Self {
        Self {
            task: task.id.to_string(),
            file: first_test_file(task),
            from: old_version.to_owned(),
            to: new_version.map(str::to_owned),
            renewed: None,
            why: Some(reason.to_owned()),
        }
    }
}

fn first_test_file(task: &Task) -> String {
    task.fail_to_pass.first().map_or("", |id| file_from_test_id(id)).to_owned()
}

/// Whether the new task removes enough of the functions that the old task removes.
fn removes_same_functions(old_task: &Task, new_task: &Task) -> bool {
    let (old, new) = (removed_functions(old_task), removed_functions(new_task));
    old.intersection(&new).count() as f64 >= MIN_FUNCTION_OVERLAP * old.len() as f64
}

/// Returns the file and name of each function whose `def` line the mask removes.
fn removed_functions(task: &Task) -> BTreeSet<(String, String)> {
    let mask = task.mask.clone().unwrap_or_default();
    let mut out = BTreeSet::new();
    for file in Patch::parse(mask.as_bytes()).files {
        let path = String::from_utf8_lossy(file.path().as_bytes()).into_owned();
        for line in file.hunks().iter().flat_map(|hunk: &Hunk| &hunk.lines) {
            let text = String::from_utf8_lossy(&line.bytes).into_owned();
            let text = text.trim_start();
            let named = text.strip_prefix("async ").unwrap_or(text).strip_prefix("def ");
            if let Some(named) = named.filter(|_| line.side == Side::Old) {
                let name = named.split('(').next().unwrap_or(named);
                out.insert((path.clone(), name.trim().to_owned()));
            }
        }
    }
    out
}

fn read_tasks(file: &Path) -> Result<Vec<Task>, CollectError> {
    let failed = |error: io::Error| CollectError::Io { place: file.to_owned(), error };
    let text = fs::read_to_string(file).map_err(failed)?;
    let tasks: serde_json::Result<Vec<Task>> = text.lines().map(serde_json::from_str).collect();
    tasks.map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(functions: &[&str]) -> Task {
        let lines: String =
            functions.iter().map(|name| format!("-def {name}(x):\n-    return x\n")).collect();
        let mask = format!(
            "diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1,{} +0,0 @@\n{lines}",
            functions.len() * 2
        );
        serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {"base": "host"},
            "mask": mask, "fail_to_pass": ["tests/test_m.py::test_f"], "test_command": ["pytest"]
        }))
        .unwrap()
    }

    #[test]
    fn removes_same_functions_accepts_half_of_the_functions() {
        let old = task(&["f", "g"]);
        assert!(removes_same_functions(&old, &task(&["f", "h", "i"])));
        assert!(!removes_same_functions(&old, &task(&["h"])));
        assert_eq!(first_test_file(&old), "tests/test_m.py");
    }
}
