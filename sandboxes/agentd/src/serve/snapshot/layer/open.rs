//! Opens directories in a sandbox without following links.

use std::{os::fd::OwnedFd, sync::OnceLock};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};

pub(super) const FOLDER_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
pub(super) const PARENT_FLAGS: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

static UPPER_FOLDER: OnceLock<OwnedFd> = OnceLock::new();

/// Stores the upper directory of this sandbox's overlay.
pub fn remember_upper(upper: OwnedFd) {
    // Ignore a second value, because a sandbox has only one root.
    let _ = UPPER_FOLDER.set(upper);
}

/// Returns the upper directory, or `None` if the sandbox does not have its own overlay.
pub(super) fn upper_folder() -> Option<&'static OwnedFd> {
    UPPER_FOLDER.get()
}

pub(super) fn open(root: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(root, path, flags, Mode::empty(), beneath)
}
