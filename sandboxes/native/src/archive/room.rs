//! Keeps the unpacked archives of a machine within a disk budget.
//!
//! `bases/used-NAME` holds the size of `bases/archive-NAME` in bytes, and its modification time is the archive's last
//! use. Whoever needs an archive holds a shared lock on `bases/.in-use-NAME`, so an archive is removed only if no process
//! of this machine needs it. The kernel releases the locks of a killed process.

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

use super::unpack::ARCHIVE;
use crate::tree;

/// Start of the names of folders that are being removed.
const REMOVED: &str = ".removed-";

/// Keeps an archive in place until it is dropped. All users of an archive in one process share one hold, and so one open
/// file.
#[derive(Debug)]
pub(crate) struct Hold {
    _lock: File,
}

/// The unpacked archives of a cache.
pub(crate) struct Room {
    bases: PathBuf,
    /// Bytes for all archives. Absent: half of the cache's file system.
    budget: Option<u64>,
    /// The holds of this process, by archive.
    held: Mutex<BTreeMap<String, Weak<Hold>>>,
}

#[derive(Debug)]
struct Unpacked {
    name: String,
    bytes: u64,
    used: SystemTime,
}

impl Room {
    pub(crate) fn of(cache: &Path) -> Self {
        Self { bases: cache.join("bases"), budget: None, held: Mutex::default() }
    }

    pub(crate) fn set_budget(&mut self, bytes: u64) {
        self.budget = Some(bytes);
    }

