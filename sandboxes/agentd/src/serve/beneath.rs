//! Opens the parent directory of a path, optionally without leaving a given directory.

use std::os::fd::OwnedFd;

use proctor_wire::{RawPath, Refusal, RefusalKind};
use rustix::{
    fs::{
        AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Uid, chownat, mkdirat, openat, openat2,
        readlinkat,
    },
    io::Errno,
};

use super::refusal::{from_errno, new_refusal};

const FOLDER_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Maximum number of links to follow in a path, the same as in the kernel.
const MAX_SYMLINKS: usize = 40;

/// A name in an open directory. Operations on it apply to that directory, even if its path is
/// renamed meanwhile.
pub struct AnchoredPath {
    pub folder: OwnedFd,
    pub name: Vec<u8>,
}

/// How to handle missing parents of a path.
#[derive(Debug, Clone, Copy)]
pub enum Parents {
    /// They must exist.
    MustExist,
    /// Missing parents are created. They belong to the given owner, or else to the agent's user.
    Create(Option<(Uid, Gid)>),
}

/// A directory to start from, and whether paths must stay below it.
struct Root {
    folder: OwnedFd,
    /// The directory's path components, if paths must stay below it.
    boundary: Option<Vec<Vec<u8>>>,
}

/// Locates `path` without following its last component.
pub fn locate(
    path: &RawPath,
    boundary: Option<&RawPath>,
    parents: Parents,
) -> Result<AnchoredPath, Refusal> {
    Root::open(boundary)?.locate(path.as_bytes(), parents).map_err(|error| with_path(error, path))
}

/// Locates the file that `path` refers to. Follows links to the place where the file is or would be
/// created.
pub fn locate_target(
    path: &RawPath,
    boundary: Option<&RawPath>,
    parents: Parents,
) -> Result<AnchoredPath, Refusal> {
    let root = Root::open(boundary)?;
    let mut current = path.as_bytes().to_vec();
    for _ in 0..MAX_SYMLINKS {
        let place = root.locate(&current, parents).map_err(|error| with_path(error, path))?;
        let Ok(target) = readlinkat(&place.folder, &place.name[..], Vec::new()) else {
            return Ok(place);
        };
        let target = target.into_bytes();
        if target.first() == Some(&b'/') {
            current = target;
        } else {
            let keep = current.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
            current.truncate(keep);
            current.extend_from_slice(&target);
        }
    }
    Err(from_errno(Errno::LOOP, path))
}

fn with_path(refusal: Refusal, path: &RawPath) -> Refusal {
    Refusal { what: format!("{path}: {}", refusal.what), ..refusal }
}

fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let pieces = path.split(|&byte| byte == b'/');
    pieces.filter(|piece| !piece.is_empty() && *piece != b".").map(<[u8]>::to_vec).collect()
}

impl Root {
    fn open(boundary: Option<&RawPath>) -> Result<Self, Refusal> {
        let path = boundary.map_or(&b"/"[..], RawPath::as_bytes);
        let folder = openat(CWD, path, FOLDER_FLAGS, Mode::empty())
            .map_err(|error| from_errno(error, RawPath::new(path)))?;
        Ok(Self { folder, boundary: boundary.map(|path| components(path.as_bytes())) })
    }

    fn locate(&self, path: &[u8], parents: Parents) -> Result<AnchoredPath, Refusal> {
        let mut parts = components(path);
        if let Some(bound) = &self.boundary
            && path.first() == Some(&b'/')
        {
            if !parts.starts_with(bound) {
                return Err(new_refusal(
                    RefusalKind::Outside,
                    "leads outside the required directory",
                ));
            }
            parts.drain(..bound.len());
        }
        let slash = path.last() == Some(&b'/');
        let Some(name) = parts.pop().filter(|name| name != b".." && !slash) else {
            return Err(new_refusal(RefusalKind::BadRequest, "does not name a file"));
        };
        let folder = match parents {
            Parents::Create(owner) => self.open_or_create(&parts, owner),
            Parents::MustExist => self.open_folder(&parts.join(&b'/')),
        };
        let folder = folder.map_err(|error| match error {
            Errno::XDEV => {
                new_refusal(RefusalKind::Outside, "leads outside the required directory")
            }
            error => from_errno(error, "the parent directory"),
        })?;
        Ok(AnchoredPath { folder, name })
    }

    fn open_folder(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        if self.boundary.is_none() {
            return openat(&self.folder, path, FOLDER_FLAGS, Mode::empty());
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match openat2(&self.folder, path, FOLDER_FLAGS, Mode::empty(), resolve) {
            // The kernel does not support openat2, or an engine's filter denies it.
            Err(Errno::NOSYS | Errno::PERM) => self.open_without_openat2(path),
            other => other,
        }
    }

    /// Opens a directory without openat2. Rejects all links, because their targets cannot be
    /// checked safely.
    fn open_without_openat2(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let mut folder = openat(&self.folder, ".", FOLDER_FLAGS, Mode::empty())?;
        for part in components(path) {
            if part == b".." {
                return Err(Errno::XDEV);
            }
            let flags = FOLDER_FLAGS | OFlags::NOFOLLOW;
            folder = match openat(&folder, &part[..], flags, Mode::empty()) {
                Err(Errno::LOOP | Errno::NOTDIR)
                    if readlinkat(&folder, &part[..], Vec::new()).is_ok() =>
                {
                    return Err(Errno::XDEV);
                }
                other => other?,
            };
        }
        Ok(folder)
    }

    /// Opens the directory and creates missing parts of its path.
    fn open_or_create(
        &self,
        parts: &[Vec<u8>],
        owner: Option<(Uid, Gid)>,
    ) -> Result<OwnedFd, Errno> {
        match self.open_folder(&parts.join(&b'/')) {
            Err(Errno::NOENT) => {}
            other => return other,
        }
        let mut folder = self.open_folder(b".")?;
        for end in 1..=parts.len() {
            let path = parts[..end].join(&b'/');
            folder = match self.open_folder(&path) {
                Err(Errno::NOENT) => {
                    let name = &parts[end - 1][..];
                    match mkdirat(&folder, name, Mode::from_raw_mode(0o755)) {
                        Ok(()) => {
                            if let Some((user, group)) = owner {
                                let flags = AtFlags::SYMLINK_NOFOLLOW;
                                chownat(&folder, name, Some(user), Some(group), flags)?;
                            }
                        }
                        Err(Errno::EXIST) => {}
                        Err(error) => return Err(error),
                    }
                    self.open_folder(&path)?
                }
                other => other?,
            };
        }
        Ok(folder)
    }
}
