//! What to run, and the result.

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
    /// Root of the test ids and of pytest, and the working directory.
    pub workdir: String,
    /// Test files, relative to `workdir`.
    pub files: Vec<String>,
    /// The tests to run; `None` for all of `files`.
    pub ids: Option<Vec<String>>,
    /// Added to a minimal environment (PATH, HOME, LANG).
    pub env: BTreeMap<String, String>,
    /// For the whole run. When it is reached, everything is killed.
    pub time_limit: Duration,
    pub user: Option<String>,
}

impl TestPlan {
    /// The part of the plan in these files.
    pub(crate) fn only(&self, files: &BTreeSet<String>) -> Self {
        let ids = self
            .ids
            .as_ref()
            .map(|ids| ids.iter().filter(|id| files.contains(file_of(id))).cloned().collect());
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
    /// As reported by the kernel.
    pub exit: Exited,
    /// The results have a start record, and an end record that matches the exit status and the
    /// count.
    pub complete: bool,
    /// Standard output, then standard error. For people only: no result is read from it.
    pub log: Vec<u8>,
    /// Bytes of the results pipe.
    pub raw: Vec<u8>,
    pub evidence: Vec<Evidence>,
}

impl TestRun {
    /// The status of a test; [`TestStatus::Missing`] if nothing was reported.
    pub fn status(&self, id: &str) -> TestStatus {
        self.tests.get(id).copied().unwrap_or(TestStatus::Missing)
    }

    /// Takes the results of a second run for failed tests, and everything else that it shows.
    /// Returns the tests that now pass.
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
