//! The result of an official policy, and how it is combined with the strict policy's result.

use std::collections::BTreeMap;

use proctor_types::{PolicyVerdict, Task, TestGroup, TestStatus, Verdict};

use crate::{OfficialPolicy, Subject, parsers::StatusMap};

/// The result of grading by a benchmark's own rules.
#[derive(Debug, Clone)]
pub struct OfficialVerdict {
    pub benchmark: String,
    pub version: String,
    pub is_resolved: bool,
    /// Whether the harness would have graded the patch. False if the harness would have counted an
    /// error or could not have applied the patch.
    pub was_graded: bool,
    pub reason: String,
    pub pass_rate: f64,
    pub fail_to_pass: TestGroup,
    pub pass_to_pass: TestGroup,
    /// The expected tests. For benchmarks that expect files, the printed tests.
    pub tests: BTreeMap<String, TestStatus>,
    /// All statuses that the parser found, in the log's words. For benchmarks that expect files,
    /// the statuses come from the fail-to-pass run.
    pub statuses: StatusMap,
}

impl OfficialPolicy {
    /// Returns the verdict for a log from which the harness reads no statuses.
    pub(crate) fn unresolved_verdict(&self, task: &Task, reason: &str) -> OfficialVerdict {
        let listed = |ids: &[String]| match self.subject {
            Subject::Id => TestGroup { passed: Vec::new(), failed: ids.to_vec() },
            Subject::File => TestGroup::default(),
        };
        let (f2p, p2p) = (listed(&task.fail_to_pass), listed(&task.pass_to_pass));
        OfficialVerdict {
            benchmark: self.benchmark.clone(),
            version: self.version.clone(),
            is_resolved: false,
            was_graded: false,
            reason: reason.to_owned(),
            pass_rate: 0.0,
            tests: f2p
                .failed
                .iter()
                .chain(&p2p.failed)
                .map(|id| (id.clone(), TestStatus::Missing))
                .collect(),
            fail_to_pass: f2p,
            pass_to_pass: p2p,
            statuses: StatusMap::default(),
        }
    }
}

/// Adds the official result to the strict verdict. The verdict's top level repeats the official
/// result.
pub fn add_official_verdict(strict: Verdict, official: OfficialVerdict) -> Verdict {
    let mut policies = strict.policies;
    policies.insert(
        "official".to_owned(),
        PolicyVerdict {
            name: Some(official.benchmark),
            version: Some(official.version),
            resolved: official.is_resolved,
            why: official.reason,
        },
    );
    Verdict {
        resolved: official.is_resolved,
        counted: Some("official".to_owned()),
        passed_rate: official.pass_rate,
        fail_to_pass: official.fail_to_pass,
        pass_to_pass: official.pass_to_pass,
        tests: official.tests,
        policies,
        ..strict
    }
}

/// Converts a word in a log to a [`TestStatus`]. A word that no harness uses counts as missing.
pub(crate) fn parse_status(word: Option<&str>) -> TestStatus {
    match word {
        Some("PASSED") => TestStatus::Passed,
        Some("FAILED") => TestStatus::Failed,
        Some("ERROR") => TestStatus::Error,
        Some("SKIPPED") => TestStatus::Skipped,
        Some("XFAIL") => TestStatus::Xfailed,
        Some("XPASS") => TestStatus::Xpassed,
        _ => TestStatus::Missing,
    }
}

pub(crate) fn format_counts(
    f2p: &TestGroup,
    f2p_total: usize,
    p2p: &TestGroup,
    p2p_total: usize,
) -> String {
    format!(
        "{} of {f2p_total} fail-to-pass and {} of {p2p_total} pass-to-pass tests passed",
        f2p.passed.len(),
        p2p.passed.len()
    )
}
