//! The run directory and its lock.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use proctor_cluster::{Membership, find_live_member};
use proctor_types::{ArmId, RunRecord, TaskId, TrialId, path_component};
use serde::{Deserialize, Serialize};

use crate::{
    Blobs, CheckedTrial, Corruption, RecordError, Remedy, TrialDir,
    check::{CheckCache, TrialCheck},
    disk::{self, describe_read_error},
    pinned_dirs::PinnedDirs,
    run_file,
    trial_dir::TRIES_DIR,
    workers::SchedulerJobs,
};

/// Number of hex digits of an arm's id that are used in paths. These are 48 bits, so
/// [`RunDir::reject_colliding_arms`] checks for collisions.
const ARM_DIGITS: usize = 12;

/// `RUN/`: `run.json` and its copy, `trials/<arm>/<task>/<attempt>/`, `blobs/`, `report.json`,
/// `checked.jsonl`, and `lock`.
///
/// Only one process at a time may change a run's plan. The process holds an advisory lock while
/// this value exists. The kernel releases the lock no matter how the process ends. Workers that
/// share the run's trials use [`RunDir::join`], and readers use [`RunDir::open_read_only`].
#[derive(Debug)]
pub struct RunDir {
    root: PathBuf,
    check_cache: CheckCache,
    /// This process's membership as a worker. Set when the process leases its first trial.
    pub(crate) membership: Mutex<Option<Arc<Membership>>>,
    pub(crate) pinned_dirs: Arc<PinnedDirs>,
    /// Whether workers on other machines may work on the run at the same time.
    pub(crate) is_shared: bool,
    /// Descriptions of the previous workers of trials that were taken over.
    pub(crate) previous_workers: Mutex<HashMap<TrialId, String>>,
    pub(crate) scheduler_jobs: SchedulerJobs,
    /// Closing the file releases the lock.
    _lock: Option<File>,
}

