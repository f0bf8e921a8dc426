use thiserror::Error;

/// A manifest that cannot be used: which, and why.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}: {what}")]
pub struct ManifestError {
    /// Its file, as it was named.
    pub file: String,
    /// With the key or the line.
    pub what: String,
    /// What to write instead.
    pub hint: String,
}

impl ManifestError {
    pub(crate) fn new(file: &str, what: String) -> Self {
        let hint = "docs/external.md and docs/bundles.md say what a manifest holds".to_owned();
        Self { file: file.to_owned(), what, hint }
    }
}
