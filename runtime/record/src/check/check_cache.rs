//! Caches the results of checks, so that a report does not have to read every journal again.

use std::{
    collections::HashMap,
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use serde::{Deserialize, Serialize};

use super::{journal_summary::JournalSummary, stamp::FileStamp};
use crate::{
    disk,
    journal_reader::{add_checksum, strip_checksum},
};

/// `RUN/checked.jsonl`: one line for each check that found a trial's journal intact. If a trial has
/// several lines, the last one applies. Users can delete the file at any time. If the file cannot
/// be read or written, trials are checked again.
#[derive(Debug)]
pub(crate) struct CheckCache {
    path: PathBuf,
    entries: OnceLock<Mutex<HashMap<String, CacheEntry>>>,
}

/// The entry of one trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CacheEntry {
    pub(crate) trajectory_stamp: FileStamp,
    /// The patch that matched the journal.
    pub(crate) patch_stamp: Option<FileStamp>,
    pub(crate) summary: JournalSummary,
}

/// The fields of one line. The struct doesn't use `flatten`, because serde would then parse each
/// line twice, and there may be ten thousand lines.
#[derive(Serialize, Deserialize)]
struct CacheLine {
    trial: String,
    trajectory: FileStamp,
    patch: Option<FileStamp>,
    facts: JournalSummary,
}

impl CheckCache {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), entries: OnceLock::new() }
    }

    fn lock_entries(&self) -> MutexGuard<'_, HashMap<String, CacheEntry>> {
        let read = || Mutex::new(read_entries(&self.path));
        self.entries.get_or_init(read).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a trial's entry if the journal has not changed since the check.
    pub(crate) fn find(&self, trial: &str, trajectory: FileStamp) -> Option<CacheEntry> {
        self.lock_entries().get(trial).filter(|entry| entry.trajectory_stamp == trajectory).cloned()
    }

    pub(crate) fn store(&self, trial: &str, entry: &CacheEntry) {
        let mut trials = self.lock_entries();
        if trials.get(trial) == Some(entry) {
            return;
        }
        trials.insert(trial.to_owned(), entry.clone());
        let CacheEntry { trajectory_stamp: trajectory, patch_stamp: patch, summary: facts } =
            entry.clone();
        let line = CacheLine { trial: trial.to_owned(), trajectory, patch, facts };
        if let Ok(line) = serde_json::to_string(&line) {
            let mut options = OpenOptions::new();
            let file = disk::open_with(options.append(true).create(true), &self.path);
            // One write per line, so that lines from concurrent processes do not interleave.
            let _ = file.and_then(|mut file| file.write_all(add_checksum(&line).as_bytes()));
        }
    }
}

fn read_entries(path: &Path) -> HashMap<String, CacheEntry> {
    let bytes = disk::read_regular_file(path).unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let line = strip_checksum(line).ok()?;
        serde_json::from_slice::<CacheLine>(&line).ok()
    });
    lines
        .map(|CacheLine { trial, trajectory, patch, facts }| {
            (trial, CacheEntry { trajectory_stamp: trajectory, patch_stamp: patch, summary: facts })
        })
        .collect()
}
