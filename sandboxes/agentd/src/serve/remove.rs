//! Removes a file, a link, or a directory tree.

use std::os::fd::OwnedFd;

use proctor_wire::{RawPath, Refusal, RefusalKind, Reply};
use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags, chmodat, fstat, openat, unlinkat},
    io::Errno,
};

use super::{
    beneath::{Parents, locate},
    refusal::{cancelled_refusal, from_errno},
    stream::Stream,
};

const FOLDER_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a path. Succeeds if the path does not exist. If the path is a link, removes the link and
/// never its target.
pub fn remove(
    stream: &Stream,
    path: &RawPath,
    boundary: Option<&RawPath>,
) -> Result<Reply, Refusal> {
    // Ignore trailing slashes: they refer to the directory itself.
    let end = path.as_bytes().iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    let place = match locate(&RawPath::new(&path.as_bytes()[..end]), boundary, Parents::MustExist) {
        Err(Refusal { why: RefusalKind::NotFound | RefusalKind::NotADirectory, .. }) => {
            return Ok(Reply::Done);
        }
        other => other?,
    };
    match unlinkat(&place.folder, &place.name[..], AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(Reply::Done),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(from_errno(error, path)),
    }
    match remove_folder(stream, place.folder, place.name) {
        Ok(()) => Ok(Reply::Done),
        Err(Errno::CANCELED) => Err(cancelled_refusal()),
        Err(error) => Err(from_errno(error, path)),
    }
}

/// One level of the walk: a directory and its name in the parent.
struct Level {
    name: Vec<u8>,
    identity: (u64, u64),
}

/// Walks the tree with one open directory and `..`, so that deep trees exhaust neither the stack
/// nor the descriptors. If `..` is not the expected directory, the current directory was moved, and
/// the removal stops.
fn remove_folder(stream: &Stream, parent: OwnedFd, name: Vec<u8>) -> Result<(), Errno> {
    let mut levels = vec![Level { name: name.clone(), identity: file_id(&parent)? }];
    let mut folder = enter(&parent, &name)?;
    while let Some(level) = levels.last() {
        if stream.is_cancelled() {
            return Err(Errno::CANCELED);
        }
        if let Some(below) = remove_entries(&folder)? {
            let inner = enter(&folder, &below)?;
            levels.push(Level { name: below, identity: file_id(&folder)? });
            folder = inner;
            continue;
        }
        let above = openat(&folder, "..", FOLDER_FLAGS, Mode::empty())?;
        if file_id(&above)? != level.identity {
            return Err(Errno::STALE);
        }
        match unlinkat(&above, &level.name[..], AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        levels.pop();
        folder = above;
    }
    Ok(())
}

fn file_id(folder: &OwnedFd) -> Result<(u64, u64), Errno> {
    fstat(folder).map(|stat| (stat.st_dev, stat.st_ino))
}

fn enter(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    match openat(parent, name, FOLDER_FLAGS, Mode::empty()) {
        // The directory's owner removed their own permissions on it.
        Err(Errno::ACCESS) => {
            chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            openat(parent, name, FOLDER_FLAGS, Mode::empty())
        }
        other => other,
    }
}

/// Removes files and empty directories. Returns the name of the first directory that is not empty.
fn remove_entries(folder: &OwnedFd) -> Result<Option<Vec<u8>>, Errno> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR) => {}
            Err(error) => return Err(error),
        }
        match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(Some(name.to_bytes().to_vec())),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
