//! The work directory after a step, as a step's page shows it.

use serde::Serialize;

/// One of its directories.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Folder {
    /// The directories from the top to this one, each with its address relative to the step's.
    pub above: Vec<(String, String)>,
    /// Directories first.
    pub entries: Vec<Entry>,
    /// Number of entries that are not listed because there are too many.
    pub left_out: usize,
    /// Number of paths in the whole tree.
    pub paths: usize,
    /// The requested file.
    pub opened: Option<Opened>,
}

/// A file or a directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Entry {
    pub name: String,
    /// Relative to the step's address; empty if it cannot be opened.
    pub href: String,
    pub is_folder: bool,
    /// For a directory: number of paths below it, and how many of them the step changed.
    pub paths: u64,
    pub changed: u64,
    /// For a file: bytes.
    pub size: u64,
    /// `new`, `changed` or `gone` by this step, or empty.
    pub mark: &'static str,
    /// The target of a symbolic link; empty for others.
    pub link: String,
    pub is_open: bool,
}

/// The content of a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Opened {
    pub path: String,
    pub hash: String,
    pub text: String,
    /// Only its beginning is shown.
    pub is_cut: bool,
    /// The record has its content.
    pub is_kept: bool,
    /// Why no text is shown.
    pub why_not: String,
}
