//! The cache directory: files that Proctor can recreate.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use proctor_types::UserError;

/// Lock file that prevents cleaning a cache while it is in use.
const LOCK_FILE: &str = "in-use";

/// Locks that this process holds until it exits.
static HELD_LOCKS: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());

/// Marks a cache as in use until this process exits. The kernel releases the lock however the
/// process ends. Waits while another process cleans the cache.
pub fn lock_shared(cache: &Path) -> io::Result<()> {
    let mut held = HELD_LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    if held.iter().any(|(known, _)| known == cache) {
        return Ok(());
    }
    let placed = |error: io::Error| {
        let what = format!("cannot use the cache {}: {error}", cache.display());
        let hint = "make it writable, or set PROCTOR_CACHE to another folder";
        io::Error::new(error.kind(), format!("{what} ({hint})"))
    };
    let file = lock_file(cache).map_err(placed)?;
    file.lock_shared().map_err(placed)?;
    held.push((cache.to_owned(), file));
    Ok(())
}

/// Locks the cache exclusively. Returns `None` if another process uses it.
pub fn try_lock_exclusive(cache: &Path) -> io::Result<Option<File>> {
    let file = lock_file(cache)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn lock_file(cache: &Path) -> io::Result<File> {
    fs::create_dir_all(cache)?;
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    proctor_files::open_with(&options, &cache.join(LOCK_FILE))
}

/// Returns `$PROCTOR_CACHE`, or else `$XDG_CACHE_HOME/proctor`, or else `$HOME/.cache/proctor`.
pub fn default_cache_dir() -> Result<PathBuf, UserError> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(cache) = from("PROCTOR_CACHE") {
        return Ok(cache.into());
    }
    if let Some(cache) = from("XDG_CACHE_HOME") {
        return Ok(PathBuf::from(cache).join("proctor"));
    }
    match from("HOME") {
        Some(home) => Ok(PathBuf::from(home).join(".cache/proctor")),
        None => Err(UserError::new("neither PROCTOR_CACHE nor HOME is set")
            .hint("set PROCTOR_CACHE to a folder for environments and sources")),
    }
}
