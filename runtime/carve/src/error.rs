//! Why a carve is rejected.

/// Always names the file, and the place in it if there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CarveError {
    #[error("{file}: {why}")]
    Unreadable { file: String, why: String },
    #[error("{file}: invalid Python: {why}")]
    Syntax { file: String, why: String },
    #[error("{file} has no `{path}`{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    NotFound { file: String, path: String, near: Option<String> },
    /// Something that remains needs removed code at import time.
    #[error(
        "{file}:{line}: importing this file needs `{name}`, so removing it would break the \
         package; also carve what needs it, or keep `{name}`"
    )]
    Needed { file: String, line: usize, name: String },
    /// The check after the cut failed: a bug of the carver.
    #[error("{file}: the result would be invalid Python: {why}")]
    Broken { file: String, why: String },
}
