//! A dataset's certificate: the results of grading gold and noop repeatedly on a host, and the
//! results of attacks.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AttackCertificate, Integrity, TaskId, TestStatus};

/// The version of the certificate format. Grading rejects other versions.
pub const CERTIFICATE_SCHEMA_VERSION: u32 = 1;

/// Records how reliable a dataset's tests are on one host and back end. `proctor tasks validate
/// --certificate FILE` writes it with `--repeat N`, `--attack` or both. Grading uses the
/// certificate, and reports cite it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The value of [`CERTIFICATE_SCHEMA_VERSION`] when the certificate was written.
    pub schema_version: u32,
    /// The version of Proctor that wrote the certificate.
    pub proctor: String,
    /// Identifies the grader's code and policies.
    pub grader: String,
    /// When the certificate was written, in seconds since the Unix epoch.
    pub made: u64,
    /// `native` or `docker`. The certificate does not apply to runs on the other back end.
    pub backend: String,
    /// The machine: its operating system (`os`) and architecture (`arch`).
    pub host: Value,
    /// Number of runs of gold and of noop on each task.
    pub repeat: u32,
    /// One entry per task that was validated more than once; empty without `--repeat`.
    pub tasks: Vec<CertifiedTask>,
    /// The results of attacks on the tasks. Absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attacks: Option<AttackCertificate>,
}

/// The results of repeated runs of gold and noop on one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertifiedTask {
    /// The task's id.
    pub task: TaskId,
    /// SHA-256 of the task's canonical JSON. A task that has changed since is not certified.
    pub digest: String,
    /// Number of runs in which gold resolved the task.
    pub gold_resolved: u32,
    /// Number of runs in which an empty patch resolved the task. The task is useless unless this is
    /// 0.
    pub noop_resolved: u32,
    /// Number of gold's verdicts by integrity. If gold is `unverified`, verdicts of other patches
    /// will be too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gold_integrity: BTreeMap<Integrity, u32>,
    /// Test ids whose status differed between runs of the same arm, with the number of runs for
    /// each status.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flaky: BTreeMap<String, BTreeMap<TestStatus, u32>>,
    /// Test ids that passed in every run of gold except the one with half the CPUs and half the
    /// memory.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub resource_sensitive: BTreeSet<String>,
    /// Duration of each of gold's test runs, in seconds.
    pub gold_seconds: Vec<f64>,
    /// Gold's slowest tests and their duration in seconds, slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<(String, f64)>,
    /// Peak memory of the test process and its children in MiB, as reported by the interpreter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_mb: Option<f64>,
}

impl Certificate {
    /// Returns the ids of a task's unreliable tests, or `None` if this version of the task is not
    /// certified.
    pub fn unreliable_tests(&self, task: &TaskId, digest: &str) -> Option<BTreeSet<String>> {
        let found = self.tasks.iter().find(|one| one.task == *task && one.digest == digest)?;
        Some(found.flaky.keys().chain(&found.resource_sensitive).cloned().collect())
    }
}

/// How grading treats tests that a certificate lists as flaky or resource-sensitive. Official
/// policies ignore this setting and count such tests as their benchmark does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlakePolicy {
    /// Run and show unreliable tests, but ignore their results.
    #[default]
    Quarantine,
    /// Grade a trial twice more if only unreliable tests failed. The majority of the three results
    /// counts.
    Vote,
    /// Count unreliable tests like all other tests.
    Count,
}
