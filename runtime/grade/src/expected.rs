//! Evidence that a task's own tests and library give for every solution.
//!
//! Tests that write their data anew, a library that changes the interpreter for a living: gold's own run
//! shows it. Only gold's run can tell that from an attack, and it is asked for only where there is
//! something to tell.

use std::collections::BTreeSet;

use proctor_types::{Evidence, Fault, Verdict};
use serde::{Deserialize, Serialize};

use crate::{Graded, evidence::OFFICIAL_ONLY, policy::Policy};

/// Kinds of evidence with what they say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected(BTreeSet<(String, String)>);

impl Expected {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has_any_of(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    pub(crate) fn contains(&self, evidence: &Evidence) -> bool {
        self.0.contains(&(evidence.kind.clone(), evidence.what.clone()))
    }
}

/// What of a grading's evidence would be no evidence if gold gave it too.
///
/// # Errors
///
/// A fault of the grade where the policy cannot be read.
pub fn expected_of_gold(graded: &Graded) -> Result<Expected, Fault> {
    let kinds = &Policy::get()?.expected_of_gold;
    let evidence = graded.verdict.evidence.iter().filter(|evidence| kinds.contains(&evidence.kind));
    Ok(Expected(evidence.map(|found| (found.kind.clone(), found.what.clone())).collect()))
}

/// The evidence that gold's strict grading gives. Where it does not resolve either, strict cannot judge the
/// task in full, and says nothing about a patch that the benchmark's own procedure resolves.
///
/// # Errors
///
/// A fault of the grade where the policy cannot be read.
pub fn given_by_gold(graded: &Graded) -> Result<Expected, Fault> {
    let mut expected = expected_of_gold(graded)?;
    expected.0.extend(unconfirmed(&graded.verdict).map(|what| (OFFICIAL_ONLY.to_owned(), what)));
    Ok(expected)
}

/// Why the strict policy does not resolve, and by which tests.
pub(crate) fn unconfirmed(verdict: &Verdict) -> Option<String> {
    let strict = verdict.policies.get("strict").filter(|strict| !strict.resolved)?;
    let failed = verdict.fail_to_pass.failed.iter().chain(&verdict.pass_to_pass.failed);
    let failed: Vec<&str> = failed.map(String::as_str).collect();
    let ids = if failed.is_empty() { String::new() } else { format!(": {}", failed.join(", ")) };
    Some(format!("strict says: {}{ids}", strict.why))
}
