//! Why a trial did not resolve its task: one of a closed set, found without a model. `docs/report.md` says
//! what each means and which comes first.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Ending, ExitCause, Outcome, Verdict};

/// The closed set. Its order decides between exceptions that are as many: the first counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It submitted, and changed nothing.
    NeverEdited,
    /// The model edited files and ran nothing then or later.
    EditedNeverRan,
    /// Most failures are imports or names that do not resolve, or code that does not parse.
    ImportOrNameError,
    /// Most failures are of types or attributes.
    TypeOrAttributeError,
    /// Most failures are assertions, or any other exception.
    Assertion,
    /// The tests did not end in their time.
    TimeOut,
    /// Every fail-to-pass test passes, and a test that passed before does not.
    BrokePassToPass,
    /// It ended without a submission: a crash, a loop, an empty turn.
    GaveUp,
    /// A limit of its own ended it.
    OutOfBudget,
    /// The model refused.
    Refused,
    /// None of its tool calls could be read, or it ended so.
    FormatErrors,
    /// It has no verdict: a fault, a grading that failed, a damaged record.
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

    /// What the ending alone says. A submission says nothing, nor does an end from outside: a limit that
    /// trials share, an interruption.
    pub fn of_ending(ending: &Ending) -> Option<Self> {
        match ending {
            Ending::InfrastructureFault { .. } => Some(Self::Infrastructure),
            _ if ending.is_unfinished() => None,
            Ending::Budget { .. } => Some(Self::OutOfBudget),
            Ending::ModelRefused { .. } => Some(Self::Refused),
            // It came to an end of its own: what it left says why.
            Ending::ScaffoldExited { cause: ExitCause::Finished, .. } => None,
            Ending::ScaffoldExited { .. } => Some(Self::GaveUp),
            Ending::Submitted | Ending::Cancelled => None,
        }
    }

    /// What ending, patch and verdict say where nobody looked at the record. `unasked`: nobody has asked for a verdict yet.
    pub fn of(
        outcome: Option<&Outcome>,
        verdict: Option<&Verdict>,
        patch_bytes: Option<u64>,
        unasked: bool,
    ) -> Option<Self> {
        let Some(verdict) = verdict else {
            // It ended, and still nothing can be said of it: grading failed, or its record is damaged.
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

    /// As it is written in a record.
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
    /// Every fail-to-pass test passed, and some test that passed before does not any more.
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
