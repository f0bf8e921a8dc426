//! The work directory after a step, as the step's page shows it.

use serde::Serialize;

/// A directory within the work directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Folder {
    /// The directories from the top of the work directory down to this one, each with its URL
    /// relative to the step's URL.
    pub above: Vec<(String, String)>,
    /// The directory's entries. Directories come first.
    pub entries: Vec<Entry>,
    /// Number of entries that are not listed because there are too many.
    pub left_out: usize,
    /// Number of paths in the whole tree.
    pub paths: usize,
    /// The file that the user opened.
    pub opened: Option<OpenedFile>,
}

/// A file or a directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Entry {
    pub name: String,
    /// The entry's URL, relative to the step's URL. Empty if the entry cannot be opened.
    pub href: String,
    pub is_folder: bool,
    /// For a directory: the number of paths below it, then how many of them the step changed.
    pub paths: u64,
    pub changed: u64,
    /// For a file: its size in bytes.
    pub size: u64,
    /// How the step changed the entry: `new`, `changed`, `gone`, or empty if it did not.
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
    /// Whether only the beginning of the file is shown.
    pub is_cut: bool,
    /// Whether the record contains the file's content.
    pub is_kept: bool,
    /// Why the file is not shown as text. Empty if it is shown.
    pub why_not: String,
}
