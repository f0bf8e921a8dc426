//! Limits the disk space that a machine's unpacked archives use.
//!
//! `bases/used-NAME` contains the size of `bases/archive-NAME` in bytes. Its modification time
//! shows when the archive was last used. A process that uses an archive holds a shared lock on
//! `bases/.in-use-NAME`, so an archive is removed only if no process on this machine uses it. The
//! kernel releases the locks of a killed process.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File, TryLockError},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::SystemTime,
};

use rustix::fs::statvfs;

use super::unpack::ARCHIVE_PREFIX;
use crate::tree;

/// Name prefix of directories that are being removed.
const REMOVED_PREFIX: &str = ".removed-";

/// Prevents an archive from being removed until this value is dropped. All users of an archive in
/// one process share one pin, and therefore one open file.
#[derive(Debug)]
pub(crate) struct ArchivePin {
    _lock: File,
}

/// The unpacked archives in a cache.
pub(crate) struct ArchiveCache {
    bases: PathBuf,
    /// Maximum total size of all archives in bytes; `None` means half of the cache's file system.
    budget: Option<u64>,
    /// This process's pins, by archive.
    pins: Mutex<BTreeMap<String, Weak<ArchivePin>>>,
}

#[derive(Debug)]
struct UnpackedArchive {
    name: String,
    bytes: u64,
    last_used: SystemTime,
}

impl ArchiveCache {
    pub(crate) fn new(cache: &Path) -> Self {
        Self { bases: cache.join("bases"), budget: None, pins: Mutex::default() }
    }

    pub(crate) fn set_budget(&mut self, bytes: u64) {
        self.budget = Some(bytes);
    }

