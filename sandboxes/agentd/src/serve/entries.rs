//! Handles `list` and `stat` requests.

use std::os::fd::{AsFd, OwnedFd};

use proctor_wire::{DirEntry, EntryKind, RawPath, Refusal, Reply};
use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, readlinkat, statat},
    io::Errno,
};

use super::refusal::from_errno;

pub fn list(path: &RawPath) -> Result<Reply, Refusal> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, path.as_bytes(), flags, Mode::empty());
    let folder = folder.map_err(|error| from_errno(error, path))?;
    let mut names = read_names(&folder).map_err(|error| from_errno(error, path))?;
    names.sort_unstable();
    let mut entries = Vec::with_capacity(names.len());
    for name in names {
        match describe_entry(&folder, &name, RawPath::new(name.clone())) {
            Ok(entry) => entries.push(entry),
            // The entry was removed after the directory was read.
            Err(Errno::NOENT) => {}
            Err(error) => return Err(from_errno(error, path)),
        }
    }
    Ok(Reply::Entries { entries })
}

pub fn stat(path: &RawPath) -> Result<Reply, Refusal> {
    let bytes = path.as_bytes();
    let name = bytes.rsplit(|&byte| byte == b'/').find(|part| !part.is_empty()).unwrap_or(b"/");
    match describe_entry(CWD, bytes, RawPath::new(name)) {
        Ok(entry) => Ok(Reply::Stat { found: Some(entry) }),
        // A name that is too long for the system cannot exist.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Ok(Reply::Stat { found: None }),
        Err(error) => Err(from_errno(error, path)),
    }
}

/// Returns the names in a directory, unsorted.
pub fn read_names(folder: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    read_names_up_to(folder, usize::MAX).map(Option::unwrap_or_default)
}

/// Returns the names in a directory, unsorted; `None` if there are more than `max_names`.
pub fn read_names_up_to(folder: &OwnedFd, max_names: usize) -> Result<Option<Vec<Vec<u8>>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if names.len() >= max_names {
            return Ok(None);
        }
        names.push(name.to_vec());
    }
    Ok(Some(names))
}

/// Describes an entry without following links.
fn describe_entry(folder: impl AsFd, path: &[u8], name: RawPath) -> Result<DirEntry, Errno> {
    let stat = statat(&folder, path, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = entry_kind(&stat);
    let link = match kind {
        EntryKind::Link => Some(RawPath::new(readlinkat(folder, path, Vec::new())?.into_bytes())),
        _ => None,
    };
    let changed = (stat.st_ctime, stat.st_ctime_nsec);
    Ok(DirEntry {
        name,
        kind,
        mode: permission_bits(&stat),
        size: stat.st_size as u64,
        link,
        changed,
    })
}

pub fn entry_kind(stat: &Stat) -> EntryKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Dir,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

/// Returns the permission bits.
pub fn permission_bits(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}
