//! Leases trials to workers, and takes over the trial directories of dead workers.

use std::{
    collections::HashSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
};

use proctor_cluster::{Claim, ClaimResult, Claims, Member, Membership, find_live_member};
use proctor_types::TrialId;

use crate::{
    RecordError, RunDir, TrialDir, disk,
    pinned_dirs::PinnedDirs,
    trial_dir::TRIES_DIR,
    workers::{SchedulerJobs, describe_this_worker},
};

/// Directory to which a dead worker's trial directory is moved when another worker takes over the
/// trial.
pub(crate) const SUPERSEDED_DIR: &str = "superseded";

/// The result of an attempt to lease a trial.
#[derive(Debug)]
pub enum LeaseResult {
    Leased(Lease),
    /// Another worker has leased the trial.
    LeasedByOther,
    /// Another worker has finished the trial, and the run has had live workers ever since.
    Finished,
}

/// Trials that workers have finished.
#[derive(Debug, Default)]
pub struct FinishedTrials(HashSet<String>);

impl FinishedTrials {
    pub fn contains(&self, id: &TrialId) -> bool {
        // If the set is empty, don't compute the hashes of ten thousand ids.
        !self.0.is_empty() && self.0.contains(&claim_key(id))
    }
}

/// A trial that is leased to this worker. Dropping it releases the trial.
#[derive(Debug)]
pub struct Lease {
    claim: Claim,
    id: TrialId,
    pinned_dirs: Arc<PinnedDirs>,
}

impl Lease {
    /// Waits until another worker has taken over the trial.
    pub async fn wait_until_lost(&self) {
        self.claim.wait_until_lost().await;
    }

    /// Marks the trial as finished.
    pub fn mark_finished(&mut self) {
        self.claim.mark_finished();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        match self.claim.is_lost() {
            true => self.pinned_dirs.abandon(&self.id),
            false => self.pinned_dirs.remove(&self.id),
        }
    }
}

impl RunDir {
    /// Returns this process's membership in the run. The first call registers the process as a
    /// worker.
    ///
    /// # Errors
    /// Fails if the run directory can't be written.
    pub fn ensure_membership(&self) -> Result<Arc<Membership>, RecordError> {
        let mut joined = self.membership.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(membership) = &*joined {
            return Ok(Arc::clone(membership));
        }
        let misuse = |why| RecordError::Misuse { path: self.path().to_owned(), why };
        let member = describe_this_worker().map_err(misuse)?;
        let membership = Membership::join(self.path(), member)
            .map_err(RecordError::io(self.path(), "this worker can't join the run"))?;
        let membership = Arc::new(membership);
        *joined = Some(Arc::clone(&membership));
        Ok(membership)
    }

    /// Whether a shared run has other live workers. Returns `false` if the run directory can't be read.
    pub fn has_other_workers(&self) -> bool {
        let Some(own) = self.is_shared.then(|| self.ensure_membership().ok()).flatten() else {
            return false;
        };
        find_live_member(self.path(), Some(&own.member().id)).is_ok_and(|other| other.is_some())
    }

    /// Returns the trials that a shared run's workers have finished. Contains only trials since
    /// whose end at least one worker has always been alive. Reading this list is cheaper than
    /// checking each trial. The list may be incomplete.
    ///
    /// # Errors
    /// Fails if the run directory can't be read.
    pub fn finished_trials(&self) -> Result<FinishedTrials, RecordError> {
        if !self.is_shared {
            return Ok(FinishedTrials::default());
        }
        let listing =
            |error| RecordError::io(self.path(), "finished trials can't be listed")(error);
        Claims::new(&self.ensure_membership()?).finished_keys().map(FinishedTrials).map_err(listing)
    }

    /// Whether other workers may have taken over this worker's trials because its heartbeat was late.
    pub fn is_worker_presumed_dead(&self) -> bool {
        let joined = self.membership.lock().unwrap_or_else(PoisonError::into_inner);
        joined.as_ref().is_some_and(|membership| membership.is_presumed_dead())
    }