    /// Prevents an archive from being removed. The archive may not be unpacked yet. Blocks while
    /// another process removes it.
    pub(crate) fn pin(&self, name: &str) -> io::Result<Arc<ArchivePin>> {
        let mut held = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hold) = held.get(name).and_then(Weak::upgrade) {
            return Ok(hold);
        }
        let lock = self.lock_file(name)?;
        lock.lock_shared()?;
        held.retain(|_, hold| hold.strong_count() > 0);
        let hold = Arc::new(ArchivePin { _lock: lock });
        held.insert(name.to_owned(), Arc::downgrade(&hold));
        Ok(hold)
    }

    /// Records that an archive is used now. The first time, also measures its size. Returns `false`
    /// if the archive is not unpacked. The caller must hold a pin on the archive.
    pub(crate) fn touch(&self, name: &str) -> io::Result<bool> {
        if !self.archive_path(name).is_dir() {
            return Ok(false);
        }
        let now = SystemTime::now();
        match File::options().append(true).open(self.usage_path(name)) {
            Ok(file) => file.set_modified(now)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.measure(name, now)?;
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Removes the least recently used archives until the others, plus `needed_bytes` bytes, fit in
    /// the budget. Keeps archives in use, even if they exceed the budget. Returns the names of the
    /// removed archives.
    pub(crate) fn make_room(&self, needed_bytes: u64) -> io::Result<Vec<String>> {
        fs::create_dir_all(&self.bases)?;
        // Only one process at a time may do this, because two processes would remove twice as much
        // as needed.
        let turn = File::create(self.bases.join(".making-room.lock"))?;
        turn.lock()?;
        let mut all = self.list()?;
        all.sort_by_key(|one| one.last_used);
        let budget = self.budget()?;
        let mut sum = all.iter().fold(needed_bytes, |sum, one| sum.saturating_add(one.bytes));
        let mut removed = Vec::new();
        for one in all {
            if sum <= budget {
                break;
            }
            if self.remove(&one.name)? {
                sum = sum.saturating_sub(one.bytes);
                tracing::info!(archive = one.name, bytes = one.bytes, "removed an archive");
                removed.push(one.name);
            }
        }
        Ok(removed)
    }

    fn budget(&self) -> io::Result<u64> {
        match self.budget {
            Some(bytes) => Ok(bytes),
            None => {
                let found = statvfs(&self.bases)?;
                Ok(found.f_blocks.saturating_mul(found.f_frsize) / 2)
            }
        }
    }

    fn list(&self) -> io::Result<Vec<UnpackedArchive>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.bases)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(REMOVED_PREFIX) {
                // A process was killed while it removed this archive.
                tree::remove(&entry.path())?;
            } else if let Some(name) = name.strip_prefix(ARCHIVE_PREFIX) {
                found.extend(self.read_archive(name)?);
            }
        }
        Ok(found)
    }

    /// Reads an archive's usage. Returns `None` if `proctor clean` has removed the archive
    /// meanwhile.
    fn read_archive(&self, name: &str) -> io::Result<Option<UnpackedArchive>> {
        let used = self.usage_path(name);
        let known = fs::read_to_string(&used).ok().and_then(|text| text.parse().ok());
        let read = || -> io::Result<UnpackedArchive> {
            let name = name.to_owned();
            match known {
                Some(bytes) => {
                    Ok(UnpackedArchive { name, bytes, last_used: fs::metadata(&used)?.modified()? })
                }
                // An earlier version of Proctor unpacked this archive and did not record its size.
                None => {
                    let used = fs::metadata(self.archive_path(&name))?.modified()?;
                    Ok(UnpackedArchive { bytes: self.measure(&name, used)?, name, last_used: used })
                }
            }
        };
        match read() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// Records an archive's size and last use.
    fn measure(&self, name: &str, last_used: SystemTime) -> io::Result<u64> {
        let bytes = disk_usage(&self.archive_path(name), &mut HashSet::new())?;
        let mut file = tempfile::NamedTempFile::new_in(&self.bases)?;
        write!(file, "{bytes}")?;
        file.as_file().set_modified(last_used)?;
        file.persist(self.usage_path(name)).map_err(|error| error.error)?;
        Ok(bytes)
    }

    /// Removes an archive. Returns `false` if a process uses it.
    fn remove(&self, name: &str) -> io::Result<bool> {
        let lock = self.lock_file(name)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let aside = self.bases.join(format!("{REMOVED_PREFIX}{name}"));
        fs::rename(self.archive_path(name), &aside)?;
        let _ = fs::remove_file(self.usage_path(name));
        // Release the lock first: removing the files takes seconds, and meanwhile other processes
        // may unpack the archive again.
        drop(lock);
        tree::remove(&aside)?;
        Ok(true)
    }

    fn lock_file(&self, name: &str) -> io::Result<File> {
        fs::create_dir_all(&self.bases)?;
        // Never remove the lock file: another process could hold a lock on the removed file.
        File::create(self.bases.join(format!(".in-use-{name}")))
    }

    fn archive_path(&self, name: &str) -> PathBuf {
        self.bases.join(format!("{ARCHIVE_PREFIX}{name}"))
    }

    fn usage_path(&self, name: &str) -> PathBuf {
        self.bases.join(format!("used-{name}"))
    }
}

