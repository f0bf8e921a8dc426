//! The current results of a run. Runs may have ten thousand trials, so only trials whose files have
//! changed are read again.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use proctor_record::{RunDir, parallel_map};
use proctor_report::{Comparison, Report, TrialResult, compare, findings, read_trial_result};
use proctor_types::{Arm, RunRecord};

use super::{PlannedTrial, planned_trials};
use crate::ViewError;

/// Minimum pause between two checks for changed files, in multiples of the time that a check takes.
/// On a network file system, a check of ten thousand trials takes seconds, and every open page
/// requests one every two seconds.
const CHECK_PAUSE_FACTOR: u32 = 4;
/// How long the dashboard and a run's page wait until the run's trials have been read for the first
/// time. After that, they show the progress.
pub const PRELOAD_PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two checks whether the first read has finished.
const PRELOAD_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The results read from a run. They describe one state of the run: if a file changes, new results
/// replace them. Values that take long to compute are therefore computed once per state.
#[derive(Debug)]
pub struct RunResults {
    /// Each trial's result, in plan order as in the report.
    pub results: Vec<TrialResult>,
    pub report: Report,
    /// The arms' settings.
    arms: Vec<Arm>,
    /// Whether each trial has started.
    pub trial_started: Vec<bool>,
    stamps: Vec<FileStamps>,
    comparison: OnceLock<Comparison>,
    findings: OnceLock<Vec<String>>,
    /// Whether a process was working on the run when the files were last checked.
    is_in_progress: AtomicBool,
}

impl RunResults {
    /// Whether a process is working on the run, and its results may therefore change.
    pub fn is_live(&self) -> bool {
        self.is_in_progress.load(Ordering::Relaxed) && self.may_change()
    }

    /// Returns the comparison of the arms, or `None` if there is only one arm.
    pub fn comparison(&self) -> Option<&Comparison> {
        let several = self.report.arms.len() > 1;
        several.then(|| self.comparison.get_or_init(|| compare(&self.results, Some(&self.arms))))
    }

    /// Returns the report's findings.
    pub fn findings(&self) -> &[String] {
        self.findings.get_or_init(|| findings(&self.report))
    }

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

/// Reads the stamps of all trials, in plan order.
fn read_stamps(run: &RunDir, planned: &[PlannedTrial<'_>]) -> Vec<FileStamps> {
    let stamp = |found: &PlannedTrial<'_>| {
        let dir = run.trial_dir(&found.id());
        let outcome = FileStamps::read_stamp(&dir.outcome_path());
        // If there is an outcome, the trial has started, so don't check whether its journal exists.
        let begun = outcome.is_some() || dir.trajectory_path().exists();
        FileStamps {
            outcome,
            verdict: FileStamps::read_stamp(&dir.verdict_path()),
            has_started: begun,
        }
    };
    planned.iter().map(stamp).collect()
}

/// The results, and when the files were last checked for changes.
#[derive(Debug)]
struct CheckedResults {
    results: Arc<RunResults>,
    checked_at: Instant,
    check_duration: Duration,
}

/// One run's results, cached between requests.
#[derive(Debug, Default)]
pub struct ResultsCache {
    checked: Mutex<Option<CheckedResults>>,
    /// Whether a thread that serves no requests will read the results for the first time.
    is_preloading: AtomicBool,
    /// Number of trials that the first read has read so far.
    read_count: AtomicUsize,
}

impl ResultsCache {
    /// Announces that the caller will read the results. Until `finish_preload`, pages show the
    /// progress instead of waiting.
    pub fn start_preload(&self) {
        self.is_preloading.store(true, Ordering::Release);
    }

    pub fn finish_preload(&self) {
        self.is_preloading.store(false, Ordering::Release);
    }

    /// Waits for the first read if it is in progress. If it takes longer than `patience`, returns
    /// the number of trials that have been read.
    pub fn wait_for_preload(&self, patience: Duration) -> Option<usize> {
        let deadline = Instant::now() + patience;
        while self.is_preloading.load(Ordering::Acquire) {
            if Instant::now() >= deadline {
                return Some(self.read_count.load(Ordering::Relaxed));
            }
            thread::sleep(PRELOAD_POLL_INTERVAL);
        }
        None
    }

