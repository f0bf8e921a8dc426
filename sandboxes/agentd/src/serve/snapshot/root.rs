//! The folder that a snapshot begins at, whatever has become of it.

use std::os::fd::OwnedFd;

use proctor_wire::{RawPath, Refusal};
use rustix::{
    fs::{CWD, Mode, OFlags, fstat, openat},
    io::Errno,
};

use crate::serve::refusal::from_errno;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Device and inode of a folder.
pub type Identity = (u64, u64);

/// Opens the root. `first` is what it was at the first snapshot, which follows links: an environment
/// may lead to its work directory by one. From then on the folder belongs to the agent: if
/// it is gone, or something else is at its path, the tree is empty (`None`), as it would be
/// without its last file. A refusal would let one command keep a trial from being scored, and to
/// follow a new link would take the sandbox's other folders for work.
pub fn open(root: &RawPath, first: Option<Identity>) -> Result<Option<OwnedFd>, Refusal> {
    let failed = |error| from_errno(error, root);
    let folder = match openat(CWD, root.as_bytes(), FOLDER, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if first.is_some() => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let Some(first) = first else { return Ok(Some(folder)) };
    if identity(&folder)? == first {
        return Ok(Some(folder));
    }
    match openat(CWD, root.as_bytes(), FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

pub fn identity(folder: &OwnedFd) -> Result<Identity, Refusal> {
    let stat = fstat(folder).map_err(|error| from_errno(error, "the folder of a snapshot"))?;
    Ok((stat.st_dev, stat.st_ino))
}
