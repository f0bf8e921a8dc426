//! What is to be run, and what came of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proctor_sandbox_api::wire::Exited;
use proctor_types::{Evidence, TestStatus};

use crate::paths::file_of;

/// One start of the test interpreter.
#[derive(Debug, Clone)]
pub struct TestPlan {
    /// `python [flags] -m pytest [arguments]` or `pytest [arguments]`, without test files.
    pub command: Vec<String>,
    /// The root of test ids and of pytest, and the working directory.
    pub workdir: String,
    /// Test files, relative to `workdir`.
    pub files: Vec<String>,
    /// The tests to run; without it, all of `files`.
    pub ids: Option<Vec<String>>,
    /// Laid over a minimal environment (PATH, HOME, LANG).
    pub env: BTreeMap<String, String>,
    /// For the whole run. At the limit everything is killed.
    pub time_limit: Duration,
    pub user: Option<String>,
}

impl TestPlan {
    /// The part of it that is in these files.
    pub(crate) fn only(&self, files: &BTreeSet<String>) -> Self {
        let ids = self
            .ids
            .as_ref()
            .map(|ids| ids.iter().filter(|id| files.contains(file_of(id))).cloned().collect());
        Self { files: files.iter().cloned().collect(), ids, ..self.clone() }
    }
}

/// What a test run reported.
#[derive(Debug, Clone)]
pub struct TestRun {
    /// Every test that was collected or reported, and every id that was asked for.
    pub tests: BTreeMap<String, TestStatus>,
    /// Files that could not be collected, with the reason.
    pub collect_errors: BTreeMap<String, String>,
    /// As the kernel told it.
    pub exit: Exited,
    /// The results have a beginning and an end that agrees with the exit status and the count.
    pub complete: bool,
    /// Standard output, then standard error. For people only: no result is read from it.
    pub log: Vec<u8>,
    /// The results pipe's bytes.
    pub raw: Vec<u8>,
    pub evidence: Vec<Evidence>,
}

impl TestRun {
    /// The status of a test; [`TestStatus::Missing`] where nothing was reported.
    pub fn status(&self, id: &str) -> TestStatus {
        self.tests.get(id).copied().unwrap_or(TestStatus::Missing)
    }

    /// Takes the later word on tests that failed, and all else that a second run of them showed.
    /// Returns the tests that pass by it.
    pub(crate) fn take_again(&mut self, again: Self) -> Vec<String> {
        let bad = [TestStatus::Failed, TestStatus::Error];
        let mut passed = Vec::new();
        for (id, status) in again.tests {
            let now = self.tests.get_mut(&id).filter(|now| bad.contains(now));
            if let Some(now) = now.filter(|_| status == TestStatus::Passed) {
                *now = status;
                passed.push(id);
            }
        }
        self.complete &= again.complete;
        self.log.extend_from_slice(b"\n===== again, without canaries =====\n");
        self.log.extend_from_slice(&again.log);
        self.raw.extend_from_slice(&again.raw);
        self.evidence.extend(again.evidence);
        passed
    }
}
