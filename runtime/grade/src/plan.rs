//! A test run's plan and results.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proctor_sandbox_api::wire::CommandExit;
use proctor_types::{Evidence, TestStatus};

use crate::paths::file_from_test_id;

/// The parameters for starting the test interpreter once.
#[derive(Debug, Clone)]
pub struct TestPlan {
    /// `python [flags] -m pytest [arguments]` or `pytest [arguments]`, without the test files.
    pub command: Vec<String>,
    /// The working directory, pytest's root directory and the root of the test ids.
    pub workdir: String,
    /// Test files, relative to `workdir`.
    pub files: Vec<String>,
    /// The tests to run; `None` for all of `files`.
    pub ids: Option<Vec<String>>,
    /// Environment variables to add to a minimal environment (PATH, HOME, LANG).
    pub env: BTreeMap<String, String>,
    /// Time limit for the whole run. All processes are killed when the limit is reached.
    pub time_limit: Duration,
    pub user: Option<String>,
}

impl TestPlan {
    /// Returns the plan restricted to the given files.
    pub(crate) fn restrict_to_files(&self, files: &BTreeSet<String>) -> Self {
        let ids = self.ids.as_ref().map(|ids| {
            ids.iter().filter(|id| files.contains(file_from_test_id(id))).cloned().collect()
        });
        Self { files: files.iter().cloned().collect(), ids, ..self.clone() }
    }
}

/// The reported results of a test run.
#[derive(Debug, Clone)]
pub struct TestRun {
    /// Every collected or reported test, and every requested id.
    pub tests: BTreeMap<String, TestStatus>,
    /// Files that could not be collected, with the reason.
    pub collect_errors: BTreeMap<String, String>,
    /// The exit status that the kernel reported.
    pub exit: CommandExit,
    /// Whether the results have a start record, and an end record that matches the exit status and
    /// the number of test records.
    pub is_complete: bool,
    /// Standard output, then standard error. For humans only: no results are read from it.
    pub log: Vec<u8>,
    /// The raw content of the results pipe.
    pub raw_results: Vec<u8>,
    pub evidence: Vec<Evidence>,
}

impl TestRun {
    /// The status of a test; [`TestStatus::Missing`] if nothing was reported.
    pub fn status(&self, id: &str) -> TestStatus {
        self.tests.get(id).copied().unwrap_or(TestStatus::Missing)
    }

    /// Adds the results, log and evidence of a run in which failed tests were rerun. Returns the
    /// tests that passed in the rerun.
    pub(crate) fn merge_rerun(&mut self, rerun: Self) -> Vec<String> {
        let bad = [TestStatus::Failed, TestStatus::Error];
        let mut passed = Vec::new();
        for (id, status) in rerun.tests {
            let now = self.tests.get_mut(&id).filter(|now| bad.contains(now));
            if let Some(now) = now.filter(|_| status == TestStatus::Passed) {
                *now = status;
                passed.push(id);
            }
        }
        self.is_complete &= rerun.is_complete;
        self.log.extend_from_slice(b"\n===== rerun without canaries =====\n");
        self.log.extend_from_slice(&rerun.log);
        self.raw_results.extend_from_slice(&rerun.raw_results);
        self.evidence.extend(rerun.evidence);
        passed
    }
}
