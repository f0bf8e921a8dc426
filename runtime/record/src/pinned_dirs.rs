//! The trial directories that a worker keeps open.

use std::{
    collections::HashMap,
    fs::{self, File},
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use proctor_types::TrialId;

/// Trial directories that this worker accesses through open file descriptors. If such a directory
/// is moved, the worker keeps writing to the moved directory. As a result, a worker that was
/// presumed dead cannot write into its successor's directory.
#[derive(Debug, Default)]
pub(crate) struct PinnedDirs {
    open_dirs: Mutex<HashMap<TrialId, File>>,
    /// Directories of lost trials. They stay open so that their descriptor numbers are not reused.
    /// Otherwise, a thread that is still writing could write to the wrong directory.
    abandoned_dirs: Mutex<Vec<File>>,
}

impl PinnedDirs {
    fn lock_open_dirs(&self) -> MutexGuard<'_, HashMap<TrialId, File>> {
        self.open_dirs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pin(&self, id: &TrialId, folder: File) {
        self.lock_open_dirs().insert(id.clone(), folder);
    }

    /// Stops using the directory of a trial that another worker has taken over, but keeps the
    /// directory open.
    pub(crate) fn abandon(&self, id: &TrialId) {
        let folder = self.lock_open_dirs().remove(id);
        self.abandoned_dirs.lock().unwrap_or_else(PoisonError::into_inner).extend(folder);
    }

    /// Returns the directory's path through its file descriptor.
    pub(crate) fn path(&self, id: &TrialId) -> Option<PathBuf> {
        let descriptor = self.lock_open_dirs().get(id)?.as_raw_fd();
        Some(PathBuf::from(format!("{FD_DIR}/{descriptor}")))
    }

    /// Closes the directory of a trial that this worker has released.
    pub(crate) fn remove(&self, id: &TrialId) {
        let Some(folder) = self.lock_open_dirs().remove(id) else { return };
        // Remove the directory if it is empty, so that a trial that was not started leaves no
        // directory behind.
        let real = fs::read_link(format!("{FD_DIR}/{}", folder.as_raw_fd()));
        let _ = real.and_then(fs::remove_dir);
    }
}

const FD_DIR: &str = "/proc/self/fd";

/// Converts a path for messages. If the path refers to a file descriptor, it is replaced with the
/// directory's current path.
pub(crate) fn resolve_fd_path(path: &Path) -> PathBuf {
    let Ok(below) = path.strip_prefix(FD_DIR) else { return path.to_owned() };
    let mut parts = below.components();
    let Some(descriptor) = parts.next() else { return path.to_owned() };
    match fs::read_link(Path::new(FD_DIR).join(descriptor)) {
        Ok(folder) => folder.join(parts.as_path()),
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolve_fd_path_replaces_descriptor_paths() {
        let folder = tempfile::tempdir().unwrap();
        let open = File::open(folder.path()).unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}/x/y", open.as_raw_fd()));
        assert_eq!(resolve_fd_path(&path), folder.path().canonicalize().unwrap().join("x/y"));
        assert_eq!(resolve_fd_path(Path::new("a/b")), Path::new("a/b"));
    }
}
