//! The entries that a walk has seen.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use proctor_wire::{ChangeTime, EntryKind, RawPath, SnapshotEntry};
use rustix::fs::Stat;

use crate::serve::entries;

/// The longest clock tick among file systems. If a file changes twice within one tick, its times
/// are the same after both changes.
const TICK: Duration = Duration::from_millis(50);

/// The result of a walk: a listing for each directory, keyed by the directory's path relative to
/// the root. A single map with a full path per entry took longer to build than the walk itself.
#[derive(Default)]
pub struct Table(BTreeMap<Vec<u8>, Listing>);

/// The entries of a directory, sorted by name.
pub type Listing = Vec<(Vec<u8>, EntryState)>;

impl Table {
    /// Returns the content of a directory; empty if it was not walked.
    pub fn listing(&self, folder: &[u8]) -> &[(Vec<u8>, EntryState)] {
        self.0.get(folder).map_or(&[], Vec::as_slice)
    }

    /// Returns the directories that were walked, sorted.
    pub fn folders(&self) -> impl Iterator<Item = (&[u8], &[(Vec<u8>, EntryState)])> {
        self.0.iter().map(|(path, listing)| (&path[..], &listing[..]))
    }

    pub fn contains(&self, folder: &[u8]) -> bool {
        self.0.contains_key(folder)
    }

    pub fn insert(&mut self, folder: &[u8], listing: Listing) {
        self.0.insert(folder.to_vec(), listing);
    }

    /// Keeps only the entries that changed after `since`.
    pub fn keep_changed_after(&mut self, since: ChangeTime) {
        for listing in self.0.values_mut() {
            listing.retain(|(_, seen)| seen.stat_fingerprint.change_time > since);
        }
    }

    /// For a directory that was not walked completely, keeps the entries from the last snapshot.
    pub fn keep_previous_entries(&mut self, previous: &Self, folder: &[u8]) {
        let from = previous.0.range(folder.to_vec()..);
        let known = from.take_while(|(path, _)| path.starts_with(folder));
        for (path, old) in known.filter(|(path, _)| is_within(path, folder)) {
            let listing = self.0.entry(path.clone()).or_default();
            for one in old {
                if let Err(at) = listing.binary_search_by(|(name, _)| name.cmp(&one.0)) {
                    listing.insert(at, one.clone());
                }
            }
        }
    }
}

/// Returns whether a path is `folder` or below it.
pub(super) fn is_within(path: &[u8], folder: &[u8]) -> bool {
    let rest = path.strip_prefix(folder);
    folder.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[derive(Clone)]
pub struct EntryState {
    stat_fingerprint: StatFingerprint,
    pub hash: Option<[u8; 32]>,
    pub link: Option<Vec<u8>>,
}

/// A file's metadata. If it is unchanged, the file counts as unchanged and is not read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StatFingerprint {
    pub kind: EntryKind,
    pub mode: u32,
    pub size: u64,
    inode: u64,
    pub change_time: ChangeTime,
    modification_time: (i64, u64),
    /// Whether the file's times were already at least one tick old when the file was checked. If
    /// not, the file is read again next time.
    is_settled: bool,
}

impl StatFingerprint {
    /// Creates a fingerprint. `stat` must be called before the content is read.
    pub fn new(stat: &Stat) -> Self {
        let kind = entries::entry_kind(stat);
        let change_time = (stat.st_ctime, stat.st_ctime_nsec);
        let age = SystemTime::now().duration_since(to_system_time(change_time)).unwrap_or_default();
        Self {
            kind,
            mode: entries::permission_bits(stat),
            // The size of a directory does not depend on its content.
            size: if kind == EntryKind::Dir { 0 } else { stat.st_size as u64 },
            inode: stat.st_ino,
            change_time,
            modification_time: (stat.st_mtime, stat.st_mtime_nsec),
            is_settled: age > TICK,
        }
    }

    /// Returns whether the entry shows no change between two checks.
    pub fn is_same_as(&self, other: &Self) -> bool {
        Self { is_settled: true, ..*self } == Self { is_settled: true, ..*other }
    }

    /// Sets the size that was actually read. If it differs from the size in `stat`, the file is
    /// being written, so it is read again next time.
    pub fn with_size(self, size: u64) -> Self {
        Self { size, is_settled: self.is_settled && self.size == size, ..self }
    }
}

fn to_system_time((seconds, nanos): (i64, u64)) -> SystemTime {
    let since = Duration::new(seconds.max(0) as u64, nanos.min(999_999_999) as u32);
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}

impl EntryState {
    pub fn new(
        stat_fingerprint: StatFingerprint,
        hash: Option<[u8; 32]>,
        link: Option<Vec<u8>>,
    ) -> Self {
        Self { stat_fingerprint, hash, link }
    }

    /// Returns whether reading the file now would return the same content as before.
    pub fn is_still_valid(&self, current: &StatFingerprint) -> bool {
        self.stat_fingerprint.is_settled
            && StatFingerprint { is_settled: true, ..*current } == self.stat_fingerprint
    }

    pub fn is_folder(&self) -> bool {
        self.stat_fingerprint.kind == EntryKind::Dir
    }

    /// Returns whether this is a file without captured content.
    pub fn lacks_content(&self) -> bool {
        self.stat_fingerprint.kind == EntryKind::File && self.hash.is_none()
    }

    /// Returns whether both have the same manifest entry.
    pub fn has_same_entry(&self, other: &Self) -> bool {
        let facts = |seen: &Self| {
            (seen.stat_fingerprint.kind, seen.stat_fingerprint.mode, seen.stat_fingerprint.size)
        };
        facts(self) == facts(other) && self.hash == other.hash && self.link == other.link
    }

    pub fn to_entry(&self, path: Vec<u8>) -> SnapshotEntry {
        let hash = self.hash.map(|hash| blake3::Hash::from_bytes(hash).to_hex().to_string());
        SnapshotEntry {
            path: RawPath(path),
            kind: self.stat_fingerprint.kind,
            mode: self.stat_fingerprint.mode,
            size: self.stat_fingerprint.size,
            hash,
            link: self.link.clone().map(RawPath::new),
        }
    }
}

pub fn push_name(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}
