//! Evidence that a task's own tests and libraries produce for every solution.
//!
//! Examples are tests that rewrite their data and libraries that patch the interpreter. Only a
//! grading of the gold patch can distinguish these from an attack. Gold is only graded if there is
//! such evidence.

use std::collections::BTreeSet;

use proctor_types::{Evidence, Fault, Verdict};
use serde::{Deserialize, Serialize};

use crate::{GradingResult, evidence::OFFICIAL_ONLY, policy::Policy};

/// A set of evidence. Each item is a kind and a string.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedEvidence(BTreeSet<(String, String)>);

impl ExpectedEvidence {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn intersects(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    pub(crate) fn contains(&self, evidence: &Evidence) -> bool {
        self.0.contains(&(evidence.kind.clone(), evidence.what.clone()))
    }
}

/// Returns the evidence from gold's grading that does not count against other patches.
///
/// # Errors
///
/// A grading fault if the policy cannot be read.
pub fn expected_gold_evidence(result: &GradingResult) -> Result<ExpectedEvidence, Fault> {
    let kinds = &Policy::get()?.expected_of_gold;
    let evidence = result.verdict.evidence.iter().filter(|evidence| kinds.contains(&evidence.kind));
    Ok(ExpectedEvidence(evidence.map(|found| (found.kind.clone(), found.what.clone())).collect()))
}

/// Returns the evidence from gold's strict grading. If gold does not resolve the task under the
/// strict policy either, that policy cannot fully judge the task. Its result then does not count
/// against a patch that resolves the task under the benchmark's own procedure.
///
/// # Errors
///
/// A grading fault if the policy cannot be read.
pub fn expected_strict_gold_evidence(result: &GradingResult) -> Result<ExpectedEvidence, Fault> {
    let mut expected = expected_gold_evidence(result)?;
    expected.0.extend(strict_failure(&result.verdict).map(|what| (OFFICIAL_ONLY.to_owned(), what)));
    Ok(expected)
}

/// Why the strict policy does not resolve the task, with the failed tests; `None` if it does.
pub(crate) fn strict_failure(verdict: &Verdict) -> Option<String> {
    let strict = verdict.policies.get("strict").filter(|strict| !strict.resolved)?;
    let failed = verdict.fail_to_pass.failed.iter().chain(&verdict.pass_to_pass.failed);
    let failed: Vec<&str> = failed.map(String::as_str).collect();
    let ids = if failed.is_empty() { String::new() } else { format!(": {}", failed.join(", ")) };
    Some(format!("strict verdict: {}{ids}", strict.why))
}