    /// Holds an archive, which may not be unpacked yet. Blocks while another process moves it away.
    pub(crate) fn hold(&self, name: &str) -> io::Result<Arc<Hold>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hold) = held.get(name).and_then(Weak::upgrade) {
            return Ok(hold);
        }
        let lock = self.lock_file(name)?;
        lock.lock_shared()?;
        held.retain(|_, hold| hold.strong_count() > 0);
        let hold = Arc::new(Hold { _lock: lock });
        held.insert(name.to_owned(), Arc::downgrade(&hold));
        Ok(hold)
    }

    /// Records that an archive is used now, and measures it the first time. `false`: it is not unpacked. The caller holds
    /// it.
    pub(crate) fn touch(&self, name: &str) -> io::Result<bool> {
        if !self.archive(name).is_dir() {
            return Ok(false);
        }
        let now = SystemTime::now();
        match File::options().append(true).open(self.used(name)) {
            Ok(file) => file.set_modified(now)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.measure(name, now)?;
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Removes the archives that were used least recently, until the rest and `more` bytes fit into the budget. Archives in
    /// use stay, even if they exceed the budget. Returns what was removed.
    pub(crate) fn make(&self, more: u64) -> io::Result<Vec<String>> {
        fs::create_dir_all(&self.bases)?;
        // One process at a time: two at once would remove twice as much.
        let turn = File::create(self.bases.join(".making-room.lock"))?;
        turn.lock()?;
        let mut all = self.list()?;
        all.sort_by_key(|one| one.used);
        let budget = self.budget()?;
        let mut sum = all.iter().fold(more, |sum, one| sum.saturating_add(one.bytes));
        let mut removed = Vec::new();
        for one in all {
            if sum <= budget {
                break;
            }
            if self.remove(&one.name)? {
                sum = sum.saturating_sub(one.bytes);
                tracing::info!(archive = one.name, bytes = one.bytes, "removed to make room");
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

    fn list(&self) -> io::Result<Vec<Unpacked>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.bases)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(REMOVED) {
                // Its process was killed.
                tree::remove(&entry.path())?;
            } else if let Some(name) = name.strip_prefix(ARCHIVE) {
                found.extend(self.unpacked(name)?);
            }
        }
        Ok(found)
    }

    /// `None`: `proctor clean` removed it meanwhile.
    fn unpacked(&self, name: &str) -> io::Result<Option<Unpacked>> {
        let used = self.used(name);
        let known = fs::read_to_string(&used).ok().and_then(|text| text.parse().ok());
        let read = || -> io::Result<Unpacked> {
            let name = name.to_owned();
            match known {
                Some(bytes) => Ok(Unpacked { name, bytes, used: fs::metadata(&used)?.modified()? }),
                // An earlier version unpacked it.
                None => {
                    let used = fs::metadata(self.archive(&name))?.modified()?;
                    Ok(Unpacked { bytes: self.measure(&name, used)?, name, used })
                }
            }
        };
        match read() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// Writes an archive's size and its last use.
    fn measure(&self, name: &str, used: SystemTime) -> io::Result<u64> {
        let bytes = disk_usage(&self.archive(name), &mut HashSet::new())?;
        let mut file = tempfile::NamedTempFile::new_in(&self.bases)?;
        write!(file, "{bytes}")?;
        file.as_file().set_modified(used)?;
        file.persist(self.used(name)).map_err(|error| error.error)?;
        Ok(bytes)
    }

    /// `false`: a process uses it.
    fn remove(&self, name: &str) -> io::Result<bool> {
        let lock = self.lock_file(name)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let aside = self.bases.join(format!("{REMOVED}{name}"));
        fs::rename(self.archive(name), &aside)?;
        let _ = fs::remove_file(self.used(name));
        // Removing the files takes seconds. Others may unpack the archive again meanwhile.
        drop(lock);
        tree::remove(&aside)?;
        Ok(true)
    }

    fn lock_file(&self, name: &str) -> io::Result<File> {
        fs::create_dir_all(&self.bases)?;
        // Never removed: another process could hold a lock on the removed file.
        File::create(self.bases.join(format!(".in-use-{name}")))
    }

    fn archive(&self, name: &str) -> PathBuf {
        self.bases.join(format!("{ARCHIVE}{name}"))
    }

    fn used(&self, name: &str) -> PathBuf {
        self.bases.join(format!("used-{name}"))
    }
}

/// Bytes on disk. A file with several names counts once, and a folder that this user can't read counts as empty.
fn disk_usage(path: &Path, linked: &mut HashSet<u64>) -> io::Result<u64> {
    let found = fs::symlink_metadata(path)?;
    let bytes = found.blocks().saturating_mul(512);
    if !found.is_dir() {
        let is_counted = found.nlink() > 1 && !linked.insert(found.ino());
        return Ok(if is_counted { 0 } else { bytes });
    }
    let Ok(entries) = fs::read_dir(path) else { return Ok(bytes) };
    let mut sum = bytes;
    for entry in entries {
        sum = sum.saturating_add(disk_usage(&entry?.path(), linked)?);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SIZE: usize = 100_000;

    /// An unpacked archive that was last used so many minutes ago.
    fn unpacked(room: &Room, name: &str, minutes: u64) {
        let folder = room.archive(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), vec![1; SIZE]).unwrap();
        assert!(room.touch(name).unwrap());
        let used = SystemTime::now() - Duration::from_secs(minutes * 60);
        File::options().append(true).open(room.used(name)).unwrap().set_modified(used).unwrap();
    }

    /// A room of a cache for so many archives.
    fn room(cache: &Path, archives: usize) -> Room {
        let mut room = Room::of(cache);
        // A folder and the last block of a file take a few kilobytes.
        room.set_budget((archives * (SIZE + 20_000)) as u64);
        room
    }

    #[test]
    fn make_removes_the_least_recently_used_archives_until_the_rest_fits() {
        let cache = tempfile::tempdir().unwrap();
        let room = room(cache.path(), 2);
        for (name, minutes) in [("new", 1), ("oldest", 9), ("old", 5), ("newer", 0)] {
            unpacked(&room, name, minutes);
        }
        assert_eq!(room.make(0).unwrap(), ["oldest", "old"]);
        assert!(!room.archive("old").exists() && !room.used("old").exists());
        assert!(room.make(0).unwrap().is_empty());
        assert!(room.touch("new").unwrap() && !room.touch("old").unwrap());
        assert_eq!(room.make(SIZE as u64).unwrap(), ["newer"], "`new` was used later");
    }

    #[test]
    fn make_keeps_archives_that_a_process_uses() {
        let cache = tempfile::tempdir().unwrap();
        let (one, other) = (room(cache.path(), 0), room(cache.path(), 0));
        unpacked(&one, "held", 9);
        unpacked(&one, "free", 1);
        let (hold, again) = (one.hold("held").unwrap(), one.hold("held").unwrap());
        assert!(Arc::ptr_eq(&hold, &again), "one open file");
        assert_eq!(other.make(0).unwrap(), ["free"]);
        drop(hold);
        assert!(other.make(0).unwrap().is_empty() && one.make(0).unwrap().is_empty());
        drop(again);
        assert_eq!(other.make(0).unwrap(), ["held"]);
    }

    #[test]
    fn make_removes_what_a_killed_process_left_and_measures_what_nobody_measured() {
        let cache = tempfile::tempdir().unwrap();
        let room = room(cache.path(), 1);
        unpacked(&room, "measured", 0);
        unpacked(&room, "earlier", 0);
        fs::remove_file(room.used("earlier")).unwrap();
        let left = room.bases.join(format!("{REMOVED}killed"));
        fs::create_dir(&left).unwrap();
        assert_eq!(room.make(0).unwrap().len(), 1);
        assert!(!left.exists());
    }

    #[test]
    fn the_default_budget_is_half_of_the_file_system() {
        let cache = tempfile::tempdir().unwrap();
        let room = Room::of(cache.path());
        fs::create_dir_all(&room.bases).unwrap();
        let found = statvfs(cache.path()).unwrap();
        assert_eq!(room.budget().unwrap(), found.f_blocks * found.f_frsize / 2);
    }

    #[test]
    fn disk_usage_counts_a_file_with_two_names_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), vec![1; SIZE]).unwrap();
        let once = disk_usage(folder.path(), &mut HashSet::new()).unwrap();
        assert!(once >= SIZE as u64);
        fs::hard_link(folder.path().join("a"), folder.path().join("b")).unwrap();
        assert_eq!(disk_usage(folder.path(), &mut HashSet::new()).unwrap(), once);
    }
}
