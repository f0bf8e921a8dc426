//! Creates cgroups that are locked as long as their owner is alive, and removes groups that are not
//! locked.
//!
//! A runtime keeps a lock on its groups' directory, and the kernel releases the lock however the
//! runtime ends. So if another runtime can lock the directory, its owner is dead.
//!
//! Checking the process id in the directory's name would not be enough. Process ids are reused, and
//! the same id refers to another process in another PID namespace. In contrast, all runtimes see
//! the same lock on the directory.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, geteuid, kill_process};

/// Prefix of the name of a runtime's group. Versions without locks used a dash instead of the dot;
/// their groups are not removed.
const GROUP_PREFIX: &str = "proctor.";

/// Maximum number of directories to check in one hierarchy. A typical machine has hundreds of them,
/// a large one about ten thousand.
const MAX_FOLDERS: usize = 200_000;

/// Returns the directory for a runtime's groups below a parent.
pub(crate) fn runtime_group_folder(parent: &Path, runtime: &str) -> PathBuf {
    parent.join(format!("{GROUP_PREFIX}{runtime}"))
}

/// Creates and locks the directory. The runtime owns the directory until the returned file is
/// closed.
pub(crate) fn claim(folder: &Path) -> io::Result<File> {
    loop {
        fs::create_dir(folder)?;
        let locked = File::open(folder).and_then(|file| file.lock().map(|()| file));
        // A sweep may have removed the directory in between. If so, try again.
        match (locked, fs::metadata(folder)) {
            (Ok(file), Ok(found)) if file.metadata()?.ino() == found.ino() => return Ok(file),
            (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
            (Err(error), _) | (_, Err(error)) => {
                let _ = fs::remove_dir(folder);
                return Err(error);
            }
            (Ok(_), Ok(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
        }
    }
}

/// Kills the processes in dead runtimes' groups and removes these groups. Searches below a
/// hierarchy's mount point. Returns the removed groups. A failure to remove a group is only logged,
/// because it is not a fault of this run.
pub(crate) fn sweep(mount_point: &Path) -> Vec<PathBuf> {
    let mut removed = Vec::new();
    let mut left = vec![mount_point.to_owned()];
    let mut seen = 0;
    while let Some(folder) = left.pop() {
        seen += 1;
        if seen > MAX_FOLDERS {
            tracing::warn!(at = %mount_point.display(), "too many cgroups to examine");
            break;
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            if !entry.file_name().to_string_lossy().starts_with(GROUP_PREFIX) {
                left.push(path);
                continue;
            }
            match remove_dead(&path) {
                Ok(true) => removed.push(path),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, group = %path.display(), "cannot remove a dead run's cgroup");
                }
            }
        }
    }
    removed
}

/// Removes the group if its owner is dead. Returns whether the group was removed. Holds the group's
/// lock meanwhile, so that no runtime can claim the group.
fn remove_dead(folder: &Path) -> io::Result<bool> {
    let user = geteuid();
    if !user.is_root() && fs::metadata(folder)?.uid() != user.as_raw() {
        return Ok(false);
    }
    let lock = File::open(folder)?;
    match lock.try_lock() {
        Ok(()) => remove_group(folder).map(|()| true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Kills all processes in a group and its subgroups, and removes the groups.
pub(crate) fn remove_group(folder: &Path) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(entries) => {
                for entry in entries.flatten() {
                    if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        remove_group(&entry.path())?;
                    }
                }
            }
        }
        match fs::remove_dir(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => {}
        }
        let procs = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        for pid in procs.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn sweep_relies_on_locks_not_process_ids() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("user.slice/app");
        fs::create_dir_all(&inner).unwrap();
        // Create an owned group whose process id does not exist, and a dead group whose process id
        // belongs to a live process.
        let owned = runtime_group_folder(&inner, "4194305-1-0");
        let lock = claim(&owned).unwrap();
        let used_again = runtime_group_folder(root.path(), &format!("{}-1-0", process::id()));
        fs::create_dir(&used_again).unwrap();
        let of_somebody_else = inner.join("proctor-1-1-0");
        fs::create_dir(&of_somebody_else).unwrap();

        assert_eq!(sweep(root.path()), [used_again]);
        assert!(owned.exists() && of_somebody_else.exists());
        drop(lock);
        assert_eq!(sweep(root.path()), [owned]);
        assert!(sweep(root.path()).is_empty());
    }

    #[test]
    fn claim_succeeds_during_concurrent_sweeps() {
        let root = tempfile::tempdir().unwrap();
        let end = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(std::sync::atomic::Ordering::Relaxed) {
                    sweep(root.path());
                }
            });
            for number in 0..300 {
                let folder = runtime_group_folder(root.path(), &format!("1-1-{number}"));
                let lock = claim(&folder).unwrap();
                std::thread::yield_now();
                assert!(folder.exists(), "{number}: removed, although it has an owner");
                drop(lock);
            }
            end.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
