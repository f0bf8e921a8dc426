//! The work directory after a step, as shown on the step's page.

use serde::Serialize;

/// A directory within the work directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Folder {
    /// The parent directories from the top down to this one. Each has its address relative to the
    /// step's.
    pub above: Vec<(String, String)>,
    /// Directories first.
    pub entries: Vec<Entry>,
    /// Number of entries that are not listed because there are too many.
    pub left_out: usize,
    /// Number of paths in the whole tree.
    pub paths: usize,
    /// The file that was requested.
    pub opened: Option<OpenedFile>,
}

/// A file or a directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Entry {
    pub name: String,
    /// The address, relative to the step's. Empty if the entry cannot be opened.
    pub href: String,
    pub is_folder: bool,
    /// For a directory: the number of paths below it, and how many of them the step changed.
    pub paths: u64,
    pub changed: u64,
    /// For a file: its size in bytes.
    pub size: u64,
    /// How this step changed the entry: `new`, `changed`, `gone`, or empty.
    pub mark: &'static str,
    /// The target of a symbolic link. Empty for other entries.
    pub link: String,
    pub is_open: bool,
}

/// The content of a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OpenedFile {
    pub path: String,
    pub hash: String,
    pub text: String,
    /// Whether only the beginning is shown.
    pub is_cut: bool,
    /// Whether the record contains the content.
    pub is_kept: bool,
    /// Why no text is shown.
    pub why_not: String,
}