    /// Leases a trial for this worker.
    ///
    /// # Errors
    /// Fails if the run directory can't be read or written, or if other workers presume this worker
    /// dead.
    pub fn lease(&self, id: &TrialId) -> Result<LeaseResult, RecordError> {
        let key = claim_key(id);
        let claiming = |error| RecordError::io(self.path(), "the trial can't be claimed")(error);
        let claims = Claims::new(&self.ensure_membership()?);
        let claim = match claims.claim(&key).map_err(claiming)? {
            ClaimResult::Claimed(claim) => claim,
            ClaimResult::OwnedBy(_) => return Ok(LeaseResult::LeasedByOther),
            ClaimResult::Finished => return Ok(LeaseResult::Finished),
        };
        let folder = self.trial_dir_path(id);
        let taking = RecordError::io(&folder, "the trial can't be taken over");
        let replacement =
            DirTakeover { superseded_dir: self.path().join(SUPERSEDED_DIR), claim_key: key };
        let dead =
            claim.dead_owner().map(|dead| self.scheduler_jobs.describe_worker(self.path(), dead));
        let takes_over = || -> io::Result<Option<File>> {
            replacement.finish_takeover(&folder)?;
            if !self.is_shared {
                return Ok(None);
            }
            if let Some(dead) = &dead
                && folder.exists()
                && TrialDir::new(&folder).read_verdict().ok().flatten().is_none()
            {
                replacement.take_over(&folder, dead)?;
            }
            fs::create_dir_all(&folder)?;
            File::open(&folder).map(Some)
        };
        if let Some(folder) = takes_over().map_err(taking)? {
            self.pinned_dirs.pin(id, folder);
        }
        let mut lost = self.previous_workers.lock().unwrap_or_else(PoisonError::into_inner);
        match dead {
            // Report the dead worker only for shared runs. On a single machine, the user who
            // resumes a run knows what happened to the earlier process.
            Some(dead) if self.is_shared => lost.insert(id.clone(), dead),
            _ => lost.remove(id),
        };
        drop(lost);
        Ok(LeaseResult::Leased(Lease {
            claim,
            id: id.clone(),
            pinned_dirs: Arc::clone(&self.pinned_dirs),
        }))
    }
}

impl RunDir {
    /// Adds the scheduler's job state, such as `NODE_FAIL`, to the description of dead workers.
    #[must_use]
    pub fn with_job_lookup(
        mut self,
        lookup: impl Fn(&Member) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.scheduler_jobs = SchedulerJobs::new(lookup);
        self
    }

    /// Describes the worker from which this worker took over the trial.
    pub fn previous_worker(&self, id: &TrialId) -> Option<String> {
        self.previous_workers.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
}

/// Returns a trial's claim key, which is a valid file name.
fn claim_key(id: &TrialId) -> String {
    let name = format!("{}\n{}\n{}", id.task, id.arm, id.attempt);
    blake3::hash(name.as_bytes()).to_hex().get(..32).unwrap_or_default().to_owned()
}

/// Takes over a trial directory: creates a copy for the successor to continue, and sets the dead
/// worker's directory aside unchanged.
///
/// `superseded/<key>.new` is a complete copy that has not been moved into place yet.
/// `superseded/<key>.<n>` is a directory that was set aside.
struct DirTakeover {
    superseded_dir: PathBuf,
    claim_key: String,
}

/// Maximum number of copy attempts. A worker that was wrongly presumed dead may move files during
/// the copy.
const MAX_COPY_ATTEMPTS: usize = 5;

impl DirTakeover {
    fn path_with_suffix(&self, suffix: &str) -> PathBuf {
        self.superseded_dir.join(format!("{}.{suffix}", self.claim_key))
    }

    /// Finishes a takeover that was interrupted because the new worker died between the two
    /// renames.
    fn finish_takeover(&self, folder: &Path) -> io::Result<()> {
        let new = self.path_with_suffix("new");
        match (new.exists(), folder.exists()) {
            (false, _) => Ok(()),
            // The takeover was interrupted before the first rename, so the copy may be older than
            // the directory.
            (true, true) => fs::remove_dir_all(&new),
            (true, false) => fs::rename(&new, folder),
        }
    }

