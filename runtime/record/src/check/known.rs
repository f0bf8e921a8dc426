//! A cache of earlier checks, so that a report does not have to read every journal again.

use std::{
    collections::HashMap,
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use serde::{Deserialize, Serialize};

use super::{facts::Facts, stamp::Stamp};
use crate::{
    disk,
    reading::{with_sum, without_sum},
};

/// `RUN/checked.jsonl`: one line for each check that found a trial's journal intact. The last line
/// for a trial counts. The file can be deleted at any time. If it cannot be read or written, trials
/// are checked again.
#[derive(Debug)]
pub(crate) struct CheckCache {
    path: PathBuf,
    trials: OnceLock<Mutex<HashMap<String, Entry>>>,
}

/// The entry of one trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) trajectory: Stamp,
    /// The patch that matched the journal.
    pub(crate) patch: Option<Stamp>,
    pub(crate) facts: Facts,
}

/// A line without `flatten`, which would parse it twice: there may be ten thousand lines.
#[derive(Serialize, Deserialize)]
struct Line {
    trial: String,
    trajectory: Stamp,
    patch: Option<Stamp>,
    facts: Facts,
}

impl CheckCache {
    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), trials: OnceLock::new() }
    }

    fn trials(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        let read = || Mutex::new(read(&self.path));
        self.trials.get_or_init(read).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the entry of a trial if its journal has not changed since.
    pub(crate) fn find(&self, trial: &str, trajectory: Stamp) -> Option<Entry> {
        self.trials().get(trial).filter(|entry| entry.trajectory == trajectory).cloned()
    }

    pub(crate) fn keep(&self, trial: &str, entry: &Entry) {
        let mut trials = self.trials();
        if trials.get(trial) == Some(entry) {
            return;
        }
        trials.insert(trial.to_owned(), entry.clone());
        let Entry { trajectory, patch, facts } = entry.clone();
        let line = Line { trial: trial.to_owned(), trajectory, patch, facts };
        if let Ok(line) = serde_json::to_string(&line) {
            let mut options = OpenOptions::new();
            let file = disk::open_with(options.append(true).create(true), &self.path);
            // One write per line, so that lines from concurrent processes do not interleave.
            let _ = file.and_then(|mut file| file.write_all(with_sum(&line).as_bytes()));
        }
    }
}

fn read(path: &Path) -> HashMap<String, Entry> {
    let bytes = disk::read(path).unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let line = without_sum(line).ok()?;
        serde_json::from_slice::<Line>(&line).ok()
    });
    lines
        .map(|Line { trial, trajectory, patch, facts }| (trial, Entry { trajectory, patch, facts }))
        .collect()
}
