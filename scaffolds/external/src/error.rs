use thiserror::Error;

/// An error that makes a manifest unusable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}: {problem}")]
pub struct ManifestError {
    /// The path of the file, as the user gave it.
    pub file: String,
    /// The problem, with the key or the line that causes it.
    pub problem: String,
    /// How to fix it.
    pub hint: String,
}

impl ManifestError {
    pub(crate) fn new(file: &str, problem: String) -> Self {
        let hint = "see docs/reference/external.md and docs/reference/bundles.md".to_owned();
        Self { file: file.to_owned(), problem, hint }
    }
}
