//! Creates the official verdict if the strict policy cannot run the tests.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::{Fault, Task};

use crate::{
    ExpectedEvidence, GradingResult,
    evidence::{PATCH_REJECTED_KIND, STRICT_NOT_RUN, new_evidence},
    procedure::{IncompleteReason, OfficialRun},
    verdict::build_verdict,
};

impl OfficialRun {
    /// Returns a verdict that contains no result of the strict policy, because that policy did not
    /// run.
    ///
    /// # Errors
    ///
    /// The grader's own policy cannot be read, which means that the build is defective.
    pub fn into_official_result(mut self, task: &Task) -> Result<GradingResult, Fault> {
        let what = format!("{:?} does not start pytest", task.test_command.join(" "));
        let mut evidence = vec![new_evidence(STRICT_NOT_RUN, what)];
        if self.incomplete_reason == Some(IncompleteReason::Rejected) {
            evidence.push(new_evidence(PATCH_REJECTED_KIND, self.verdict.reason.clone()));
        }
        // There is no strict verdict, so all evidence counts.
        evidence.append(&mut self.evidence);
        let mut verdict = build_verdict(task, &BTreeMap::new(), false, evidence, &BTreeSet::new())?;
        verdict.policies.clear();
        Ok(GradingResult { verdict, log: Vec::new(), raw_results: Vec::new() }
            .merge_official(self, &ExpectedEvidence::default()))
    }
}