/// Returns the disk usage in bytes. Counts a file with several hard links once, and skips
/// directories that this user can't read.
fn disk_usage(path: &Path, linked_inodes: &mut HashSet<u64>) -> io::Result<u64> {
    let found = fs::symlink_metadata(path)?;
    let bytes = found.blocks().saturating_mul(512);
    if !found.is_dir() {
        let is_counted = found.nlink() > 1 && !linked_inodes.insert(found.ino());
        return Ok(if is_counted { 0 } else { bytes });
    }
    let Ok(entries) = fs::read_dir(path) else { return Ok(bytes) };
    let mut sum = bytes;
    for entry in entries {
        sum = sum.saturating_add(disk_usage(&entry?.path(), linked_inodes)?);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ARCHIVE_BYTES: usize = 100_000;

    /// Creates an unpacked archive that was last used `minutes` ago.
    fn create_archive(cache: &ArchiveCache, name: &str, minutes: u64) {
        let folder = cache.archive_path(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), vec![1; ARCHIVE_BYTES]).unwrap();
        assert!(cache.touch(name).unwrap());
        let used = SystemTime::now() - Duration::from_secs(minutes * 60);
        File::options()
            .append(true)
            .open(cache.usage_path(name))
            .unwrap()
            .set_modified(used)
            .unwrap();
    }

    /// Creates a cache whose budget is enough for `archives` archives.
    fn cache_with_budget(cache: &Path, archives: usize) -> ArchiveCache {
        let mut room = ArchiveCache::new(cache);
        // A directory, and a file's last block, take a few kilobytes.
        room.set_budget((archives * (ARCHIVE_BYTES + 20_000)) as u64);
        room
    }

    #[test]
    fn make_room_removes_the_least_recently_used_archives() {
        let cache = tempfile::tempdir().unwrap();
        let room = cache_with_budget(cache.path(), 2);
        for (name, minutes) in [("new", 1), ("oldest", 9), ("old", 5), ("newer", 0)] {
            create_archive(&room, name, minutes);
        }
        assert_eq!(room.make_room(0).unwrap(), ["oldest", "old"]);
        assert!(!room.archive_path("old").exists() && !room.usage_path("old").exists());
        assert!(room.make_room(0).unwrap().is_empty());
        assert!(room.touch("new").unwrap() && !room.touch("old").unwrap());
        assert_eq!(
            room.make_room(ARCHIVE_BYTES as u64).unwrap(),
            ["newer"],
            "`new` was used later"
        );
    }

    #[test]
    fn make_room_keeps_archives_that_a_process_uses() {
        let cache = tempfile::tempdir().unwrap();
        let (one, other) = (cache_with_budget(cache.path(), 0), cache_with_budget(cache.path(), 0));
        create_archive(&one, "held", 9);
        create_archive(&one, "free", 1);
        let (hold, again) = (one.pin("held").unwrap(), one.pin("held").unwrap());
        assert!(Arc::ptr_eq(&hold, &again), "the pin is not shared");
        assert_eq!(other.make_room(0).unwrap(), ["free"]);
        drop(hold);
        assert!(other.make_room(0).unwrap().is_empty() && one.make_room(0).unwrap().is_empty());
        drop(again);
        assert_eq!(other.make_room(0).unwrap(), ["held"]);
    }

    #[test]
    fn make_room_removes_leftovers_and_records_missing_sizes() {
        let cache = tempfile::tempdir().unwrap();
        let room = cache_with_budget(cache.path(), 1);
        create_archive(&room, "measured", 0);
        create_archive(&room, "earlier", 0);
        fs::remove_file(room.usage_path("earlier")).unwrap();
        let left = room.bases.join(format!("{REMOVED_PREFIX}killed"));
        fs::create_dir(&left).unwrap();
        assert_eq!(room.make_room(0).unwrap().len(), 1);
        assert!(!left.exists());
    }

    #[test]
    fn default_budget_is_half_of_the_file_system() {
        let cache = tempfile::tempdir().unwrap();
        let room = ArchiveCache::new(cache.path());
        fs::create_dir_all(&room.bases).unwrap();
        let found = statvfs(cache.path()).unwrap();
        assert_eq!(room.budget().unwrap(), found.f_blocks * found.f_frsize / 2);
    }

    #[test]
    fn disk_usage_counts_a_file_with_two_names_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), vec![1; ARCHIVE_BYTES]).unwrap();
        let once = disk_usage(folder.path(), &mut HashSet::new()).unwrap();
        assert!(once >= ARCHIVE_BYTES as u64);
        fs::hard_link(folder.path().join("a"), folder.path().join("b")).unwrap();
        assert_eq!(disk_usage(folder.path(), &mut HashSet::new()).unwrap(), once);
    }
}
