//! Errors in rows, with their location.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use proctor_types::one_line;

/// A row that is not a valid task. Such a row does not affect other rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    pub file: PathBuf,
    /// The line number, counted from 1. Absent if the whole file is invalid or has no lines.
    pub line: Option<usize>,
    /// The row number, counted from 1. Set for files without lines.
    pub row: Option<usize>,
    /// Dotted path of the invalid field, if the error is in one field.
    pub field: Option<String>,
    /// The row's id, if it could be read.
    pub id: Option<String>,
    /// The error, with a hint if there is one.
    pub message: String,
    /// Whether the error is in one of several task folders. A run may then skip the folder with a
    /// warning.
    pub is_task_folder: bool,
}

impl BadRow {
    pub(crate) fn new(
        file: &Path,
        location: Option<RowLocation>,
        id: Option<String>,
        error: RowError,
    ) -> Self {
        let (line, row) = match location {
            Some(RowLocation::Line(line)) => (Some(line), None),
            Some(RowLocation::Row(row)) => (None, Some(row)),
            None => (None, None),
        };
        let RowError { field, message } = error;
        Self { file: file.to_path_buf(), line, row, field, id, message, is_task_folder: false }
    }
}

impl BadRow {
    /// Returns the file, the line or row, and the id if it could be read.
    pub fn location(&self) -> String {
        let mut text = self.file.display().to_string();
        if let Some(line) = self.line {
            text += &format!(":{line}");
        }
        if let Some(row) = self.row {
            text += &format!(" row {row}");
        }
        if let Some(id) = &self.id {
            text += &format!(": {id}");
        }
        one_line(&text)
    }

    /// Returns the error without its location.
    pub fn error(&self) -> String {
        match &self.field {
            Some(field) => one_line(&format!("field `{field}`: {}", self.message)),
            None => one_line(&self.message),
        }
    }
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&format!("{}: {}", self.location(), self.error())))
    }
}

/// The location of a row in its file, counted from 1: the line for text formats, the row number
/// otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowLocation {
    Line(usize),
    Row(usize),
}

/// An error that prevents a whole dataset from loading. Reported as a usage error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatasetError {
    #[error("no file matches `{pattern}`{}", searched_folder(pattern, base))]
    NoMatch { pattern: String, base: PathBuf },
    #[error("invalid pattern `{pattern}`: {why}")]
    BadPattern { pattern: String, why: String },
    #[error("{file} is not a dataset: its name must end in .jsonl, .json, .parquet or .toml")]
    UnknownKind { file: PathBuf },
    #[error("cannot read {file}: {why}")]
    Unreadable { file: PathBuf, why: String },
    #[error("invalid dataset `{address}`: {why}")]
    BadAddress { address: String, why: String },
    #[error("shape `{shape}`: {why}")]
    BadShape { shape: String, why: String },
    #[error("Hugging Face dataset {name}: {why}")]
    Hub { name: String, why: String },
    #[error("{folder} {why}")]
    Folder { folder: PathBuf, why: String },
    #[error("`ids={file}`: {why}")]
    Ids { file: PathBuf, why: String },
}

/// Returns ` in FOLDER`, which is appended to a message about a relative pattern. Empty if the
/// pattern is absolute.
fn searched_folder(pattern: &str, base: &Path) -> String {
    if Path::new(pattern).is_absolute() {
        return String::new();
    }
    let base = base.canonicalize().unwrap_or_else(|_| base.to_path_buf());
    format!(" in {}", base.display())
}

/// An error inside one row, before its location is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowError {
    pub field: Option<String>,
    pub message: String,
}

impl RowError {
    pub(crate) fn invalid_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: Some(field.into()), message: message.into() }
    }

    pub(crate) fn invalid_row(message: impl Into<String>) -> Self {
        Self { field: None, message: message.into() }
    }
}

/// Returns the known key that is most similar to a misspelled one, if any is similar enough.
pub(crate) fn nearest_key<'a>(
    key: &str,
    known_keys: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    known_keys
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(key, candidate), candidate))
        .filter(|(score, _)| *score >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
