//! The current results of a run. Runs may have ten thousand trials, so only trials whose files have
//! changed are read again.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use proctor_record::RunDir;
use proctor_report::{Report, TrialResult, build_report, read_results, read_trial_result};
use proctor_types::RunRecord;

use super::planned_trials;
use crate::ViewError;

/// The results read from a run.
#[derive(Debug)]
pub struct RunResults {
    /// Each trial's result, in plan order as in the report.
    pub results: Vec<TrialResult>,
    pub report: Report,
    /// Whether each trial has started.
    pub trial_started: Vec<bool>,
    stamps: Vec<FileStamps>,
}

impl RunResults {
    /// Number of trials that have ended.
    pub fn ended_count(&self) -> usize {
        self.results.iter().filter(|one| one.outcome.is_some()).count()
    }

    /// Whether a trial has not ended or will still be graded. Trials are graded after they end, and
    /// unfinished ones are never graded.
    pub fn may_change(&self) -> bool {
        self.results.iter().any(|one| {
            let ending = one.outcome.as_ref().map(|outcome| &outcome.ending);
            one.verdict.is_none() && ending.is_none_or(|ending| !ending.is_unfinished())
        })
    }
}

/// Modification times and sizes of a trial's outcome and verdict files. `None` for a file that does
/// not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamps {
    outcome: Option<(i64, i64, u64)>,
    verdict: Option<(i64, i64, u64)>,
    has_started: bool,
}

impl FileStamps {
    fn read_stamp(path: &Path) -> Option<(i64, i64, u64)> {
        let file = fs::metadata(path).ok()?;
        Some((file.mtime(), file.mtime_nsec(), file.len()))
    }
}

/// One run's results, cached between requests.
#[derive(Debug, Default)]
pub struct ResultsCache(Mutex<Option<Arc<RunResults>>>);

impl ResultsCache {
    pub fn current(&self, path: &Path, record: &RunRecord) -> Result<Arc<RunResults>, ViewError> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let run = RunDir::open_read_only(path)?;
        let planned = planned_trials(record);
        let stamp = |found: &super::PlannedTrial<'_>| {
            let dir = run.trial_dir(&found.id());
            let outcome = FileStamps::read_stamp(&dir.outcome_path());
            // If there is an outcome, the trial has started, so don't check whether its journal
            // exists.
            let begun = outcome.is_some() || dir.trajectory_path().exists();
            FileStamps {
                outcome,
                verdict: FileStamps::read_stamp(&dir.verdict_path()),
                has_started: begun,
            }
        };
        let stamps: Vec<FileStamps> = planned.iter().map(stamp).collect();
        let results = match cached.as_ref() {
            Some(read) if read.stamps == stamps => return Ok(Arc::clone(read)),
            Some(read) => {
                let mut results = read.results.clone();
                let changed = stamps.iter().zip(&read.stamps).enumerate();
                for (at, _) in changed.filter(|(_, (now, then))| now != then) {
                    results[at] = read_trial_result(&run, &planned[at]);
                }
                results
            }
            None => read_results(path, false)?,
        };
        let begun = stamps.iter().map(|stamp| stamp.has_started).collect();
        let mut report = build_report(results.clone());
        for arm in &record.arms {
            if let Some(shown) = report.arms.iter_mut().find(|shown| shown.arm == arm.id) {
                shown.add_plan_details(arm);
            }
        }
        let read = Arc::new(RunResults { results, report, trial_started: begun, stamps });
        *cached = Some(Arc::clone(&read));
        Ok(read)
    }
}
