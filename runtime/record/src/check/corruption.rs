//! Corrupt files, and how to fix them.

use std::{fmt, path::PathBuf};

use crate::pinned_dirs::resolve_fd_path;

/// A file that differs from the record. The `Display` output contains the file, the line and the
/// reason, but not the hint from [`Remedy::hint`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corruption {
    pub path: PathBuf,
    /// The corrupt line, counted from 1.
    pub line: Option<usize>,
    pub reason: String,
    pub remedy: Remedy,
}

/// How to fix a corrupt file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// The record contains another copy of the file's content.
    Restore(RestoreSource),
    /// All files that grading depends on are intact, so grading the trial again recreates the file.
    Regrade,
    /// The trial's whole record is missing. Without a copy, the trial runs again and is paid for
    /// again.
    RestoreTrial,
    /// The record contains no other copy, and the score depends on the file.
    RestoreFromCopy,
    /// The record contains no other copy, but no score depends on the file.
    LostEvidence,
}

/// The source from which a file is restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreSource {
    /// `patch.diff` is restored from the blob with this hash.
    Blob(String),
    /// `outcome.json` is restored from the last event of the trial's journal.
    TrialJournal,
    /// `verdict.json` is restored from the last event of the grading journal.
    GradingJournal,
}

impl Corruption {
    pub(crate) fn new(path: PathBuf, reason: impl Into<String>, remedy: Remedy) -> Self {
        // Workers access their trials through file descriptors, so convert the path for display.
        Self { path: resolve_fd_path(&path), line: None, reason: reason.into(), remedy }
    }

    /// Whether the trial has no verdict until the corruption is fixed.
    pub fn withholds_verdict(&self) -> bool {
        self.remedy == Remedy::RestoreFromCopy
    }
}

impl Remedy {
    /// Returns a hint for the user, because commands that only read a run never repair it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Restore(RestoreSource::Blob(_)) => {
                "`proctor resume` restores this file from the blobs"
            }
            Self::Restore(RestoreSource::TrialJournal | RestoreSource::GradingJournal) => {
                "`proctor resume` restores this file from the journal"
            }
            Self::Regrade => "`proctor resume` regrades the trial",
            Self::RestoreTrial => {
                "restore the trial's folder from a copy of the run directory; otherwise `proctor resume` runs the trial again"
            }
            Self::RestoreFromCopy => {
                "restore this file from a copy of the run directory; the trial has no verdict until then"
            }
            Self::LostEvidence => {
                "restore this file from a copy of the run directory; no score depends on it"
            }
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.reason)
    }
}
