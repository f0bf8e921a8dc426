//! Registers live runtimes. Each runtime has a locked file in the cache, which distinguishes the
//! sandboxes of live runtimes from what dead ones left behind. See [`RuntimeLock`] for what the
//! lock proves.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use proctor_host::{DeadRuntime, RuntimeLock, dead_runtimes};

/// This runtime's entry: a lock file that lists the cgroups that the runtime created, one path per
/// line.
pub(crate) struct RegistryEntry {
    lock: RuntimeLock,
    groups: Mutex<Vec<PathBuf>>,
    /// The locks on the cgroups; see [`crate::owned_groups`].
    group_locks: Mutex<Vec<File>>,
}

impl RegistryEntry {
    pub(crate) fn create(cache: &Path) -> io::Result<Self> {
        let lock = RuntimeLock::acquire(&registry_folder(cache))?;
        Ok(Self { lock, groups: Mutex::default(), group_locks: Mutex::default() })
    }

    /// Returns the runtime's unique name.
    pub(crate) fn name(&self) -> &str {
        self.lock.name()
    }

    /// Records a cgroup before it is created.
    pub(crate) fn record_group(&self, group: &Path) -> io::Result<()> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).push(group.to_owned());
        self.lock.add_note(&group.display().to_string())
    }

    /// Holds a lock on a cgroup as long as the runtime or one of its sandboxes lives.
    pub(crate) fn keep_lock(&self, lock: File) {
        self.group_locks.lock().unwrap_or_else(PoisonError::into_inner).push(lock);
    }
}

impl Drop for RegistryEntry {
    fn drop(&mut self) {
        let groups = self.groups.get_mut().unwrap_or_else(PoisonError::into_inner);
        let left = groups.iter().any(|group| {
            let _ = fs::remove_dir(group);
            group.exists()
        });
        if !left {
            self.lock.remove_file();
        }
    }
}

/// Returns the entries of dead runtimes in a cache. Each entry is locked, so that no other sweep
/// processes it at the same time.
pub(crate) fn dead_entries(cache: &Path) -> io::Result<Vec<DeadRuntime>> {
    dead_runtimes(&registry_folder(cache))
}

fn registry_folder(cache: &Path) -> PathBuf {
    cache.join("runtimes")
}
