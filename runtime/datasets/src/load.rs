//! Datasets by their addresses.

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
    /// Counted from 1: the line, or the row of a file without lines.
    pub line: usize,
}

impl Origin {
    /// The folder that the task's relative paths start from: its file's own.
    pub fn base_dir(&self) -> PathBuf {
        self.file.parent().map(Path::to_path_buf).unwrap_or_default()
    }
}

/// Everything the patterns led to, in the order of the patterns and of the rows.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    pub tasks: Vec<Task>,
    pub recipes: Vec<RecipeFile>,
    /// What is no task and no recipe. Whether to go on without them is the caller's to decide.
    pub bad: Vec<BadRow>,
    /// What is odd and harmless, with its place: unknown keys of Harbor folders.
    pub warnings: Vec<String>,
    pub origins: BTreeMap<TaskId, Origin>,
    /// The files that rows hold, with [`Keep::Files`].
    pub files: BTreeMap<TaskId, RowFiles>,
}

/// The files of a row of FEA-Bench by path, before the solution. `None` stands for a file that the solution creates.
pub type RowFiles = BTreeMap<String, Option<String>>;

/// What is kept of rows beside their tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Keep {
    #[default]
    Tasks,
    /// The files of the source that a row holds, too. They may take hundreds of megabytes.
    Files,
}

impl Loaded {
    /// The folder that a task's relative paths start from.
    pub fn base_dir(&self, task: &TaskId) -> Option<PathBuf> {
        self.origins.get(task).map(Origin::base_dir)
    }
}

/// Loads files, folders and globs, relative ones below `base_dir`.
///
/// # Errors
/// Only what makes a whole pattern useless: no match, an unreadable file, an unknown kind of file,
/// a name of the hub, which [`load_with`] knows. Everything inside a file is a [`BadRow`].
pub fn load(patterns: &[String], base_dir: &Path) -> Result<Loaded, DatasetError> {
    let mut loader = Loader::new(base_dir);
    for pattern in patterns {
        let address = Address::parse_at(pattern, base_dir)?;
        match &address.place {
            Where::Disk(_) => loader.disk(&address)?,
            Where::Hub(name) => {
                let why = "is not asked for its rows here".to_owned();
                return Err(DatasetError::Hub { name: name.name.clone(), why });
            }
        }
    }
    Ok(loader.loaded)
}

/// As [`load`], with datasets of a hub.
///
/// # Errors
/// As [`load`], and what keeps the hub's rows from being had.
pub async fn load_with(
    patterns: &[String],
    base_dir: &Path,
    hub: &Hub,
) -> Result<Loaded, DatasetError> {
    load_keeping(patterns, base_dir, hub, Keep::Tasks).await
}

/// As [`load_with`], and keeps more of the rows than their tasks.
///
/// # Errors
/// As [`load_with`].
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
