use thiserror::Error;

/// An unusable manifest, and why.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}: {what}")]
pub struct ManifestError {
    /// Its file, as named by the user.
    pub file: String,
    /// Includes the key or the line.
    pub what: String,
    /// The fix.
    pub hint: String,
}

impl ManifestError {
    pub(crate) fn new(file: &str, what: String) -> Self {
        let hint = "see docs/external.md and docs/bundles.md".to_owned();
        Self { file: file.to_owned(), what, hint }
    }
}
