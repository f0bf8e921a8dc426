//! The result of checking a trial.

use proctor_types::{Outcome, Verdict};

use super::{corruption::Corruption, journal_summary::PatchRef};

/// The trustworthy part of a trial, and its corrupted files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CheckedTrial {
    /// How the trial ended, or `None` if it has not. If the journal is corrupted, use this only for
    /// display.
    pub outcome: Option<Outcome>,
    /// `None` if the trial was not graded, or if the verdict cannot be trusted.
    pub verdict: Option<Verdict>,
    /// The patch that the journal refers to.
    pub patch: Option<PatchRef>,
    /// Whether the trial ended in any way except by a fault or a shared limit. Running it again
    /// would discard finished work.
    pub finished: bool,
    pub damage: Vec<Corruption>,
}

impl CheckedTrial {
    /// Whether a file that the score depends on is corrupted and the record has no other copy.
    pub fn is_unrecoverable(&self) -> bool {
        self.damage.iter().any(Corruption::withholds_verdict)
    }
}
