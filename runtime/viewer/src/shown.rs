//! A run in the viewer, and a cache of what was read from it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use proctor_record::RunDir;
use proctor_types::RunRecord;

use super::{
    Found, Index,
    place::ARM_DIGITS,
    results::{Read, Results},
};
use crate::ViewError;

/// Maximum number of journal indexes kept in memory. Others are read again.
const MAX_INDEXES: usize = 64;

/// A run in the viewer.
#[derive(Debug)]
pub struct Shown {
    /// Counted from 1.
    pub number: usize,
    pub path: PathBuf,
    pub name: String,
    pub record: RunRecord,
    results: Results,
    indexes: Mutex<HashMap<PathBuf, Arc<Index>>>,
}

impl Shown {
    pub fn open(path: &Path, number: usize) -> Result<Self, ViewError> {
        let record = RunDir::view(path)?.read_run()?;
        let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (results, indexes) = (Results::default(), Mutex::default());
        Ok(Self { number, path: path.to_owned(), name, record, results, indexes })
    }

    /// Returns the trial for the parts of an address after the run.
    pub fn find(&self, task: &str, arm: &str, attempt: &str) -> Option<Found<'_>> {
        let record = &self.record;
        let task = record.tasks.iter().find(|one| one.task.id.as_str() == task)?;
        let arm = record.arms.iter().find(|one| one.id.as_str().get(..ARM_DIGITS) == Some(arm))?;
        let found = Found { task, arm, attempt: attempt.parse().ok()? };
        found.is_planned(record).then_some(found)
    }

    /// Returns the run's current results.
    pub fn read(&self) -> Result<Arc<Read>, ViewError> {
        self.results.now(&self.path, &self.record)
    }

    /// Returns the current steps of a trial. `None` if it has not started.
    pub fn index(&self, found: &Found<'_>) -> Result<Option<Arc<Index>>, ViewError> {
        let journal = RunDir::view(&self.path)?.trial_path(&found.id()).trajectory();
        let known = {
            let kept = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
            kept.get(&journal).cloned()
        };
        // Don't hold the lock while reading, because a long journal takes a while.
        let read = match known.as_ref().and_then(|index| Some((index, index.is_whole()?))) {
            Some((index, true)) => return Ok(Some(Arc::clone(index))),
            Some((index, false)) => {
                let mut index = Index::clone(index);
                index.read_on()?;
                index
            }
            None if !journal.exists() => return Ok(None),
            None => Index::of(&journal)?,
        };
        let read = Arc::new(read);
        let mut kept = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_INDEXES {
            kept.clear();
        }
        kept.insert(journal, Arc::clone(&read));
        Ok(Some(read))
    }
}
