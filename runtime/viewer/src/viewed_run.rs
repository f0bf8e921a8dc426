//! A run that the viewer shows, with a cache of the data read from it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use proctor_record::RunDir;
use proctor_types::RunRecord;

use super::{
    JournalIndex, PlannedTrial,
    address::ARM_DIGITS,
    results::{ResultsCache, RunResults},
};
use crate::ViewError;

/// Maximum number of journal indexes kept in memory. Other journals are indexed again when needed.
const MAX_INDEXES: usize = 64;

/// A run that the viewer shows.
#[derive(Debug)]
pub struct ViewedRun {
    /// The run's number in addresses, counted from 1.
    pub number: usize,
    pub path: PathBuf,
    pub name: String,
    pub record: RunRecord,
    results: ResultsCache,
    indexes: Mutex<HashMap<PathBuf, Arc<JournalIndex>>>,
}

impl ViewedRun {
    pub fn open(path: &Path, number: usize) -> Result<Self, ViewError> {
        let record = RunDir::open_read_only(path)?.read_run()?;
        let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (results, indexes) = (ResultsCache::default(), Mutex::default());
        Ok(Self { number, path: path.to_owned(), name, record, results, indexes })
    }

    /// Returns the trial that an address refers to. The arguments are the address's parts after the
    /// run.
    pub fn find_trial(&self, task: &str, arm: &str, attempt: &str) -> Option<PlannedTrial<'_>> {
        let record = &self.record;
        let task = record.tasks.iter().find(|one| one.task.id.as_str() == task)?;
        let arm = record.arms.iter().find(|one| one.id.as_str().get(..ARM_DIGITS) == Some(arm))?;
        let planned_trial = PlannedTrial { task, arm, attempt: attempt.parse().ok()? };
        planned_trial.is_planned(record).then_some(planned_trial)
    }

    /// Returns the run's current results.
    pub fn current_results(&self) -> Result<Arc<RunResults>, ViewError> {
        self.results.current(&self.path, &self.record)
    }

    /// Returns a trial's current journal index, or `None` if the trial has not started.
    pub fn current_index(
        &self,
        planned_trial: &PlannedTrial<'_>,
    ) -> Result<Option<Arc<JournalIndex>>, ViewError> {
        let journal =
            RunDir::open_read_only(&self.path)?.trial_dir(&planned_trial.id()).trajectory_path();
        let cached_index = {
            let cache = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
            cache.get(&journal).cloned()
        };
        // Don't hold the lock while reading, because it takes a while to read a long journal.
        let read =
            match cached_index.as_ref().and_then(|index| Some((index, index.is_up_to_date()?))) {
                Some((index, true)) => return Ok(Some(Arc::clone(index))),
                Some((index, false)) => {
                    let mut index = JournalIndex::clone(index);
                    index.read_appended()?;
                    index
                }
                None if !journal.exists() => return Ok(None),
                None => JournalIndex::from_journal(&journal)?,
            };
        let read = Arc::new(read);
        let mut cache = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MAX_INDEXES {
            cache.clear();
        }
        cache.insert(journal, Arc::clone(&read));
        Ok(Some(read))
    }
}