    pub fn current(&self, path: &Path, record: &RunRecord) -> Result<Arc<RunResults>, ViewError> {
        let mut cached = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = cached.as_ref()
            && known.checked_at.elapsed() < known.check_duration * CHECK_PAUSE_FACTOR
        {
            return Ok(Arc::clone(&known.results));
        }
        let run = RunDir::open_read_only(path)?;
        // Check this before the files. If no process is working on the run, they are final.
        let is_in_progress = run.is_in_progress();
        let planned = planned_trials(record);
        let started_at = Instant::now();
        let stamps = read_stamps(&run, &planned);
        let check_duration = started_at.elapsed();
        let results = match cached.take() {
            Some(known) if known.results.stamps == stamps => known.results,
            Some(known) => {
                let old = &known.results.stamps;
                let changed = stamps.iter().zip(old).enumerate();
                let changed = changed.filter(|(_, (now, then))| now != then).map(|(at, _)| at);
                let changed: Vec<usize> = changed.collect();
                // Copy the results only if another request is still using them.
                let mut results = match Arc::try_unwrap(known.results) {
                    Ok(owned) => owned.results,
                    Err(shared) => shared.results.clone(),
                };
                for at in changed {
                    results[at] = read_trial_result(&run, &planned[at]);
                }
                Arc::new(build_results(record, results, stamps))
            }
            None => {
                let results = parallel_map(&planned, |found| {
                    let result = read_trial_result(&run, found);
                    self.read_count.fetch_add(1, Ordering::Relaxed);
                    result
                });
                Arc::new(build_results(record, results, stamps))
            }
        };
        results.is_in_progress.store(is_in_progress, Ordering::Relaxed);
        *cached = Some(CheckedResults {
            results: Arc::clone(&results),
            checked_at: Instant::now(),
            check_duration,
        });
        Ok(results)
    }
}

fn build_results(
    record: &RunRecord,
    results: Vec<TrialResult>,
    stamps: Vec<FileStamps>,
) -> RunResults {
    let mut report = Report::from_results(&results);
    for arm in &record.arms {
        if let Some(shown) = report.arms.iter_mut().find(|shown| shown.arm == arm.id) {
            shown.add_plan_details(arm);
        }
    }
    RunResults {
        results,
        report,
        arms: record.arms.clone(),
        trial_started: stamps.iter().map(|stamp| stamp.has_started).collect(),
        stamps,
        comparison: OnceLock::new(),
        findings: OnceLock::new(),
        is_in_progress: AtomicBool::new(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_run::{finish_trial, write_plan};

    /// Returns the results as soon as `ended` trials have ended.
    fn wait_for(
        cache: &ResultsCache,
        path: &Path,
        run: &RunRecord,
        ended: usize,
    ) -> Arc<RunResults> {
        let started_at = Instant::now();
        loop {
            let results = cache.current(path, run).unwrap();
            if results.ended_count() == ended {
                return results;
            }
            assert!(started_at.elapsed() < Duration::from_secs(30), "{}", results.ended_count());
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn unchanged_run_is_compared_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let run = write_plan(&path, &["a", "b"], 2, 1);
        let cache = ResultsCache::default();
        let first = wait_for(&cache, &path, &run, 0);
        let again = cache.current(&path, &run).unwrap();
        assert!(std::ptr::eq(first.comparison().unwrap(), again.comparison().unwrap()));
        finish_trial(&path, &run.tasks[0], &run.arms[0], true);
        let changed = wait_for(&cache, &path, &run, 1);
        assert!(!std::ptr::eq(first.comparison().unwrap(), changed.comparison().unwrap()));
        assert_eq!(first.ended_count(), 0, "a page that is being rendered keeps its state");
        drop((first, again, changed));
        // No request uses the old results, so they are updated in place.
        finish_trial(&path, &run.tasks[1], &run.arms[1], false);
        let last = wait_for(&cache, &path, &run, 2);
        assert_eq!(last.report.arms.iter().map(|arm| arm.resolved).collect::<Vec<_>>(), [1, 0]);
        assert!(last.may_change());
    }

    #[test]
    fn wait_for_preload_times_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let run = write_plan(&path, &["a"], 3, 1);
        let cache = ResultsCache::default();
        assert_eq!(cache.wait_for_preload(Duration::ZERO), None, "no other thread reads");
        cache.start_preload();
        assert_eq!(cache.wait_for_preload(Duration::ZERO), Some(0));
        cache.current(&path, &run).unwrap();
        assert_eq!(cache.wait_for_preload(Duration::ZERO), Some(3));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| cache.wait_for_preload(Duration::from_secs(60)));
            cache.finish_preload();
            assert_eq!(waiting.join().unwrap(), None);
        });
    }

    #[test]
    fn stopped_run_is_not_live() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let run = write_plan(&path, &["a"], 1, 1);
        let process = RunDir::open(&path).unwrap();
        let results = ResultsCache::default().current(&path, &run).unwrap();
        assert!(results.is_live());
        drop(process);
        let results = ResultsCache::default().current(&path, &run).unwrap();
        assert!(results.may_change() && !results.is_live());
    }

    #[test]
    fn run_with_one_arm_has_no_comparison() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let run = write_plan(&path, &["a"], 1, 1);
        let results = ResultsCache::default().current(&path, &run).unwrap();
        assert!(results.comparison().is_none());
    }
}
