use thiserror::Error;

/// A manifest that cannot be used: which, and why.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}: {what}")]
pub struct ManifestError {
    /// Its file, as it was named.
    pub file: String,
    /// With the key or the line.
    pub what: String,
}
