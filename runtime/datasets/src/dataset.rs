//! A loaded dataset.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use proctor_types::{Task, TaskId};

use crate::{BadRow, RecipeFile};

/// Where a task was loaded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub file: PathBuf,
    /// Counted from 1: the line, or the row in a file without lines.
    pub line: usize,
}

impl Origin {
    /// The directory for resolving the task's relative paths: the directory of its file.
    pub fn base_dir(&self) -> PathBuf {
        self.file.parent().map(Path::to_path_buf).unwrap_or_default()
    }
}

/// Everything that the patterns loaded, in the order of patterns and rows.
#[derive(Debug, Clone, Default)]
pub struct LoadedDataset {
    pub tasks: Vec<Task>,
    pub recipes: Vec<RecipeFile>,
    /// Entries that are neither valid tasks nor valid recipes. The caller decides whether to
    /// continue without them.
    pub bad: Vec<BadRow>,
    /// Warnings with their location, such as unknown keys in Harbor folders.
    pub warnings: Vec<String>,
    pub origins: BTreeMap<TaskId, Origin>,
    /// The source files in rows, with [`RowRetention::Files`].
    pub files: BTreeMap<TaskId, RowFiles>,
}

/// The source files of a FEA-Bench row by path, before the solution. `None` for a file that the
/// solution creates.
pub type RowFiles = BTreeMap<String, Option<String>>;

/// Which parts of a row to keep besides its task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RowRetention {
    #[default]
    Tasks,
    /// Also keep the row's source files, which may take hundreds of megabytes.
    Files,
}

impl LoadedDataset {
    /// The directory for resolving a task's relative paths.
    pub fn base_dir(&self, task: &TaskId) -> Option<PathBuf> {
        self.origins.get(task).map(Origin::base_dir)
    }
}
