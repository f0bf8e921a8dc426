//! Detects changes of a file since it was checked.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use serde::{Deserialize, Serialize};

/// Size, inode and both times: an edit with a restored modification time still has a later change
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    size: u64,
    inode: u64,
    /// Nanoseconds since the Unix epoch.
    modified: i64,
    changed: i64,
}

impl Stamp {
    /// `None` if there is no such file. Taken before the content is read, so that a change in
    /// between is detected the next time.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(found) => Ok(Some(Self {
                size: found.size(),
                inode: found.ino(),
                modified: found.mtime().saturating_mul(1_000_000_000) + found.mtime_nsec(),
                changed: found.ctime().saturating_mul(1_000_000_000) + found.ctime_nsec(),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
