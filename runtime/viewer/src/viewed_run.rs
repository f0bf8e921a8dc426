//! A run that the viewer shows, with a cache of the data read from it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use proctor_record::RunDir;
use proctor_types::RunRecord;

use super::{
    JournalIndex, PlannedTrial, planned_trials,
    results::{ResultsCache, RunResults},
    urls::ARM_DIGITS,
};
use crate::ViewError;

/// Maximum number of journal indexes kept in memory. Other journals are indexed again when needed.
const MAX_INDEXES: usize = 64;

/// A run whose plan cannot be read. The dashboard shows the error.
#[derive(Debug)]
pub struct UnreadableRun {
    pub name: String,
    pub error: ViewError,
}

/// Returns the name of a run's directory.
pub fn run_name(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    whole.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A task's position in the plan, with the task's trials in plan order.
#[derive(Debug)]
struct TaskTrials {
    task: usize,
    trials: Vec<TrialPosition>,
}

/// Where a trial is in the plan: the index among all trials, and the index of its arm.
#[derive(Debug)]
struct TrialPosition {
    trial: usize,
    arm: usize,
    attempt: u32,
}

/// A run that the viewer shows.
#[derive(Debug)]
pub struct ViewedRun {
    /// The run's number in URLs, counted from 1.
    pub number: usize,
    pub path: PathBuf,
    pub name: String,
    pub record: RunRecord,
    trials_by_task: HashMap<String, TaskTrials>,
    results: ResultsCache,
    indexes: Mutex<HashMap<PathBuf, Arc<JournalIndex>>>,
}

impl ViewedRun {
    pub fn open(path: &Path, number: usize) -> Result<Self, ViewError> {
        let record = RunDir::open_read_only(path)?.read_run()?;
        Ok(Self {
            number,
            path: path.to_owned(),
            name: run_name(path),
            trials_by_task: index_trials(&record),
            record,
            results: ResultsCache::default(),
            indexes: Mutex::default(),
        })
    }

    /// Returns a task's trials in plan order, each with its index among all trials of the plan.
    pub fn trials_for_task<'a>(
        &'a self,
        task: &str,
    ) -> impl Iterator<Item = (usize, PlannedTrial<'a>)> + use<'a> {
        let found = self.trials_by_task.get(task);
        found.into_iter().flat_map(move |of_task| {
            let task = &self.record.tasks[of_task.task];
            of_task.trials.iter().map(move |one| {
                let arm = &self.record.arms[one.arm];
                (one.trial, PlannedTrial { task, arm, attempt: one.attempt })
            })
        })
    }

    /// Returns how many trials a task has. 0 if the run does not have the task.
    pub fn trial_count(&self, task: &str) -> usize {
        self.trials_by_task.get(task).map_or(0, |of_task| of_task.trials.len())
    }

    /// Returns the trial that a URL refers to. The arguments are the URL's parts after the
    /// run.
    pub fn find_trial(&self, task: &str, arm: &str, attempt: &str) -> Option<PlannedTrial<'_>> {
        let attempt: u32 = attempt.parse().ok()?;
        self.trials_for_task(task).map(|(_, found)| found).find(|found| {
            found.attempt == attempt && found.arm.id.as_str().get(..ARM_DIGITS) == Some(arm)
        })
    }

    /// Returns the run's current results.
    pub fn current_results(&self) -> Result<Arc<RunResults>, ViewError> {
        self.results.current(&self.path, &self.record)
    }

    /// Announces that the caller will read the results. See [`ResultsCache::start_preload`].
    pub fn start_preload(&self) {
        self.results.start_preload();
    }

    pub fn finish_preload(&self) {
        self.results.finish_preload();
    }

    /// Returns the number of trials that have been read, if the first read takes longer than
    /// `patience`.
    pub fn wait_for_preload(&self, patience: Duration) -> Option<usize> {
        self.results.wait_for_preload(patience)
    }

    /// Returns the number of trials in the plan.
    pub fn planned_count(&self) -> usize {
        self.trials_by_task.values().map(|of_task| of_task.trials.len()).sum()
    }

    /// Returns a trial's current journal index, or `None` if the trial has not started.
    pub fn current_index(
        &self,
        planned_trial: &PlannedTrial<'_>,
    ) -> Result<Option<Arc<JournalIndex>>, ViewError> {
        let run = RunDir::open_read_only(&self.path)?;
        let dir = run.trial_dir(&planned_trial.id());
        let journal = dir.trajectory_path();
        let cached_index = {
            let cache = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
            cache.get(&journal).cloned()
        };
        // Don't hold the lock while reading, because it takes a while to read a long journal.
        let mut read =
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
        read.count_paths_in_diffs(&run.trial_blobs(&dir));
        let read = Arc::new(read);
        let mut cache = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MAX_INDEXES {
            cache.clear();
        }
        cache.insert(journal, Arc::clone(&read));
        Ok(Some(read))
    }
}

/// Groups the trials of a plan by task. With ten thousand trials, searching the plan for each task
/// would take longer than reading the trials.
fn index_trials(record: &RunRecord) -> HashMap<String, TaskTrials> {
    let mut by_task: HashMap<String, TaskTrials> = HashMap::new();
    for (index, task) in record.tasks.iter().enumerate() {
        by_task
            .entry(task.task.id.to_string())
            .or_insert(TaskTrials { task: index, trials: vec![] });
    }
    for (trial, found) in planned_trials(record).iter().enumerate() {
        let arm = record.arms.iter().position(|arm| std::ptr::eq(arm, found.arm));
        if let (Some(of_task), Some(arm)) = (by_task.get_mut(found.task.task.id.as_str()), arm) {
            of_task.trials.push(TrialPosition { trial, arm, attempt: found.attempt });
        }
    }
    by_task
}
