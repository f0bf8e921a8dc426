//! Why a trial did not resolve its task: one of a fixed set of reasons, determined without a model.
//! `docs/reference/report.md` defines the reasons and their precedence.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Ending, ExitCause, Outcome, Verdict};

/// Why a trial did not resolve its task. If several kinds of exceptions are equally frequent, the
/// reason listed first here applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// The agent submitted without changing anything.
    NeverEdited,
    /// The model edited files and never ran anything afterwards.
    EditedNeverRan,
    /// Most failures are imports or names that cannot be resolved, or code that cannot be parsed.
    ImportOrNameError,
    /// Most failures are type or attribute errors.
    TypeOrAttributeError,
    /// Most failures are assertions or other exceptions.
    Assertion,
    /// The tests did not end in time.
    TimeOut,
    /// Every fail-to-pass test passes, but a test that passed before fails.
    BrokePassToPass,
    /// The scaffold ended without a submission: a crash, a loop or an empty turn.
    GaveUp,
    /// The trial reached one of its own limits.
    OutOfBudget,
    /// The model refused.
    Refused,
    /// None of the trial's tool calls could be parsed, or the trial ended because of calls that
    /// could not be parsed.
    FormatErrors,
    /// The trial has no verdict because of a fault, a grading failure or a corrupt record.
    Infrastructure,
}

impl FailureReason {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::NeverEdited,
        Self::EditedNeverRan,
        Self::ImportOrNameError,
        Self::TypeOrAttributeError,
        Self::Assertion,
        Self::TimeOut,
        Self::BrokePassToPass,
        Self::GaveUp,
        Self::OutOfBudget,
        Self::Refused,
        Self::FormatErrors,
        Self::Infrastructure,
    ];

    /// Returns the reason that follows from the ending alone. Returns `None` for submissions,
    /// shared limits, interruptions, and scaffolds that ended by themselves.
    pub fn from_ending(ending: &Ending) -> Option<Self> {
        match ending {
            Ending::InfrastructureFault { .. } => Some(Self::Infrastructure),
            _ if ending.is_unfinished() => None,
            Ending::Budget { .. } => Some(Self::OutOfBudget),
            Ending::ModelRefused { .. } => Some(Self::Refused),
            // The scaffold ended by itself, so the test results show the reason.
            Ending::ScaffoldExited { cause: ExitCause::Finished, .. } => None,
            Ending::ScaffoldExited { .. } => Some(Self::GaveUp),
            Ending::Submitted | Ending::Cancelled => None,
        }
    }

    /// Returns the reason that follows from the ending, the patch and the verdict, without reading the
    /// record. `not_requested` means that no verdict was requested yet.
    pub fn from_results(
        outcome: Option<&Outcome>,
        verdict: Option<&Verdict>,
        patch_bytes: Option<u64>,
        not_requested: bool,
    ) -> Option<Self> {
        let Some(verdict) = verdict else {
            // The trial ended without a verdict: grading failed, or the record is corrupt.
            let broken =
                |ending: &Ending| ending.is_fault() || !(not_requested || ending.is_unfinished());
            return outcome.filter(|one| broken(&one.ending)).map(|_| Self::Infrastructure);
        };
        if verdict.resolved {
            return None;
        }
        let ended = outcome.and_then(|outcome| Self::from_ending(&outcome.ending));
        verdict.reason.or(ended).or_else(|| {
            if patch_bytes == Some(0) {
                return Some(Self::NeverEdited);
            }
            verdict.broke_pass_to_pass().then_some(Self::BrokePassToPass)
        })
    }

    /// Returns the name used in the record.
    pub fn name(self) -> &'static str {
        match self {
            Self::NeverEdited => "never_edited",
            Self::EditedNeverRan => "edited_never_ran",
            Self::ImportOrNameError => "import_or_name_error",
            Self::TypeOrAttributeError => "type_or_attribute_error",
            Self::Assertion => "assertion",
            Self::TimeOut => "time_out",
            Self::BrokePassToPass => "broke_pass_to_pass",
            Self::GaveUp => "gave_up",
            Self::OutOfBudget => "out_of_budget",
            Self::Refused => "refused",
            Self::FormatErrors => "format_errors",
            Self::Infrastructure => "infrastructure",
        }
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Verdict {
    /// Whether every fail-to-pass test passed, but some test that passed before no longer does.
    pub fn broke_pass_to_pass(&self) -> bool {
        let all_new = self.fail_to_pass.failed.is_empty() && !self.fail_to_pass.passed.is_empty();
        all_new && !self.pass_to_pass.failed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_names_match_serialized_names() {
        for reason in FailureReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
        }
    }
}
