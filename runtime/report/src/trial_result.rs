//! The data about one planned trial that a report is built from.

use proctor_record::GradingFailure;
use proctor_types::{ArmId, EarlierTries, Outcome, PATCH_REJECTED_KIND, TaskId, Verdict};

use crate::{SingleShot, TaskFacts};

/// One planned trial, with everything recorded about it so far.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialResult {
    pub arm: ArmId,
    pub arm_name: String,
    /// Whether the arm is a control. Controls are compared with other arms, but the report does not
    /// count them as arms under study.
    pub is_control: bool,
    pub task: TaskId,
    /// Counted from 1.
    pub attempt: u32,
    /// `None` if the trial has not ended.
    pub outcome: Option<Outcome>,
    /// The cost of the tries that do not count toward the result.
    pub earlier_tries: EarlierTries,
    /// `None` if the trial was not graded or could not be graded.
    pub verdict: Option<Verdict>,
    /// Whether the trial was deliberately not graded. Imported trials are only graded on request.
    pub grading_not_requested: bool,
    /// Why the trial has no verdict, if its last grading failed.
    pub grading_failure: Option<GradingFailure>,
    /// `None` if no patch was collected.
    pub patch_bytes: Option<u64>,
    /// Files that differ from the record. Each sentence names a file and the fix.
    pub damage: Vec<String>,
    /// Details of a single-response trial.
    pub single_shot: Option<SingleShot>,
    pub facts: TaskFacts,
}

impl TrialResult {
    /// Whether the patch was not empty and could be applied. As in the benchmarks, an empty patch
    /// counts as not applied.
    pub fn has_applied_patch(&self) -> bool {
        let rejected = |verdict: &Verdict| {
            verdict.evidence.iter().any(|evidence| evidence.kind == PATCH_REJECTED_KIND)
        };
        self.patch_bytes.is_some_and(|bytes| bytes > 0)
            && self.verdict.as_ref().is_some_and(|verdict| !rejected(verdict))
    }
}
