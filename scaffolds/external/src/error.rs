use thiserror::Error;

/// An error about an unusable manifest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}: {what}")]
pub struct ManifestError {
    /// The file's path as given by the user.
    pub file: String,
    /// What is wrong, including the key or the line.
    pub what: String,
    /// How to fix it.
    pub hint: String,
}

impl ManifestError {
    pub(crate) fn new(file: &str, what: String) -> Self {
        let hint = "see docs/external.md and docs/bundles.md".to_owned();
        Self { file: file.to_owned(), what, hint }
    }
}
