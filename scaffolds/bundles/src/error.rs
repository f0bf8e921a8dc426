//! The error type for building bundles.

use std::{fmt, io, path::Path};

use proctor_types::{Cause, Fault};

/// Why a bundle could not be built, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct BundleError {
    /// What failed. Includes the package, the tool, and the last lines of the tool's output.
    pub what: String,
    pub hint: Option<String>,
    /// Whether the cause is that a registry is unreachable.
    pub is_unreachable: bool,
}

impl BundleError {
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, is_unreachable: false }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert(hint.into());
        self
    }

    #[must_use]
    pub(crate) fn context(mut self, context: impl fmt::Display) -> Self {
        self.what = format!("{context}: {}", self.what);
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
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}

impl From<Fault> for BundleError {
    fn from(fault: Fault) -> Self {
        let is_unreachable = fault.cause == Cause::Unreachable;
        Self { what: fault.what, hint: fault.hint, is_unreachable }
    }
}
