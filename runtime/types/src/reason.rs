//! Why a trial did not resolve its task: one of a closed set, determined without a model.
//! `docs/report.md` defines each and their precedence.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Ending, ExitCause, Outcome, Verdict};

/// The closed set. If exceptions are equally frequent, the first in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It submitted without changing anything.
    NeverEdited,
    /// The model edited files and never ran anything afterwards.
    EditedNeverRan,
    /// Most failures are imports or names that cannot be resolved, or code that cannot be parsed.
    ImportOrNameError,
    /// Most failures are of types or attributes.
    TypeOrAttributeError,
    /// Most failures are assertions, or any other exception.
    Assertion,
    /// The tests did not end in time.
    TimeOut,
    /// Every fail-to-pass test passes, and a test that passed before does not.
    BrokePassToPass,
    /// It ended without a submission: a crash, a loop, an empty turn.
    GaveUp,
    /// One of its own limits ended it.
    OutOfBudget,
    /// The model refused.
    Refused,
    /// None of its tool calls could be parsed, or it ended because of that.
    FormatErrors,
    /// It has no verdict: a fault, a failed grading, a damaged record.
    Infrastructure,
}

impl Reason {
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

    /// The reason from the ending alone. A submission has none, nor does an end from outside: a
    /// shared limit, an interruption.
    pub fn of_ending(ending: &Ending) -> Option<Self> {
        match ending {
            Ending::InfrastructureFault { .. } => Some(Self::Infrastructure),
            _ if ending.is_unfinished() => None,
            Ending::Budget { .. } => Some(Self::OutOfBudget),
            Ending::ModelRefused { .. } => Some(Self::Refused),
            // It ended by itself: its result shows why.
            Ending::ScaffoldExited { cause: ExitCause::Finished, .. } => None,
            Ending::ScaffoldExited { .. } => Some(Self::GaveUp),
            Ending::Submitted | Ending::Cancelled => None,
        }
    }

    /// The reason from ending, patch and verdict if the record was not read. `unasked`: no verdict
    /// was requested yet.
    pub fn of(
        outcome: Option<&Outcome>,
        verdict: Option<&Verdict>,
        patch_bytes: Option<u64>,
        unasked: bool,
    ) -> Option<Self> {
        let Some(verdict) = verdict else {
            // It ended without a result: grading failed, or its record is damaged.
            let broken =
                |ending: &Ending| ending.is_fault() || !(unasked || ending.is_unfinished());
            return outcome.filter(|one| broken(&one.ending)).map(|_| Self::Infrastructure);
        };
        if verdict.resolved {
            return None;
        }
        let ended = outcome.and_then(|outcome| Self::of_ending(&outcome.ending));
        verdict.reason.or(ended).or_else(|| {
            if patch_bytes == Some(0) {
                return Some(Self::NeverEdited);
            }
            verdict.broke_pass_to_pass().then_some(Self::BrokePassToPass)
        })
    }

    /// Its name in a record.
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

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Verdict {
    /// Whether every fail-to-pass test passed, and some test that passed before no longer does.
    pub fn broke_pass_to_pass(&self) -> bool {
        let all_new = self.fail_to_pass.failed.is_empty() && !self.fail_to_pass.passed.is_empty();
        all_new && !self.pass_to_pass.failed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_written_as_it_is_shown() {
        for reason in Reason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
        }
    }
}
