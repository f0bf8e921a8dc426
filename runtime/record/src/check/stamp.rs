//! Detects whether a file has changed since it was checked.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use serde::{Deserialize, Serialize};

/// A file's size, inode, modification time and change time. If someone edits the file and resets
/// its modification time, the change time still differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    size: u64,
    inode: u64,
    /// Nanoseconds since the Unix epoch.
    modified: i64,
    changed: i64,
}

impl FileStamp {
    /// Reads a file's stamp. Returns `None` if there is no such file. Call this function before you
    /// read the content, so that the next check detects a change in between.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Self>> {
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
