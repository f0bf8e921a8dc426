//! The work directory after a step, as a step's page shows it.

use serde::Serialize;

/// A folder of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Folder {
    /// The folders from the top to this one, each with its address behind the step's.
    pub above: Vec<(String, String)>,
    /// Folders first.
    pub entries: Vec<Entry>,
    /// Entries that are not listed: there are too many.
    pub left_out: usize,
    /// Paths of the whole tree.
    pub paths: usize,
    /// The file that was asked for.
    pub opened: Option<Opened>,
}

/// A file or a folder.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Entry {
    pub name: String,
    /// Behind the step's address; empty of what cannot be opened.
    pub href: String,
    pub is_folder: bool,
    /// Of a folder: paths below it, and how many of them the step changed.
    pub paths: u64,
    pub changed: u64,
    /// Of a file: bytes.
    pub size: u64,
    /// `new`, `changed` or `gone` by this step, or empty.
    pub mark: &'static str,
    /// Where a symbolic link leads; empty of others.
    pub link: String,
    pub is_open: bool,
}

/// What a file holds.
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
