//! What the agent remembers between snapshots.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use proctor_wire::{ChangeTime, EntryKind, RawPath, SnapEntry};
use rustix::fs::Stat;

use super::root::Identity;
use crate::serve::entries;

/// Clocks of file systems tick at most this slowly: a file changed twice within one tick has the
/// same times after both.
const TICK: Duration = Duration::from_millis(50);

/// By root, what was seen last; and the hashes whose content went over this connection.
#[derive(Default)]
pub struct Sent {
    pub tables: HashMap<RawPath, Table>,
    /// What each root was at first.
    pub roots: HashMap<RawPath, Identity>,
    pub hashes: HashSet<[u8; 32]>,
}

/// Paths relative to the root.
pub type Table = BTreeMap<Vec<u8>, Seen>;

#[derive(Clone)]
pub struct Seen {
    witness: Witness,
    pub hash: Option<[u8; 32]>,
    pub link: Option<Vec<u8>>,
}

/// All that must be the same for a file to count as unchanged without being read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Witness {
    pub kind: EntryKind,
    pub mode: u32,
    pub size: u64,
    inode: u64,
    pub changed: ChangeTime,
    modified: (i64, u64),
    /// The times were already in the past when the file was looked at. A file younger than a tick
    /// is read again the next time.
    settled: bool,
}

impl Witness {
    /// `stat` must have been taken before the content is read.
    pub fn new(stat: &Stat) -> Self {
        let kind = entries::kind(stat);
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        let age = SystemTime::now().duration_since(instant(changed)).unwrap_or_default();
        Self {
            kind,
            mode: entries::mode(stat),
            // A folder's size says nothing about its content.
            size: if kind == EntryKind::Dir { 0 } else { stat.st_size as u64 },
            inode: stat.st_ino,
            changed,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            settled: age > TICK,
        }
    }

    /// With the size that was really read. Where it is another, the file is being written, and
    /// nothing is trusted the next time.
    pub fn with_size(self, size: u64) -> Self {
        Self { size, settled: self.settled && self.size == size, ..self }
    }
}

fn instant((seconds, nanos): (i64, u64)) -> SystemTime {
    let since = Duration::new(seconds.max(0) as u64, nanos.min(999_999_999) as u32);
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}

impl Seen {
    pub fn new(witness: Witness, hash: Option<[u8; 32]>, link: Option<Vec<u8>>) -> Self {
        Self { witness, hash, link }
    }

    /// Whether what was read then is still what a read would give now.
    pub fn still_holds(&self, now: &Witness) -> bool {
        self.witness.settled && Witness { settled: true, ..*now } == self.witness
    }

    /// A file whose content was not taken when it was looked at.
    pub fn lacks_content(&self) -> bool {
        self.witness.kind == EntryKind::File && self.hash.is_none()
    }

    /// Whether the entry itself changed after a moment.
    pub fn changed_after(&self, since: ChangeTime) -> bool {
        self.witness.changed > since
    }

    /// Whether the manifest says the same of both.
    pub fn same_entry(&self, other: &Self) -> bool {
        let facts = |seen: &Self| (seen.witness.kind, seen.witness.mode, seen.witness.size);
        facts(self) == facts(other) && self.hash == other.hash && self.link == other.link
    }

    pub fn entry(&self, path: &[u8]) -> SnapEntry {
        let hash = self.hash.map(|hash| blake3::Hash::from_bytes(hash).to_hex().to_string());
        SnapEntry {
            path: RawPath::new(path),
            kind: self.witness.kind,
            mode: self.witness.mode,
            size: self.witness.size,
            hash,
            link: self.link.clone().map(RawPath::new),
        }
    }
}
