//! A loaded dataset.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use proctor_types::{Task, TaskId};

use crate::{BadRow, RecipeFile};

/// Where a task was loaded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOrigin {
    pub file: PathBuf,
    /// The line number, or the row number in a file without lines, counted from 1.
    pub line: usize,
}

impl TaskOrigin {
    /// Returns the directory of the task's file, against which the task's relative paths are
    /// resolved.
    pub fn base_dir(&self) -> PathBuf {
        self.file.parent().map(Path::to_path_buf).unwrap_or_default()
    }
}

/// Everything that was loaded, in the order of the patterns and of the rows in their files.
#[derive(Debug, Clone, Default)]
pub struct LoadedDataset {
    pub tasks: Vec<Task>,
    pub recipes: Vec<RecipeFile>,
    /// Rows that are neither a valid task nor a valid recipe. The caller decides whether to
    /// continue without them.
    pub bad_rows: Vec<BadRow>,
    /// Warnings with their location, such as unknown keys in Harbor folders.
    pub warnings: Vec<String>,
    pub origins: BTreeMap<TaskId, TaskOrigin>,
    /// The source files of the rows. Empty unless [`RowRetention::Files`] is requested.
    pub source_files: BTreeMap<TaskId, RowSourceFiles>,
}

/// The source files of a FEA-Bench row by path, as they were before the solution. `None` for a file
/// that the solution creates.
pub type RowSourceFiles = BTreeMap<String, Option<String>>;

/// What to keep of each row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RowRetention {
    #[default]
    Tasks,
    /// Also keep the row's source files, which may take hundreds of megabytes.
    Files,
}

impl LoadedDataset {
    /// Returns the directory against which a task's relative paths are resolved.
    pub fn base_dir(&self, task: &TaskId) -> Option<PathBuf> {
        self.origins.get(task).map(TaskOrigin::base_dir)
    }
}
