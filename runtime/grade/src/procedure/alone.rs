//! Creates the official verdict if the strict policy cannot run the tests.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::{Fault, Task};

use crate::{
    Expected, Graded,
    evidence::{PATCH_REJECTED, STRICT_NOT_RUN, note},
    launch::starts_pytest,
    procedure::{OfficialRun, Trouble, has_official_run},
    verdict::build_verdict,
};

/// Whether only the benchmark's own procedure can grade the task: pytest does not run its tests
/// (Django and sympy have their own runners), so the recorder could not start before the graded code.
pub fn only_official(task: &Task) -> bool {
    has_official_run(task) && task.report().is_none() && !starts_pytest(&task.test_command)
}

impl OfficialRun {
    /// Returns a verdict without a strict policy. That policy did not run, so it neither resolves nor
    /// rejects the patch.
    ///
    /// # Errors
    ///
    /// The grader's own policy cannot be read, which is a build fault.
    pub fn alone(mut self, task: &Task) -> Result<Graded, Fault> {
        let what = format!("{:?} does not start pytest", task.test_command.join(" "));
        let mut evidence = vec![note(STRICT_NOT_RUN, what)];
        if self.trouble == Some(Trouble::Rejected) {
            evidence.push(note(PATCH_REJECTED, self.official.why.clone()));
        }
        // There is no strict verdict, so all evidence counts.
        evidence.append(&mut self.evidence);
        let mut verdict = build_verdict(task, &BTreeMap::new(), false, evidence, &BTreeSet::new())?;
        verdict.policies.clear();
        Ok(Graded { verdict, log: Vec::new(), raw: Vec::new() }.beside(self, &Expected::default()))
    }
}
