//! Errors that occur while code is carved.

/// Why code cannot be carved. Names the file and, if known, the line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CarveError {
    #[error("{file}: {why}")]
    Unreadable { file: String, why: String },
    #[error("{file}: invalid Python: {why}")]
    Syntax { file: String, why: String },
    #[error("{file} has no `{path}`{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    NotFound { file: String, path: String, near: Option<String> },
    /// The remaining code needs removed code at import time.
    #[error(
        "{file}:{line}: importing this file needs `{name}`, so removing it would break the \
         package; also carve the code that needs it, or keep `{name}`"
    )]
    Needed { file: String, line: usize, name: String },
    /// The result cannot be parsed, which means that the carver has a bug.
    #[error("{file}: the result would be invalid Python: {why}")]
    Broken { file: String, why: String },
}
