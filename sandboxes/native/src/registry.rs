//! Who lives: one locked file per runtime, so that leftovers can be told from what is in use.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// This runtime's entry. It lists the control groups that were made, a path a line, and is locked as
/// long as the process lives: the kernel lets go of the lock whatever the end.
///
/// Rejected: asking whether a process of that number lives. Numbers are used again, and differ
/// between containers that share a cache.
pub(crate) struct Entry {
    name: String,
    path: PathBuf,
    file: Mutex<File>,
    /// Of its control groups: see [`crate::owned`].
    locks: Mutex<Vec<File>>,
}

impl Entry {
    pub(crate) fn make(cache: &Path) -> io::Result<Self> {
        let folder = cache.join("runtimes");
        fs::create_dir_all(&folder)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{}-{count}", process::id(), start_time());
        let path = folder.join(&name);
        // Made under a name that a sweep does not look at, locked, and only then shown.
        let hidden = folder.join(format!(".{name}"));
        let file = OpenOptions::new().create(true).truncate(true).write(true).open(&hidden)?;
        file.lock()?;
        fs::rename(&hidden, &path)?;
        Ok(Self { name, path, file: Mutex::new(file), locks: Mutex::default() })
    }

    /// `<pid>-<start time>-<count>`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Notes a folder before it is made.
    pub(crate) fn note(&self, folder: &Path) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        writeln!(file, "{}", folder.display())
    }

    /// Keeps a lock as long as the runtime and its sandboxes live.
    pub(crate) fn hold(&self, lock: File) {
        self.locks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(lock);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let listed = fs::read_to_string(&self.path).unwrap_or_default();
        let left = listed.lines().any(|folder| {
            let _ = fs::remove_dir(folder);
            Path::new(folder).exists()
        });
        if !left {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// An entry whose runtime is dead.
pub(crate) struct Dead {
    pub(crate) name: String,
    pub(crate) groups: Vec<PathBuf>,
    path: PathBuf,
    _lock: File,
}

impl Dead {
    pub(crate) fn forget(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// The entries that nobody holds any more. Each is locked, so that two sweeps do not meet.
pub(crate) fn dead(cache: &Path) -> io::Result<Vec<Dead>> {
    let mut out = Vec::new();
    let folder = match fs::read_dir(cache.join("runtimes")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(out),
        other => other?,
    };
    for entry in folder {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else { continue };
        match file.try_lock() {
            Ok(()) => {
                let groups = fs::read_to_string(entry.path())?.lines().map(PathBuf::from).collect();
                out.push(Dead { name, groups, path: entry.path(), _lock: file });
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(out)
}

/// Clock ticks from boot to this process's start: the 22nd field of its `stat`.
fn start_time() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    stat.rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(19))
        .and_then(|field| field.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_holds_is_dead() {
        let cache = tempfile::tempdir().unwrap();
        let living = Entry::make(cache.path()).unwrap();
        fs::write(cache.path().join("runtimes/1-2-3"), "/nowhere/a\n/nowhere/b\n").unwrap();
        let found = dead(cache.path()).unwrap();
        assert_eq!(found.iter().map(|dead| dead.name.as_str()).collect::<Vec<_>>(), ["1-2-3"]);
        assert_eq!(found[0].groups, [Path::new("/nowhere/a"), Path::new("/nowhere/b")]);
        assert!(living.name().starts_with(&process::id().to_string()));
        for entry in found {
            entry.forget().unwrap();
        }
        drop(living);
        assert_eq!(fs::read_dir(cache.path().join("runtimes")).unwrap().count(), 0);
    }
}