impl RunDir {
    /// Creates and locks a new run directory.
    ///
    /// # Errors
    /// Fails if a run already exists there, or if another process holds the directory's lock.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, RecordError> {
        let root = path.into();
        fs::create_dir_all(root.join("trials"))
            .map_err(RecordError::io(&root, "the run directory cannot be created"))?;
        let lock = lock_run(&root)?;
        if run_file::has_plan(&root)? {
            return Err(RecordError::RunExists { path: root });
        }
        if run_file::has_trials(&root) {
            // Don't write a new plan here. The run would then be a mixture of the new plan and the
            // existing trials.
            return Err(RecordError::PlanLost { path: root });
        }
        Ok(Self::new(root, Some(lock)))
    }

    fn new(root: PathBuf, lock: Option<File>) -> Self {
        let (check_cache, membership) =
            (CheckCache::new(root.join(CHECK_CACHE_FILE)), Mutex::default());
        Self {
            check_cache,
            root,
            membership,
            pinned_dirs: Arc::default(),
            is_shared: false,
            previous_workers: Mutex::default(),
            scheduler_jobs: SchedulerJobs::default(),
            _lock: lock,
        }
    }

    /// Opens and locks a run in order to continue it.
    ///
    /// # Errors
    /// Fails if there is no run, or if another process holds its lock. The error contains that
    /// process's id.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, RecordError> {
        let mut run = Self::open_read_only(path)?;
        run._lock = Some(lock_run(&run.root)?);
        Ok(run)
    }

    /// Opens a run as one of its workers, on any machine that can access the directory. Workers
    /// divide the trials with [`RunDir::lease`] and do not lock the run.
    ///
    /// # Errors
    /// Fails if there is no run.
    pub fn join(path: impl Into<PathBuf>) -> Result<Self, RecordError> {
        let mut run = Self::open_read_only(path)?;
        run.is_shared = true;
        Ok(run)
    }

    /// Opens a run read-only. Another process may write to it at the same time.
    pub fn open_read_only(path: impl Into<PathBuf>) -> Result<Self, RecordError> {
        let root = path.into();
        if !run_file::has_plan(&root)? {
            return Err(run_file::missing_plan_error(root));
        }
        Ok(Self::new(root, None))
    }

    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Whether workers on other machines may work on the run at the same time.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Whether a process is working on the run: it holds the lock, or it is a live worker of a shared
    /// run. Returns `true` if this can't be determined.
    pub fn is_in_progress(&self) -> bool {
        // Holding a shared lock for a moment doesn't disturb a process that is just starting,
        // because `disk::lock_file` retries.
        let is_locked = match disk::open_regular_file(&self.root.join(LOCK_FILE)) {
            Ok(file) => file.try_lock_shared().is_err(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        let has_no_worker = find_live_member(&self.root, None).is_ok_and(|worker| worker.is_none());
        is_locked || !has_no_worker
    }

    pub fn blobs(&self) -> Blobs {
        Blobs::new(self.root.join("blobs"))
    }

    /// Returns an error if two of the arms would use the same directory.
    pub fn reject_colliding_arms<'a>(
        &self,
        arms: impl IntoIterator<Item = &'a ArmId>,
    ) -> Result<(), RecordError> {
        let mut seen = BTreeMap::new();
        for arm in arms {
            if let Some(other) = seen.insert(arm_path_component(arm), arm)
                && other != arm
            {
                return Err(RecordError::Misuse {
                    path: self.root.clone(),
                    why: format!("arms {other} and {arm} would use the same folder; split the run"),
                });
            }
        }
        Ok(())
    }

    /// Returns the trial's directory and creates it if it is missing.
    pub fn create_trial_dir(&self, id: &TrialId) -> Result<TrialDir, RecordError> {
        let trial = self.trial_dir(id);
        trial.create()?;
        Ok(trial)
    }

    /// Returns the trial's directory, whether or not it exists.
    pub fn trial_dir(&self, id: &TrialId) -> TrialDir {
        TrialDir::new(self.pinned_dirs.path(id).unwrap_or_else(|| self.trial_dir_path(id)))
    }

    /// Returns the path of the trial's directory below `trials/`, even if this process accesses the
    /// directory through a file descriptor.
    pub(crate) fn trial_dir_path(&self, id: &TrialId) -> PathBuf {
        let arm = self.root.join("trials").join(arm_path_component(&id.arm));
        arm.join(path_component(id.task.as_str())).join(id.attempt.to_string())
    }

    pub fn write_run(&self, run: &RunRecord) -> Result<(), RecordError> {
        run_file::write(&self.root, run)
    }

    /// Returns the plan from `run.json`, or from its copy if `run.json` is corrupt.
    ///
    /// # Errors
    /// Fails if the plan cannot be read, or if it comes from an incompatible version of Proctor.
    pub fn read_run(&self) -> Result<RunRecord, RecordError> {
        self.check_run().map(|(run, _)| run)
    }

    /// Returns the plan. If `run.json` is corrupt, returns the plan from its copy, and the
    /// corruption.
    pub fn check_run(&self) -> Result<(RunRecord, Option<Corruption>), RecordError> {
        run_file::read(&self.root)
    }

    /// Like [`RunDir::check_run`], but also returns corruption of the copy if `run.json` is intact.
    pub fn verify_run(&self) -> Result<(RunRecord, Option<Corruption>), RecordError> {
        run_file::verify(&self.root)
    }

    /// Rewrites a corrupt `run.json` from its copy, or a corrupt copy from `run.json`.
    pub fn restore_run(&self) -> Result<(), RecordError> {
        run_file::restore(&self.root)
    }

    /// Returns the blobs of one trial: the run's shared blobs and the trial's own.
    pub fn trial_blobs(&self, trial: &TrialDir) -> Blobs {
        self.blobs().with_pack(trial.pack_path())
    }

    /// Returns the patch with this hash, which a trial's journal names. Reads the patch from
    /// `patch.diff`, or from the blobs if that file does not match the hash.
    ///
    /// # Errors
    /// Fails if neither the file nor the blobs contain the patch.
    pub fn load_patch(&self, trial: &TrialDir, hash: &str) -> Result<Vec<u8>, RecordError> {
        let written = trial.read_patch().ok().flatten();
        match written.filter(|bytes| Blobs::hash(bytes) == hash) {
            Some(patch) => Ok(patch),
            None => self.trial_blobs(trial).get(hash),
        }
    }

    /// Returns the intact parts of a trial's record. If an earlier check found a journal or patch
    /// intact, and its size, times and inode are unchanged, the file is not read again.
    pub fn check_trial(&self, id: &TrialId) -> CheckedTrial {
        self.check_trial_with(id, true)
    }

    /// Returns a verifier for many trials. Unlike [`RunDir::check_trial`], it reads everything and
    /// ignores earlier checks.
    pub fn verifier(&self) -> TrialVerifier<'_> {
        TrialVerifier {
            run_dir: self,
            verified_blobs: HashSet::new(),
            reported_trials: self.reported_verdicts(),
        }
    }

    fn check_trial_with(&self, id: &TrialId, should_trust_cache: bool) -> CheckedTrial {
        let (dir, known) = (self.trial_dir(id), &self.check_cache);
        let (blobs, plain) = (self.trial_blobs(&dir), self.trial_dir_path(id));
        let name = plain.strip_prefix(&self.root).unwrap_or(&plain).to_string_lossy();
        TrialCheck {
            dir: &dir,
            id,
            blobs: &blobs,
            cache: known,
            cache_key: &name,
            trusts_cache: should_trust_cache,
        }
        .check_trial()
    }

    /// Returns the trials that have a verdict in `report.json` but whose record was removed, so
    /// that they would run again, in sorted order. A trial that has lost only its journal is not
    /// included: it is corrupt and does not run again. A trial with earlier tries is not included
    /// either, because the user requested its re-run.
    pub fn removed_trials(&self) -> Vec<TrialId> {
        let reported = self.reported_verdicts().into_iter();
        let is_gone = |id: &TrialId| {
            let dir = self.trial_dir(id);
            let is_empty = !dir.trajectory_path().exists() && !dir.path().join(TRIES_DIR).exists();
            is_empty && !self.check_trial(id).is_finished
        };
        let mut gone: Vec<_> = reported.filter(is_gone).collect();
        gone.sort();
        gone
    }

    /// Returns the trials that have a verdict in `report.json`. Unreadable parts are ignored.
    fn reported_verdicts(&self) -> HashSet<TrialId> {
        #[derive(Deserialize)]
        struct Trial {
            task: TaskId,
            arm: ArmId,
            attempt: u32,
            resolved: Option<bool>,
        }
        #[derive(Deserialize)]
        struct ReportFile {
            tasks: Vec<Trial>,
        }
        let bytes =
            disk::read_if_exists(&self.root.join(REPORT_FILE)).ok().flatten().unwrap_or_default();
        let trials =
            serde_json::from_slice(&bytes).map_or(Vec::new(), |ReportFile { tasks }| tasks);
        let graded = trials.into_iter().filter(|one| one.resolved.is_some());
        graded.map(|Trial { task, arm, attempt, .. }| TrialId { task, arm, attempt }).collect()
    }

    pub fn write_report(&self, report: &impl Serialize) -> Result<(), RecordError> {
        disk::write_json(&self.root.join(REPORT_FILE), report)
    }

    /// Returns the corruption of `report.json`, if the file exists and is corrupt. No score depends
    /// on the report, because it only repeats the record.
    pub fn verify_report(&self) -> Option<Corruption> {
        let path = self.root.join(REPORT_FILE);
        let why = match disk::try_read_if_exists(&path) {
            Ok(None) => return None,
            Ok(Some(bytes)) => match serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
                Ok(_) => return None,
                Err(_) => "not a report".to_owned(),
            },
            Err(error) => describe_read_error(&error),
        };
        Some(Corruption::new(path, why, Remedy::LostEvidence))
    }
}

