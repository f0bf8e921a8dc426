//! Which of several runtimes works on a trial: a lock of the kernel, which lets go of it however the runtime ends.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
};

use proctor_types::TrialId;

use crate::{RecordError, RunDir};

/// A trial that this runtime has. Dropped, it is anybody's again.
#[derive(Debug)]
pub struct Lease {
    path: PathBuf,
    /// Closing it unlocks.
    _file: File,
}

impl RunDir {
    /// Takes a trial. `None`: another runtime has it.
    ///
    /// # Errors
    /// The file system of the run directory has no locks, or the disk refuses.
    pub fn lease(&self, id: &TrialId) -> Result<Option<Lease>, RecordError> {
        let folder = self.path().join("leases");
        fs::create_dir_all(&folder).map_err(RecordError::io(&folder, "cannot be made"))?;
        let name = format!("{}\n{}\n{}", id.task, id.arm, id.attempt);
        let path = folder.join(blake3::hash(name.as_bytes()).to_hex().as_str());
        let locking = |error| RecordError::io(&path, "the trial cannot be locked")(error);
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(locking)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(locking(error)),
            }
            // Whoever had the trial removes the file: a lock on a file that is gone keeps nobody out.
            let own = file.metadata().map_err(locking)?.ino();
            if fs::metadata(&path).is_ok_and(|there| there.ino() == own) {
                return Ok(Some(Lease { path, _file: file }));
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // While it is locked: nobody else can hold the same file.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{ArmId, TaskId};

    use super::*;

    #[test]
    fn a_trial_is_one_runtimes_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (
            RunDir::create(folder.path()).unwrap(),
            RunDir::create(folder.path().join("x")).unwrap(),
        );
        let id = |attempt| TrialId { task: TaskId::new("t"), arm: ArmId::new("a"), attempt };
        let lease = one.lease(&id(1)).unwrap().unwrap();
        assert!(one.lease(&id(1)).unwrap().is_none());
        assert!(one.lease(&id(2)).unwrap().is_some());
        assert!(other.lease(&id(1)).unwrap().is_some(), "of another run");
        drop(lease);
        assert!(one.lease(&id(1)).unwrap().is_some());
        let left = fs::read_dir(folder.path().join("leases")).unwrap().count();
        assert_eq!(left, 0, "nothing stays");
    }
}
