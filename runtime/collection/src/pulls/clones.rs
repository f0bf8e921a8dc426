//! Merges the collections created from several clones into one dataset.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use proctor_types::count_with_noun;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::funnel::PullReport;
use crate::collect::CollectError;

/// The version of `report.json`.
const REPORT_SCHEMA: u32 = 1;

/// The files that are concatenated. A collection need not contain all of them.
const MERGED_FILES: [&str; 6] = [
    "tasks.jsonl",
    "feabench.jsonl",
    "feabench-standard.jsonl",
    "feabench-oracle.jsonl",
    "candidates.jsonl",
    "rejects.jsonl",
];

/// The collection created from one clone.
#[derive(Debug, Clone, PartialEq)]
pub struct CloneCollection {
    /// The output directory of the collection.
    pub folder: PathBuf,
    pub report: PullReport,
}

/// A clone from which no collection could be created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedClone {
    pub clone: String,
    pub reason: String,
}

/// The contents of `report.json` if there are several clones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClonesReport {
    pub schema_version: u32,
    pub repositories: Vec<PullReport>,
    pub failed: Vec<FailedClone>,
}

/// Merges the collections created from several clones into one dataset directory. Adds the
/// repository's name to each reject.
///
/// # Errors
/// [`CollectError::Io`] if a file cannot be read or written.
pub fn join_clones(
    out: &Path,
    clones: Vec<CloneCollection>,
    failures: Vec<FailedClone>,
) -> Result<ClonesReport, CollectError> {
    fs::create_dir_all(out).map_err(|error| io_error_at(out, error))?;
    for name in MERGED_FILES {
        let mut joined = None;
        for clone in &clones {
            let path = clone.folder.join(name);
            let text = match fs::read_to_string(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(io_error_at(&path, error)),
            };
            let joined: &mut String = joined.get_or_insert_default();
            for line in text.lines() {
                match name {
                    "rejects.jsonl" => joined.push_str(&add_repo_to_line(line, &clone.report.repo)),
                    _ => joined.push_str(line),
                }
                joined.push('\n');
            }
        }
        let path = out.join(name);
        // If none of the collections has this file, don't delete an existing one. For example, a
        // dry run must not delete the tasks of an earlier collection.
        if let Some(text) = joined {
            fs::write(&path, text).map_err(|error| io_error_at(&path, error))?;
        }
    }
    let repositories = clones.into_iter().map(|clone| clone.report).collect();
    let report = ClonesReport { schema_version: REPORT_SCHEMA, repositories, failed: failures };
    let path = out.join("report.json");
    let text = serde_json::to_string_pretty(&report).map(|text| text + "\n");
    text.map_err(io::Error::from)
        .and_then(|text| fs::write(&path, text))
        .map_err(|error| io_error_at(&path, error))?;
    let path = out.join("summary.md");
    fs::write(&path, report.summary()).map_err(|error| io_error_at(&path, error))?;
    Ok(report)
}

fn io_error_at(path: &Path, error: io::Error) -> CollectError {
    CollectError::Io { place: path.to_owned(), error }
}

fn add_repo_to_line(line: &str, repo: &str) -> String {
    match serde_json::from_str(line) {
        Ok(Value::Object(mut reject)) => {
            reject.insert("repo".to_owned(), repo.into());
            Value::Object(reject).to_string()
        }
        _ => line.to_owned(),
    }
}

impl ClonesReport {
    /// Returns the number of tasks in all repositories. In a dry run, returns the number of
    /// candidates.
    pub fn task_count(&self) -> usize {
        self.repositories.iter().map(|report| report.tasks.len()).sum()
    }

    /// Returns the number of rejected pull requests in all repositories.
    pub fn reject_count(&self) -> usize {
        self.repositories.iter().map(|report| report.rejects.len()).sum()
    }

