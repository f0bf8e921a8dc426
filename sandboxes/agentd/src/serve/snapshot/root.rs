//! Opens the root directory of a snapshot, even if it was replaced.

use std::os::fd::OwnedFd;

use proctor_wire::{RawPath, Refusal};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, statat},
    io::Errno,
};

use super::table::EntryState;
use crate::serve::refusal::from_errno;

const FOLDER_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Device and inode of a directory.
pub type FileId = (u64, u64);

/// Opens the root. `first_id` is the root's identity at the first snapshot, or `None` if this is
/// the first one. The first snapshot follows links, because an environment's work directory may be
/// a link.
///
/// Later, commands may change the directory. If the root is gone or replaced, the tree counts as
/// empty (`None`). If the snapshot were rejected instead, a single command could prevent Proctor
/// from scoring the trial. If every new link were followed, other directories in the sandbox would
/// count as work.
///
/// One kind of new link is followed: a link to a directory that contains most of `known_entries`,
/// the root's entries at the last snapshot. `mv` to another file system copies the directory, so a
/// link at the old path leads to the same work.
pub fn open_root(
    root: &RawPath,
    first_id: Option<FileId>,
    known_entries: &[(Vec<u8>, EntryState)],
) -> Result<Option<OwnedFd>, Refusal> {
    let failed = |error| from_errno(error, root);
    let folder = match openat(CWD, root.as_bytes(), FOLDER_FLAGS, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if first_id.is_some() => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let Some(first) = first_id else { return Ok(Some(folder)) };
    if file_id(&folder)? == first {
        return Ok(Some(folder));
    }
    match openat(CWD, root.as_bytes(), FOLDER_FLAGS | OFlags::NOFOLLOW, Mode::empty()) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
            Ok(contains_most_entries(&folder, known_entries).then_some(folder))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Returns whether a directory contains more than half of the given names.
fn contains_most_entries(folder: &OwnedFd, known_entries: &[(Vec<u8>, EntryState)]) -> bool {
    let is_there = |(name, _): &&(Vec<u8>, EntryState)| {
        statat(folder, &name[..], AtFlags::SYMLINK_NOFOLLOW).is_ok()
    };
    known_entries.iter().filter(is_there).count() * 2 > known_entries.len()
}

pub fn file_id(folder: &OwnedFd) -> Result<FileId, Refusal> {
    let stat =
        fstat(folder).map_err(|error| from_errno(error, "the root directory of a snapshot"))?;
    Ok((stat.st_dev, stat.st_ino))
}