    fn take_over(&self, folder: &Path, dead_worker: &str) -> io::Result<()> {
        fs::create_dir_all(&self.superseded_dir)?;
        let (part, new) = (self.path_with_suffix("part"), self.path_with_suffix("new"));
        let mut copied = Ok(());
        for _ in 0..MAX_COPY_ATTEMPTS {
            let _ = fs::remove_dir_all(&part);
            copied = copy_trial_dir(folder, &part, true);
            match &copied {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ => break,
            }
        }
        copied?;
        fs::rename(&part, &new)?;
        fs::write(folder.join("superseded.txt"), format!("{dead_worker} was considered dead\n"))?;
        let mut free = (1_u32..).map(|number| self.path_with_suffix(&number.to_string()));
        let old = free.find(|old| !old.exists()).unwrap_or_else(|| self.path_with_suffix("0"));
        fs::rename(folder, &old)?;
        fs::rename(&new, folder)
    }
}

/// Copies a trial's directory. Earlier tries no longer change, so their files are hard-linked.
fn copy_trial_dir(source: &Path, destination: &Path, is_top_level: bool) -> io::Result<()> {
    fs::create_dir(destination)?;
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let (path, target) = (entry.path(), destination.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() && is_top_level && entry.file_name() == TRIES_DIR {
            hard_link_dir(&path, &target)?;
        } else if kind.is_dir() {
            copy_trial_dir(&path, &target, false)?;
        } else if kind.is_file() {
            fs::copy(&path, &target)?;
            // `fsync` here, because a paid response in the copy must also survive power loss.
            File::open(&target)?.sync_data()?;
        }
    }
    disk::sync_folder(destination)
}

fn hard_link_dir(source: &Path, destination: &Path) -> io::Result<()> {
    fs::create_dir(destination)?;
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let (path, target) = (entry.path(), destination.join(entry.file_name()));
        match entry.file_type()? {
            kind if kind.is_dir() => hard_link_dir(&path, &target)?,
            kind if kind.is_file() => fs::hard_link(&path, &target)?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, time::Duration};

    use proctor_types::{ArmId, TaskId};

    use super::*;

    fn trial_id(attempt: u32) -> TrialId {
        TrialId { task: TaskId::new("t"), arm: ArmId::new("a"), attempt }
    }

    fn expect_lease(result: Result<LeaseResult, RecordError>) -> Lease {
        match result.unwrap() {
            LeaseResult::Leased(lease) => lease,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn trial_is_leased_to_one_worker_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let one = RunDir::create(folder.path()).unwrap();
        let other = RunDir::create(folder.path().join("x")).unwrap();
        let lease = expect_lease(one.lease(&trial_id(1)));
        assert!(matches!(one.lease(&trial_id(1)).unwrap(), LeaseResult::LeasedByOther));
        expect_lease(one.lease(&trial_id(2)));
        expect_lease(other.lease(&trial_id(1)));
        drop(lease);
        expect_lease(one.lease(&trial_id(1)));
        drop((one, other));
        for name in ["claims", "workers"] {
            assert!(!folder.path().join(name).exists(), "{name} was left behind");
        }
    }

    /// Two `RunDir` values for the same run represent two workers. The test makes the first worker
    /// look dead.
    #[test]
    fn superseded_worker_writes_only_into_its_own_folder() {
        let folder = tempfile::tempdir().unwrap();
        let made = RunDir::create(folder.path()).unwrap();
        fs::write(folder.path().join("run.json"), "{}").unwrap();
        drop(made);
        let (dead, next) =
            (RunDir::join(folder.path()).unwrap(), RunDir::join(folder.path()).unwrap());
        let next = next.with_job_lookup(|_| Some("NODE_FAIL".to_owned()));
        assert!(!dead.has_other_workers());
        let lease = expect_lease(dead.lease(&trial_id(1)));
        assert!(next.has_other_workers() && dead.has_other_workers());
        let old = dead.create_trial_dir(&trial_id(1)).unwrap();
        let mut journal = File::create(old.trajectory_path()).unwrap();
        journal.write_all(b"paid\n").unwrap();
        fs::create_dir_all(old.tries_dir().join("1")).unwrap();
        fs::write(old.tries_dir().join("1/trajectory.jsonl"), "earlier\n").unwrap();
        assert!(matches!(next.lease(&trial_id(1)).unwrap(), LeaseResult::LeasedByOther));

        let worker = dead.ensure_membership().unwrap().member().id.clone();
        let beat = folder.path().join("workers").join(format!("{worker}.json"));
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        File::options().write(true).open(beat).unwrap().set_modified(long_ago).unwrap();
        let second = expect_lease(next.lease(&trial_id(1)));
        let new = next.create_trial_dir(&trial_id(1)).unwrap();
        assert_eq!(fs::read(new.trajectory_path()).unwrap(), b"paid\n");
        assert!(next.previous_worker(&trial_id(1)).unwrap().contains(&worker));
        assert!(new.tries_dir().join("1/trajectory.jsonl").exists());

        // The first worker keeps writing, but none of its writes reach the second worker's directory.
        journal.write_all(b"late\n").unwrap();
        fs::write(old.patch_path(), "late").unwrap();
        fs::write(old.outcome_path(), "late").unwrap();
        let plain = next.trial_dir_path(&trial_id(1));
        assert_eq!(fs::read(plain.join("trajectory.jsonl")).unwrap(), b"paid\n");
        assert!(!plain.join("patch.diff").exists() && !plain.join("outcome.json").exists());
        let kept: Vec<_> = fs::read_dir(folder.path().join(SUPERSEDED_DIR)).unwrap().collect();
        assert_eq!(kept.len(), 1);
        let kept = kept[0].as_ref().unwrap().path();
        assert_eq!(fs::read(kept.join("trajectory.jsonl")).unwrap(), b"paid\nlate\n");
        assert!(kept.join("outcome.json").exists() && kept.join("superseded.txt").exists());
        drop((lease, second));
    }

    #[test]
    fn interrupted_takeover_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let trial = folder.path().join("trial");
        let superseded = folder.path().join(SUPERSEDED_DIR);
        let replacement = DirTakeover { superseded_dir: superseded, claim_key: "k".to_owned() };
        let new = replacement.path_with_suffix("new");
        fs::create_dir_all(&new).unwrap();
        fs::write(new.join("trajectory.jsonl"), "paid\n").unwrap();
        replacement.finish_takeover(&trial).unwrap();
        assert_eq!(fs::read(trial.join("trajectory.jsonl")).unwrap(), b"paid\n");
        assert!(!new.exists());
        for times in 1..=2 {
            replacement.take_over(&trial, "worker").unwrap();
            assert!(
                replacement.path_with_suffix(&times.to_string()).join("superseded.txt").exists()
            );
            assert_eq!(fs::read(trial.join("trajectory.jsonl")).unwrap(), b"paid\n");
            assert!(!trial.join("superseded.txt").exists());
        }
        // If the takeover was interrupted before the directory was moved, the directory may have
        // grown since the copy.
        fs::create_dir_all(&new).unwrap();
        fs::write(trial.join("trajectory.jsonl"), "paid\nmore\n").unwrap();
        replacement.finish_takeover(&trial).unwrap();
        assert_eq!(fs::read(trial.join("trajectory.jsonl")).unwrap(), b"paid\nmore\n");
        assert!(!new.exists());
    }

    #[test]
    fn released_lease_of_unstarted_trial_leaves_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        drop(RunDir::create(folder.path()).unwrap());
        fs::write(folder.path().join("run.json"), "{}").unwrap();
        let run = RunDir::join(folder.path()).unwrap();
        let lease = expect_lease(run.lease(&trial_id(1)));
        assert!(run.trial_dir_path(&trial_id(1)).exists());
        drop(lease);
        assert!(!run.trial_dir_path(&trial_id(1)).exists());
    }
}