    /// Renders FEA-Bench's Table 6 and each repository's report as Markdown.
    pub fn summary(&self) -> String {
        let mut out = format!(
            "# Pull requests of {}\n\n| repository | last pull request | merged | with tests | candidates | full | lite \
             |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
            count_with_noun(self.repositories.len(), "clone")
        );
        let mut sum = [0; 6];
        for report in &self.repositories {
            let counts = report.counts();
            out.push_str(&table_row(&report.repo, counts.map(|count| count.to_string())));
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        let [_, rest @ ..] = sum.map(|count| count.to_string());
        let [merged, tests, candidates, full, lite] = rest;
        out.push_str(&table_row("all", [String::new(), merged, tests, candidates, full, lite]));
        if !self.failed.is_empty() {
            out.push_str("\n| clone that failed | because |\n| --- | --- |\n");
            for failed in &self.failed {
                let plain = |text: &str| text.replace('|', "\\|").replace('\n', " ");
                out.push_str(&format!(
                    "| {} | {} |\n",
                    plain(&failed.clone),
                    plain(&failed.reason)
                ));
            }
        }
        for report in &self.repositories {
            out.push_str(&format!("\n#{}", report.summary()));
        }
        out
    }
}

fn table_row(name: &str, counts: [String; 6]) -> String {
    format!("| {name} | {} |\n", counts.join(" | "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write_collection(folder: &Path, repo: &str, tasks: usize) -> CloneCollection {
        let folder = folder.join(repo.replace('/', "__"));
        fs::create_dir_all(&folder).unwrap();
        let lines: String = (0..tasks).map(|at| format!("{{\"id\": \"{repo}-{at}\"}}\n")).collect();
        fs::write(folder.join("tasks.jsonl"), lines).unwrap();
        fs::write(folder.join("rejects.jsonl"), "{\"pull_number\":7,\"reason\":\"r\"}\n").unwrap();
        let task = |at: usize| {
            json!({"instance_id": format!("{repo}-{at}"), "pull_number": at, "title": "", "intent": "",
            "files": 1, "edited_lines": 1, "new_lines": 1, "functions": 1, "classes": 0, "fail_to_pass": 1,
            "pass_to_pass": 0, "lite": at == 0, "not_lite": []})
        };
        let report = json!({"schema_version": 1, "repo": repo, "commit": "0123", "since": null, "dry_run": false,
            "funnel": [["merged pull requests", 9], ["change tests", 5], ["have a small enough patch", 3]],
            "tasks": (0..tasks).map(task).collect::<Vec<_>>(), "rejects": [], "faults": [], "not_tried": 0,
            "last_pull": 40});
        CloneCollection { folder, report: serde_json::from_value(report).unwrap() }
    }

    #[test]
    fn join_clones_makes_one_dataset_with_a_funnel_per_clone() {
        let dir = tempfile::tempdir().unwrap();
        let clones = vec![
            write_collection(dir.path(), "a/one", 2),
            write_collection(dir.path(), "b/two", 1),
        ];
        let failed = vec![FailedClone { clone: "c".into(), reason: "no | history".into() }];
        let out = dir.path().join("out");
        fs::create_dir(&out).unwrap();
        fs::write(out.join("candidates.jsonl"), "of an earlier dry run\n").unwrap();
        let report = join_clones(&out, clones, failed).unwrap();
        let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
        assert_eq!(read("tasks.jsonl").lines().count(), 3);
        assert_eq!(
            read("rejects.jsonl").lines().map(|line| line.contains("\"repo\"")).collect::<Vec<_>>(),
            [true, true]
        );
        assert_eq!(read("candidates.jsonl"), "of an earlier dry run\n");
        let summary = read("summary.md");
        assert!(summary.contains("| a/one | 40 | 9 | 5 | 3 | 2 | 1 |"), "{summary}");
        assert!(summary.contains("| all |  | 18 | 10 | 6 | 3 | 2 |"), "{summary}");
        assert!(summary.contains("| c | no \\| history |"), "{summary}");
        assert!(summary.contains("## Pull requests of b/two"), "{summary}");
        assert_eq!((report.task_count(), report.repositories.len()), (3, 2));
        let written: ClonesReport = serde_json::from_str(&read("report.json")).unwrap();
        assert_eq!(written, report);
    }
}
