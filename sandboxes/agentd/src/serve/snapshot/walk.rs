//! The walk: every entry once, no link followed, no special file opened.

use std::{
    collections::HashSet,
    os::fd::{AsFd, OwnedFd},
};

use proctor_wire::{
    ChangeTime, EntryKind, RawPath, Refusal, RefusalKind, SnapEntry, SnapshotRequest, channel,
};
use rustix::{
    fs::{AtFlags, Mode, OFlags, fstat, openat, readlinkat, statat},
    io::Errno,
};

use super::{
    table::{Seen, Table, Witness},
    unless_gone,
};
use crate::serve::{
    dispatch::Server,
    entries,
    refusal::{cancelled, from_errno, refuse},
    stream::Stream,
};

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Folders with a longer path, in bytes, are listed and not walked: it is twice what a program can
/// name at once, and a chain of folders would cost its depth squared.
const PATH_LIMIT: usize = 8 << 10;

/// All paths together, in bytes: half a million of usual length.
const PATHS_LIMIT: usize = 48 << 20;

pub struct Walk<'a> {
    pub server: &'a Server,
    pub stream: &'a Stream,
    pub request: &'a SnapshotRequest,
    pub before: &'a Table,
    pub hashes: &'a HashSet<[u8; 32]>,
    pub seen: Table,
    pub changed: Vec<SnapEntry>,
    pub new_hashes: HashSet<[u8; 32]>,
    pub path_bytes: usize,
    /// Only what changed later is told, and nothing is read.
    pub since: Option<ChangeTime>,
}

/// A folder on the way down, and what of it is still to be entered.
struct Level {
    identity: (u64, u64),
    /// Length of its path.
    length: usize,
    folders: Vec<Vec<u8>>,
}