/// Verifies trials by reading their whole record.
#[derive(Debug)]
pub struct TrialVerifier<'a> {
    run_dir: &'a RunDir,
    /// Shared blobs that were read and found intact.
    verified_blobs: HashSet<String>,
    /// Trials that have a verdict in the last report.
    reported_trials: HashSet<TrialId>,
}

impl TrialVerifier<'_> {
    /// Like [`RunDir::check_trial`], but also checks everything that the trial's events refer to.
    pub fn verify_trial(&mut self, id: &TrialId) -> CheckedTrial {
        let mut checked = self.run_dir.check_trial_with(id, false);
        let dir = self.run_dir.trial_dir(id);
        dir.verify(&self.run_dir.blobs(), &mut self.verified_blobs, &mut checked);
        if !checked.is_finished && self.reported_trials.contains(id) {
            let why = "missing, but report.json has a verdict for this trial";
            checked.corruptions.push(Corruption::new(
                dir.trajectory_path(),
                why,
                Remedy::RestoreTrial,
            ));
        }
        if checked.is_finished && self.reported_trials.contains(id) && dir.is_ungraded() {
            let why = "missing, as is the verdict, but report.json has a verdict for this trial";
            checked.corruptions.push(Corruption::new(dir.gradings_path(), why, Remedy::Regrade));
        }
        checked
    }
}

const REPORT_FILE: &str = "report.json";
const LOCK_FILE: &str = "lock";
/// See [`CheckCache`].
const CHECK_CACHE_FILE: &str = "checked.jsonl";

fn arm_path_component(arm: &ArmId) -> String {
    path_component(arm.as_str().get(..ARM_DIGITS).unwrap_or(arm.as_str()))
}

