//! Loads datasets by their addresses.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use proctor_types::{Task, TaskId};

use crate::{
    BadRow, DatasetError, Hub, RecipeFile,
    address::{Address, Where},
    loader::Loader,
};

/// Where a task came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub file: PathBuf,
    /// Counted from 1: the line, or the row in a file without lines.
    pub line: usize,
}

impl Origin {
    /// The directory that the task's relative paths are resolved against: its file's own.
    pub fn base_dir(&self) -> PathBuf {
        self.file.parent().map(Path::to_path_buf).unwrap_or_default()
    }
}

/// Everything that the patterns yield, in the order of patterns and rows.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    pub tasks: Vec<Task>,
    pub recipes: Vec<RecipeFile>,
    /// Entries that are neither tasks nor recipes. The caller decides whether to continue without
    /// them.
    pub bad: Vec<BadRow>,
    /// Harmless oddities with their place: unknown keys of Harbor folders.
    pub warnings: Vec<String>,
    pub origins: BTreeMap<TaskId, Origin>,
    /// The files in rows, with [`Keep::Files`].
    pub files: BTreeMap<TaskId, RowFiles>,
}

/// The files of a FEA-Bench row by path, before the solution. `None`: a file that the solution
/// creates.
pub type RowFiles = BTreeMap<String, Option<String>>;

/// What to keep of rows besides their tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Keep {
    #[default]
    Tasks,
    /// Also the source files in a row, which may take hundreds of megabytes.
    Files,
}

impl Loaded {
    /// The directory that a task's relative paths are resolved against.
    pub fn base_dir(&self, task: &TaskId) -> Option<PathBuf> {
        self.origins.get(task).map(Origin::base_dir)
    }
}

/// Loads files, directories and globs, relative to `base_dir`.
///
/// # Errors
/// Only what makes a whole pattern useless: no match, an unreadable file, an unknown file type, or
/// a hub name, which needs [`load_with`]. Everything inside a file is a [`BadRow`].
pub fn load(patterns: &[String], base_dir: &Path) -> Result<Loaded, DatasetError> {
    let mut loader = Loader::new(base_dir);
    for pattern in patterns {
        let address = Address::parse_at(pattern, base_dir)?;
        match &address.place {
            Where::Disk(_) => loader.disk(&address)?,
            Where::Hub(name) => {
                let why = "cannot be downloaded here".to_owned();
                return Err(DatasetError::Hub { name: name.name.clone(), why });
            }
        }
    }
    Ok(loader.loaded)
}

/// Like [`load`], including hub datasets.
///
/// # Errors
/// See [`load`]; also if the hub's rows are unavailable.
pub async fn load_with(
    patterns: &[String],
    base_dir: &Path,
    hub: &Hub,
) -> Result<Loaded, DatasetError> {
    load_keeping(patterns, base_dir, hub, Keep::Tasks).await
}

/// Like [`load_with`], but keeps more of the rows than their tasks.
///
/// # Errors
/// See [`load_with`].
pub async fn load_keeping(
    patterns: &[String],
    base_dir: &Path,
    hub: &Hub,
    keep: Keep,
) -> Result<Loaded, DatasetError> {
    let mut loader = Loader::new(base_dir);
    loader.keep = keep;
    for pattern in patterns {
        let address = Address::parse_at(pattern, base_dir)?;
        match &address.place {
            Where::Disk(_) => loader.disk(&address)?,
            Where::Hub(name) => loader.hub(&address, name, hub).await?,
        }
    }
    Ok(loader.loaded)
}
