//! The current results of a run. Only trials whose files have changed are read again, because a run
//! may have ten thousand.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use proctor_record::RunDir;
use proctor_report::{Report, TrialResult, build, result_of_trial, results_of};
use proctor_types::RunRecord;

use super::planned;
use crate::ViewError;

/// The results that were read from a run.
#[derive(Debug)]
pub struct Read {
    /// In plan order, as in the report.
    pub results: Vec<TrialResult>,
    pub report: Report,
    /// Whether each trial has started.
    pub begun: Vec<bool>,
    stamps: Vec<Stamp>,
}

/// Modification time and size of a trial's outcome and verdict. `None` if the file does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    outcome: Option<(i64, i64, u64)>,
    verdict: Option<(i64, i64, u64)>,
    begun: bool,
}

impl Stamp {
    fn of(path: &Path) -> Option<(i64, i64, u64)> {
        let file = fs::metadata(path).ok()?;
        Some((file.mtime(), file.mtime_nsec(), file.len()))
    }
}

/// The results of one run, cached between reads.
#[derive(Debug, Default)]
pub struct Results(Mutex<Option<Arc<Read>>>);

impl Results {
    pub fn now(&self, path: &Path, record: &RunRecord) -> Result<Arc<Read>, ViewError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let run = RunDir::view(path)?;
        let planned = planned(record);
        let stamp = |found: &super::Found<'_>| {
            let dir = run.trial_path(&found.id());
            let outcome = Stamp::of(&dir.outcome());
            // A finished trial also has a journal, so skip the second lookup.
            let begun = outcome.is_some() || dir.trajectory().exists();
            Stamp { outcome, verdict: Stamp::of(&dir.verdict()), begun }
        };
        let stamps: Vec<Stamp> = planned.iter().map(stamp).collect();
        let results = match kept.as_ref() {
            Some(read) if read.stamps == stamps => return Ok(Arc::clone(read)),
            Some(read) => {
                let mut results = read.results.clone();
                let changed = stamps.iter().zip(&read.stamps).enumerate();
                for (at, _) in changed.filter(|(_, (now, then))| now != then) {
                    results[at] = result_of_trial(&run, &planned[at]);
                }
                results
            }
            None => results_of(path, false)?,
        };
        let begun = stamps.iter().map(|stamp| stamp.begun).collect();
        let report = build(results.clone());
        let read = Arc::new(Read { results, report, begun, stamps });
        *kept = Some(Arc::clone(&read));
        Ok(read)
    }
}