/// Locks `RUN/lock` and writes the process id into this file. The file is never removed. Otherwise,
/// two processes could each lock a different file with this name.
fn lock_run(root: &Path) -> Result<File, RecordError> {
    let path = root.join(LOCK_FILE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = disk::open_with(&options, &path)
        .map_err(RecordError::io(&path, "the run cannot be locked"))?;
    match disk::lock_file(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // If the process that holds the lock has not written its id yet, the error message says
            // "unknown process".
            let _ = file.read_to_string(&mut holder);
            let holder = match holder.trim() {
                "" => "unknown process".to_owned(),
                pid => format!("process {pid}"),
            };
            return Err(RecordError::Locked { path: root.to_owned(), holder });
        }
        Err(TryLockError::Error(error)) => {
            return Err(RecordError::io(&path, "the run cannot be locked")(error));
        }
    }
    let mut write = || {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    write().map_err(RecordError::io(&path, "the run cannot be locked"))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use proctor_types::{CONFIG_VERSION, RULES_VERSION, RUN_SCHEMA_VERSION, TaskId};
    use serde_json::json;

    use super::*;

    fn test_plan() -> RunRecord {
        RunRecord {
            schema_version: RUN_SCHEMA_VERSION,
            rules: RULES_VERSION,
            proctor: "0.1.0".into(),
            created: 1,
            attempts: 1,
            jobs: 2,
            arms: vec![],
            tasks: vec![],
            config_version: CONFIG_VERSION,
            config: serde_json::from_value(json!({"a": 1})).unwrap(),
            host: json!({}),
            agent: String::new(),
            certificate: None,
            flaky: Default::default(),
            selection: None,
            absent: std::collections::BTreeSet::new(),
            changes: Vec::new(),
        }
    }

    #[test]
    fn run_is_in_progress_while_a_process_holds_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let run = RunDir::create(&path).unwrap();
        run.write_run(&test_plan()).unwrap();
        let reader = RunDir::open_read_only(&path).unwrap();
        assert!(reader.is_in_progress());
        drop(run);
        assert!(!reader.is_in_progress());
        let reopened = RunDir::open(&path);
        assert!(reopened.is_ok(), "the check releases the lock");
        assert!(reader.is_in_progress());
        drop(reopened);
        fs::remove_file(path.join(LOCK_FILE)).unwrap();
        assert!(!reader.is_in_progress(), "a copy of a run may have no lock file");
    }

    #[test]
    fn run_dir_is_locked_and_the_error_names_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let run = RunDir::create(&path).unwrap();
        run.write_run(&test_plan()).unwrap();
        let error = RunDir::open(&path).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        assert_eq!(RunDir::open_read_only(&path).unwrap().read_run().unwrap(), test_plan());
        drop(run);
        let run = RunDir::open(&path).unwrap();
        drop(run);
        assert!(matches!(RunDir::create(&path), Err(RecordError::RunExists { .. })));
    }

    #[test]
    fn read_run_names_the_version_that_can_read_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path()).unwrap();
        for (schema, proctor, said) in [
            (1, "0.1.0", "a version before Proctor 0.1.0"),
            (7, "0.9.0", "read it with proctor 0.9.0"),
        ] {
            // The versions can be read even if the rest of the plan is unreadable.
            let old = json!({"schema_version": schema, "proctor": proctor, "arms": "other"});
            fs::write(folder.path().join("run.json"), old.to_string()).unwrap();
            let error = run.read_run().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn read_run_rejects_a_newer_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path()).unwrap();
        let newer = RunRecord { config_version: CONFIG_VERSION + 1, ..test_plan() };
        run.write_run(&newer).unwrap();
        let error = run.read_run().unwrap_err();
        assert!(matches!(error, RecordError::NewerConfig { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains("newer build of Proctor (its version is 0.1.0"), "{error}");
        // Earlier builds did not write a version.
        let mut earlier = serde_json::to_value(test_plan()).unwrap();
        earlier.as_object_mut().unwrap().remove("config_version");
        let earlier: RunRecord = serde_json::from_value(earlier).unwrap();
        assert_eq!(earlier, RunRecord { config_version: 1, ..test_plan() });
    }

    #[test]
    fn open_rejects_a_folder_without_a_run() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(RunDir::open(folder.path()), Err(RecordError::NotARun { .. })));
    }

    #[test]
    fn trial_folders_are_distinct_for_any_names() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path()).unwrap();
        let arm = ArmId::new("0123456789abcdef".repeat(4));
        let id = TrialId { task: TaskId::new("../a/b"), arm: arm.clone(), attempt: 2 };
        let trial = run.create_trial_dir(&id).unwrap();
        let expected = folder.path().join("trials/0123456789ab/%2E.%2Fa%2Fb/2");
        assert_eq!(trial.path(), expected);
        assert!(expected.is_dir());
        let near = ArmId::new(format!("0123456789ab{}", "f".repeat(52)));
        assert!(run.reject_colliding_arms([&arm, &arm]).is_ok());
        assert!(run.reject_colliding_arms([&arm, &near]).is_err());
    }
}
