//! Evidence that a task's own tests and library give for every solution.
//!
//! Tests that write their data anew, a library that changes the interpreter for a living: gold's own run
//! shows it. Only gold's run can tell that from an attack, and it is asked for only where there is
//! something to tell.

use std::collections::BTreeSet;

use proctor_types::{Evidence, Fault};
use serde::{Deserialize, Serialize};

use crate::{Graded, policy::Policy};

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
