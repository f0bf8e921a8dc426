//! The error type for building bundles.

use std::{fmt, io, path::Path};

use proctor_types::{Fault, FaultCause};

/// Why a bundle could not be built, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct BundleError {
    /// What failed. Includes the package, the tool, and the last lines of the tool's output.
    pub problem: String,
    pub hint: Option<String>,
    /// Whether the cause is that a registry is unreachable.
    pub is_unreachable: bool,
}

impl BundleError {
    pub fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), hint: None, is_unreachable: false }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert(hint.into());
        self
    }

    #[must_use]
    pub(crate) fn context(mut self, context: impl fmt::Display) -> Self {
        self.problem = format!("{context}: {}", self.problem);
        self
    }

    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        let said = Self::new(format!("{}: {error}", path.display()));
        match error.kind() {
            io::ErrorKind::StorageFull => said.hint("free some space in the cache folder"),
            _ => said,
        }
    }
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)?;
        match &self.hint {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}

impl From<Fault> for BundleError {
    fn from(fault: Fault) -> Self {
        let is_unreachable = fault.cause == FaultCause::Unreachable;
        Self { problem: fault.what, hint: fault.hint, is_unreachable }
    }
}