impl Walk<'_> {
    /// One open folder and `..` instead of recursion: depth costs neither stack nor descriptors.
    pub fn tree(&mut self, root: OwnedFd) -> Result<(), Refusal> {
        let failed = |path: &[u8], error| from_errno(error, RawPath::new(path));
        let device = fstat(&root).map_err(|error| failed(b".", error))?.st_dev;
        let top = root.try_clone().map_err(|_| failed(b".", Errno::MFILE))?;
        let mut folder = root;
        let mut path = Vec::new();
        let mut levels = vec![self.enter(&folder, &path)?];
        while let Some(level) = levels.last_mut() {
            path.truncate(level.length);
            if let Some(name) = level.folders.pop() {
                let opened = openat(&folder, &name[..], FOLDER, Mode::empty());
                push(&mut path, &name);
                let inner = match unless_gone(opened) {
                    Ok(Some(inner)) => inner,
                    // Closed to the agent: listed, not walked.
                    Ok(None) | Err(Errno::ACCESS) => continue,
                    Err(error) => return Err(failed(&path, error)),
                };
                // Another file system mounted there is not the work directory's content.
                if fstat(&inner).map_err(|error| failed(&path, error))?.st_dev != device {
                    continue;
                }
                folder = inner;
                levels.push(self.enter(&folder, &path)?);
                continue;
            }
            levels.pop();
            let Some(above) = levels.last() else { break };
            path.truncate(above.length);
            folder = climb(&top, &folder, above.identity, &path)
                .map_err(|error| failed(&path, error))?;
        }
        Ok(())
    }

    fn enter(&mut self, folder: &OwnedFd, path: &[u8]) -> Result<Level, Refusal> {
        let failed = |error| from_errno(error, RawPath::new(path));
        if self.stream.is_cancelled() {
            return Err(cancelled());
        }
        let stat = fstat(folder).map_err(failed)?;
        let mut level =
            Level { identity: (stat.st_dev, stat.st_ino), length: path.len(), folders: Vec::new() };
        let mut full = path.to_vec();
        for name in entries::names(folder).map_err(failed)? {
            full.truncate(path.len());
            push(&mut full, &name);
            let is_folder = self.look(folder, &name, &full)?;
            if is_folder && !self.request.skip.iter().any(|skip| skip.as_bytes() == name) {
                level.folders.push(name);
            }
        }
        Ok(level)
    }

    /// Records one entry; tells whether it is a folder to be walked.
    fn look(&mut self, folder: &OwnedFd, name: &[u8], path: &[u8]) -> Result<bool, Refusal> {
        let failed = |error| from_errno(error, RawPath::new(path));
        self.path_bytes += path.len();
        if self.seen.len() as u64 >= self.request.entry_limit || self.path_bytes > PATHS_LIMIT {
            let what = format!(
                "{}: more than {} entries, or paths too long",
                self.request.root, self.request.entry_limit
            );
            return Err(refuse(RefusalKind::TooLarge, what));
        }
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let Some(stat) = unless_gone(stat).map_err(failed)? else { return Ok(false) };
        let witness = Witness::new(&stat);
        if let Some(since) = self.since {
            let seen = Seen::new(witness, None, None);
            if witness.changed > since {
                self.changed.push(seen.entry(path));
            }
            self.seen.insert(path.to_vec(), seen);
            return Ok(witness.kind == EntryKind::Dir && path.len() <= PATH_LIMIT);
        }
        let before = self.before.get(path);
        let seen = match before {
            Some(old) if old.still_holds(&witness) => {
                Some(Seen::new(witness, old.hash, old.link.clone()))
            }
            _ => self.read(folder, name, witness).map_err(|stop| match stop {
                Stop::Errno(error) => failed(error),
                Stop::Refused(refusal) => refusal,
            })?,
        };
        let Some(seen) = seen else { return Ok(false) };
        if !before.is_some_and(|old| old.same_entry(&seen)) {
            self.changed.push(seen.entry(path));
        }
        self.seen.insert(path.to_vec(), seen);
        Ok(witness.kind == EntryKind::Dir && path.len() <= PATH_LIMIT)
    }

    fn read(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        witness: Witness,
    ) -> Result<Option<Seen>, Stop> {
        match witness.kind {
            EntryKind::Dir | EntryKind::Other => Ok(Some(Seen::new(witness, None, None))),
            EntryKind::Link => {
                // Replaced by something else since: seen by the next snapshot.
                let Ok(target) = readlinkat(folder, name, Vec::new()) else { return Ok(None) };
                let target = target.into_bytes();
                let hash = blake3::hash(&target);
                Ok(Some(Seen::new(witness, Some(*hash.as_bytes()), Some(target))))
            }
            EntryKind::File => self.read_file(folder, name, witness),
        }
    }

    fn read_file(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        listed: Witness,
    ) -> Result<Option<Seen>, Stop> {
        let without_content = |witness| Ok(Some(Seen::new(witness, None, None)));
        if listed.size > self.request.file_limit {
            return without_content(listed);
        }
        let file = match unless_gone(openat(folder, name, FILE, Mode::empty())) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(None),
            // Closed to the agent: listed, not read.
            Err(Errno::ACCESS | Errno::PERM | Errno::NXIO) => return without_content(listed),
            Err(error) => return Err(Stop::Errno(error)),
        };
        let witness = Witness::new(&fstat(&file).map_err(Stop::Errno)?);
        if witness.kind != EntryKind::File {
            return Ok(None);
        }
        let limit = self.request.file_limit;
        let Some(bytes) = content(&file, witness.size, limit).map_err(Stop::Errno)? else {
            return without_content(witness.with_size(limit.saturating_add(1)));
        };
        // A file that is being written has the size of what was read of it.
        let witness = witness.with_size(bytes.len() as u64);
        let hash = *blake3::hash(&bytes).as_bytes();
        if !self.hashes.contains(&hash) && !self.new_hashes.contains(&hash) {
            self.send(&hash, &bytes).map_err(Stop::Refused)?;
            self.new_hashes.insert(hash);
        }
        Ok(Some(Seen::new(witness, Some(hash), None)))
    }

    fn send(&self, hash: &[u8; 32], bytes: &[u8]) -> Result<(), Refusal> {
        let mut header = hash.to_vec();
        header.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        let outbox = &self.server.outbox;
        self.stream.send_all(outbox, channel::STDOUT, &header)?;
        self.stream.send_all(outbox, channel::STDOUT, bytes)
    }
}

enum Stop {
    Errno(Errno),
    Refused(Refusal),
}

fn push(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

/// Goes back to the folder above; where somebody moved the one below meanwhile, finds it again
/// from the root, link by link refused.
fn climb(
    top: &OwnedFd,
    folder: &OwnedFd,
    identity: (u64, u64),
    path: &[u8],
) -> Result<OwnedFd, Errno> {
    let above = openat(folder, "..", FOLDER, Mode::empty())?;
    let stat = fstat(&above)?;
    if (stat.st_dev, stat.st_ino) == identity {
        return Ok(above);
    }
    let mut found = openat(top, ".", FOLDER, Mode::empty())?;
    for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        found = openat(&found, name, FOLDER, Mode::empty())?;
    }
    Ok(found)
}

/// The whole content, `None` past the limit.
fn content(file: impl AsFd, size: u64, limit: u64) -> Result<Option<Vec<u8>>, Errno> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size as usize + 1).map_err(|_| Errno::NOMEM)?;
    let mut chunk = vec![0; (64 << 10).min(size as usize + 1)];
    loop {
        let read = match rustix::io::read(&file, &mut chunk[..]) {
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        if read == 0 {
            return Ok(Some(bytes));
        }
        bytes.extend_from_slice(&chunk[..read]);
        if bytes.len() as u64 > limit {
            return Ok(None);
        }
    }
}
