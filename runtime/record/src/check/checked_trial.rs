//! The result of checking a trial.

use proctor_types::{Outcome, Verdict};

use super::{
    corruption::Corruption,
    journal_summary::{GradingFailure, PatchRef},
};

/// The parts of a trial's record that are known to be intact, and its corrupt files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CheckedTrial {
    /// How the trial ended, or `None` if it has not ended. If the journal is corrupt, use the
    /// outcome only for display.
    pub outcome: Option<Outcome>,
    /// `None` if the trial was not graded, or if the verdict cannot be trusted.
    pub verdict: Option<Verdict>,
    /// Why the trial has no verdict, if its last grading failed.
    pub grading_failure: Option<GradingFailure>,
    /// The patch that the journal refers to.
    pub patch: Option<PatchRef>,
    /// Whether the trial ended, and not because of a fault or a shared limit. Running such a trial
    /// again would discard finished work.
    pub is_finished: bool,
    pub corruptions: Vec<Corruption>,
}

impl CheckedTrial {
    /// Whether a file that the score depends on is corrupt, and the record contains no other copy
    /// of the file.
    pub fn is_unrecoverable(&self) -> bool {
        self.corruptions.iter().any(Corruption::withholds_verdict)
    }
}
