//! Calls `stat` on entries of directories that the walk has not reached yet.
//!
//! After the first snapshot, a walk consists mainly of about five thousand `stat` calls. With two
//! cores, a second thread that starts from the other end halves the time.

use std::{
    collections::{HashMap, HashSet},
    os::fd::OwnedFd,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, ResolveFlags, fstat, openat2, statat},
    io::Errno,
};

use super::table::{StatFingerprint, Table};
use crate::serve::entries;

/// Minimum number of entries in the last snapshot for a second thread to be worthwhile.
const LOOKAHEAD_MIN_ENTRIES: usize = 1000;

/// Maximum number of entries to read ahead of the walk. Each stays in memory until the walk reaches
/// it.
const MAX_HELD_ENTRIES: usize = 100_000;

const STACK_BYTES: usize = 128 << 10;

const FOLDER_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory's identity and its entries by name, when the look-ahead read them.
struct FolderEntries {
    identity: (u64, u64),
    entries: HashMap<Vec<u8>, StatFingerprint>,
}

#[derive(Default)]
struct WalkProgress {
    folder_entries: HashMap<Vec<u8>, FolderEntries>,
    /// Directories that the walk has already reached.
    reached_folders: HashSet<Vec<u8>>,
    is_over: bool,
}

#[derive(Default)]
pub struct Lookahead(Mutex<WalkProgress>);

impl Lookahead {
    /// Runs a walk. If the tree is large, a second thread looks ahead. If that thread cannot be
    /// started, the walk runs without it.
    pub fn walk_with_lookahead<T>(
        &self,
        root: Option<&OwnedFd>,
        previous: &Table,
        walk: impl FnOnce() -> T,
    ) -> T {
        thread::scope(|scope| {
            if let Some(root) = root
                && previous.folders().map(|(_, listing)| listing.len()).sum::<usize>()
                    >= LOOKAHEAD_MIN_ENTRIES
            {
                let builder = thread::Builder::new().stack_size(STACK_BYTES);
                drop(builder.spawn_scoped(scope, || self.stat_unvisited_folders(root, previous)));
            }
            let done = walk();
            self.state().is_over = true;
            done
        })
    }

    /// Marks a directory as reached by the walk. Returns its entries if the thread has read them
    /// and the path still refers to the same directory.
    pub fn mark_reached(
        &self,
        path: &[u8],
        identity: (u64, u64),
    ) -> HashMap<Vec<u8>, StatFingerprint> {
        let mut state = self.state();
        state.reached_folders.insert(path.to_vec());
        let looked = state.folder_entries.remove(path).filter(|looked| looked.identity == identity);
        looked.map(|looked| looked.entries).unwrap_or_default()
    }

    /// Reads directories from the first path to the last, because the walk goes from the last to
    /// the first.
    fn stat_unvisited_folders(&self, root: &OwnedFd, previous: &Table) {
        let mut held = 0;
        for (path, listing) in previous.folders() {
            {
                let state = self.state();
                if state.is_over || held > MAX_HELD_ENTRIES {
                    return;
                }
                if state.reached_folders.contains(path) {
                    continue;
                }
            }
            // If there is an error, the walk will encounter and report it.
            let Ok(looked) = stat_entries(root, path) else { continue };
            held += listing.len();
            let mut state = self.state();
            if !state.reached_folders.contains(path) {
                state.folder_entries.insert(path.to_vec(), looked);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, WalkProgress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stat_entries(root: &OwnedFd, path: &[u8]) -> Result<FolderEntries, Errno> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let path = if path.is_empty() { b"." } else { path };
    let folder = openat2(root, path, FOLDER_FLAGS, Mode::empty(), beneath)?;
    let stat = fstat(&folder)?;
    let mut seen = HashMap::new();
    for name in entries::read_names_up_to(&folder, MAX_HELD_ENTRIES)?.ok_or(Errno::TOOBIG)? {
        if let Ok(stat) = statat(&folder, &name[..], AtFlags::SYMLINK_NOFOLLOW) {
            seen.insert(name, StatFingerprint::new(&stat));
        }
    }
    Ok(FolderEntries { identity: (stat.st_dev, stat.st_ino), entries: seen })
}
