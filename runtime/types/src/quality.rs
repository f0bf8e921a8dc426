//! The quality of a dataset's tasks: the known problems with each task, stored next to the dataset
//! like a certificate.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{TaskId, count_with_noun};

/// The version of the file format. Reports reject other versions.
pub const QUALITY_SCHEMA_VERSION: u32 = 1;

/// The file that `proctor tasks quality --out FILE` writes and `proctor report --quality FILE`
/// reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QualityFile {
    /// The value of [`QUALITY_SCHEMA_VERSION`] when the file was written.
    pub schema_version: u32,
    /// The version of Proctor that wrote the file.
    pub proctor: String,
    /// When the file was written, in seconds since the Unix epoch.
    pub made: u64,
    /// SHA-256 of the sorted task digests.
    pub dataset: String,
    /// SHA-256 of the certificate that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The dataset's tasks, in order.
    pub tasks: Vec<TaskQuality>,
}

/// The known problems with one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskQuality {
    /// The task's id.
    pub task: TaskId,
    /// SHA-256 of the task's canonical JSON. The entry does not apply to a task that has changed
    /// since.
    pub digest: String,
    /// Reasons to look at the score without this task. Empty if there is no known problem.
    pub marks: BTreeSet<QualityMark>,
    /// The fraction of gold's code that is also in the statement, from 0 to 1. Null if there is no
    /// gold, or if gold has too little code.
    #[serde(default, deserialize_with = "deserialize_share")]
    pub leak_score: Option<f64>,
    /// Whether gold failed in any run of the certificate. Null if the task is not certified.
    pub gold_fails: Option<bool>,
    /// Whether an empty patch resolved the task in any run. Null if the task is not certified.
    pub noop_passes: Option<bool>,
    /// Test ids whose status differed between runs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub flaky: BTreeSet<String>,
    /// Test ids that failed only with half the CPUs and memory.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub resource_sensitive: BTreeSet<String>,
    /// Attacks that resolved the task, by policy. Null if the task was not attacked.
    pub attacks: Option<BTreeMap<String, Vec<String>>>,
    /// Earlier tasks of the dataset that require the same work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub duplicate_of: Vec<TaskId>,
    /// Tests that use the network.
    pub network: DependencySigns,
    /// Tests whose result depends on the date.
    pub date: DependencySigns,
}

/// A known problem with a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QualityMark {
    /// The statement reveals much of the solution.
    Leaky,
    /// The gold patch does not always resolve the task.
    GoldFails,
    /// An empty patch resolves the task.
    NoopPasses,
    /// The result of a test that grading does not ignore varies between runs.
    Flaky,
    /// An attack resolves the task under the policy that determines `resolved`.
    Attacked,
    /// An earlier task requires the same work.
    Duplicate,
}

impl std::fmt::Display for QualityMark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Leaky => "leaky",
            Self::GoldFails => "gold fails",
            Self::NoopPasses => "noop passes",
            Self::Flaky => "flaky",
            Self::Attacked => "attacked",
            Self::Duplicate => "duplicate",
        })
    }
}

/// Signs that a task's tests depend on something, such as the network. A sign is a line of text and
/// not the result of a run, so a sign alone does not mark the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DependencySigns {
    /// How the dependency was determined.
    pub by: SignSource,
    /// Lines of tests that seem to have the dependency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<DependencySign>,
    /// Number of further lines that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// How a dependency was determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignSource {
    /// Runs show that there is no dependency: gold resolved the task without it in every run of the
    /// certificate.
    Runs,
    /// The readable text of the tests was searched.
    Text,
    /// No text of the tests was readable.
    Nothing,
}

/// A line of a test that seems to have a dependency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DependencySign {
    /// The id of the test, or its file.
    pub test: String,
    /// Line number, counted from 1 in the file, or in the lines that the test patch adds to the
    /// file.
    pub line: usize,
    /// The line's text.
    pub text: String,
}

fn deserialize_share<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    let share: Option<f64> = Option::deserialize(deserializer)?;
    match share.filter(|share| !(0.0..=1.0).contains(share)) {
        Some(other) => Err(serde::de::Error::custom(format_args!(
            "the leak score must be between 0 and 1, not {other}"
        ))),
        None => Ok(share),
    }
}

impl QualityFile {
    /// Returns the known problems of this version of the task, or `None` if the file does not cover
    /// that version.
    pub fn task_quality(&self, task: &TaskId, digest: &str) -> Option<&TaskQuality> {
        self.tasks.iter().find(|one| one.task == *task && one.digest == digest)
    }

    /// Returns a sentence about the quality of a report's tasks.
    pub fn summary_sentence<'a>(
        &self,
        digests: impl IntoIterator<Item = (&'a TaskId, &'a str)>,
    ) -> String {
        let known: Vec<Option<&TaskQuality>> =
            digests.into_iter().map(|(task, digest)| self.task_quality(task, digest)).collect();
        let mut counts: BTreeMap<QualityMark, usize> = BTreeMap::new();
        let mut marked = 0;
        for task in known.iter().flatten().filter(|task| !task.marks.is_empty()) {
            marked += 1;
            for mark in &task.marks {
                *counts.entry(*mark).or_default() += 1;
            }
        }
        let counts: Vec<String> =
            counts.iter().map(|(mark, count)| format!("{mark} {count}")).collect();
        let counts =
            if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
        format!(
            "Quality of {}: {marked} marked{counts}; not judged: {}.",
            count_with_noun(known.len(), "task"),
            known.iter().filter(|one| one.is_none()).count(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leak_score_rejects_values_outside_0_to_1() {
        let file = |share: &str| {
            serde_json::from_str::<TaskQuality>(&format!(
                r#"{{"task": "t", "digest": "d", "marks": [], "leak_score": {share},
                    "gold_fails": null, "noop_passes": null, "attacks": null,
                    "network": {{"by": "text"}}, "date": {{"by": "runs"}}}}"#
            ))
        };
        for share in ["0", "0.25", "1", "null"] {
            file(share).unwrap();
        }
        for share in ["7.5", "-0.1", "1.001"] {
            let error = file(share).unwrap_err().to_string();
            assert!(error.contains("between 0 and 1, not ") && error.contains("line 1"), "{error}");
        }
    }
}
