//! Walks a tree: visits every entry once, follows no link, and opens no special file.

use std::{
    collections::{HashMap, HashSet},
    os::fd::OwnedFd,
};

use proctor_wire::{EntryKind, Refusal, SnapshotRequest, channel};
use rustix::{
    fs::{AtFlags, Mode, OFlags, SeekFrom, fstat, openat, readlinkat, statat},
    io::Errno,
};

use super::{
    lookahead::Lookahead,
    table::{EntryState, Listing, StatFingerprint, Table, push_name},
};
use crate::serve::{
    entries,
    refusal::{cancelled_refusal, from_errno},
    server::Server,
    stream::{CHUNK_BYTES, Stream},
};

const FOLDER_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Maximum path length in bytes: twice the longest path that a program can pass to the kernel.
/// Directories with longer paths are listed but not walked. Without this limit, a deep chain of
/// directories would have quadratic cost.
const PATH_LIMIT: usize = 8 << 10;

/// Maximum total size of all paths in bytes: enough for about 250,000 paths of typical length.
const PATHS_LIMIT: usize = 24 << 20;

/// Files up to this size are still sent after larger ones have used up the content limit.
const SMALL_FILE_BYTES: u64 = 64 << 10;

/// Maximum number of directories to report as not walked. The walk ends at this number.
const MAX_UNWALKED: usize = 100;

pub struct Walk<'a> {
    pub server: &'a Server,
    pub stream: &'a Stream,
    pub request: &'a SnapshotRequest,
    pub previous: &'a Table,
    pub lookahead: &'a Lookahead,
    pub hashes: &'a HashSet<[u8; 32]>,
    pub current: Table,
    /// Number of entries seen.
    pub entry_count: u64,
    /// Directories that were not walked completely.
    pub unwalked: Vec<Vec<u8>>,
    pub new_hashes: HashSet<[u8; 32]>,
    pub path_bytes: usize,
    pub content_bytes: u64,
    /// Whether to read files or only check their metadata.
    pub reads_content: bool,
}

impl<'a> Walk<'a> {
    /// Creates a walk that reads files.
    pub fn new(
        server: &'a Server,
        stream: &'a Stream,
        request: &'a SnapshotRequest,
        (previous, lookahead): (&'a Table, &'a Lookahead),
        hashes: &'a HashSet<[u8; 32]>,
    ) -> Self {
        Self {
            server,
            stream,
            request,
            previous,
            lookahead,
            hashes,
            current: Table::default(),
            entry_count: 0,
            unwalked: Vec::new(),
            new_hashes: HashSet::new(),
            path_bytes: 0,
            content_bytes: 0,
            reads_content: true,
        }
    }
}

/// A directory on the current path, and its subdirectories that are still to be walked.
struct Level {
    identity: (u64, u64),
    /// Length of the directory's path.
    path_len: usize,
    pending_folders: Vec<Vec<u8>>,
}

/// Why the walk of an entry, or the whole walk, stopped.
enum StopReason {
    /// This entry cannot be walked or read, but the others can.
    Entry,
    /// A limit of the whole snapshot is reached.
    LimitReached,
    /// The host cancelled, or the channel is gone.
    Refused(Refusal),
}

impl From<Errno> for StopReason {
    fn from(_: Errno) -> Self {
        Self::Entry
    }
}

impl Walk<'_> {
    /// Walks with one open directory and `..` instead of recursion, so that deep trees exhaust
    /// neither the stack nor the descriptors.
    pub fn walk_tree(&mut self, root: &OwnedFd) -> Result<(), Refusal> {
        let failed = |error| from_errno(error, &self.request.root);
        let device = fstat(root).map_err(failed)?.st_dev;
        let mut folder = root.try_clone().map_err(|_| failed(Errno::MFILE))?;
        let mut path = Vec::new();
        let mut levels = Vec::new();
        match self.enter(&folder, &path) {
            Ok(level) => levels.push(level),
            Err(stop) => return self.record_unwalked(&path, stop).map(drop),
        }
        while let Some(level) = levels.last_mut() {
            path.truncate(level.path_len);
            if let Some(name) = level.pending_folders.pop() {
                push_name(&mut path, &name);
                let entered = open(&folder, &name, device).and_then(|inner| match inner {
                    Some(inner) => self.enter(&inner, &path).map(|level| Some((inner, level))),
                    None => Ok(None),
                });
                match entered {
                    Ok(Some((inner, level))) => {
                        folder = inner;
                        levels.push(level);
                    }
                    Ok(None) => {}
                    Err(stop) => {
                        if !self.record_unwalked(&path, stop)? {
                            // Report only the topmost directory that is not finished. This covers
                            // everything below it.
                            let open =
                                levels.iter().find(|level| !level.pending_folders.is_empty());
                            if let Some(level) = open {
                                path.truncate(level.path_len);
                                self.unwalked.pop();
                                self.unwalked.push(path);
                            }
                            return Ok(());
                        }
                    }
                }
                continue;
            }
            levels.pop();
            while let Some(above) = levels.last() {
                path.truncate(above.path_len);
                match open_parent(root, &folder, above.identity, &path) {
                    Ok(found) => {
                        folder = found;
                        break;
                    }
                    // The directory was moved during the walk, so its remaining entries are inaccessible.
                    Err(_) => {
                        if levels.pop().is_some_and(|lost| !lost.pending_folders.is_empty()) {
                            self.unwalked.push(path.clone());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Records a directory that was not walked completely. Returns whether the walk can continue.
    fn record_unwalked(&mut self, path: &[u8], stop: StopReason) -> Result<bool, Refusal> {
        match stop {
            StopReason::Refused(refusal) => Err(refusal),
            StopReason::LimitReached => {
                self.unwalked.push(path.to_vec());
                Ok(false)
            }
            StopReason::Entry => {
                self.unwalked.push(path.to_vec());
                Ok(self.unwalked.len() < MAX_UNWALKED)
            }
        }
    }

    fn enter(&mut self, folder: &OwnedFd, path: &[u8]) -> Result<Level, StopReason> {
        if self.stream.is_cancelled() {
            return Err(StopReason::Refused(cancelled_refusal()));
        }
        let stat = fstat(folder)?;
        let identity = (stat.st_dev, stat.st_ino);
        // One directory with very many files must not use up the entry limit for all others.
        let most = usize::try_from(self.request.entry_limit / 2).unwrap_or(usize::MAX);
        let mut names = entries::read_names_up_to(folder, most)?.ok_or(Errno::TOOBIG)?;
        names.sort_unstable();
        let lookahead_entries = self.lookahead.mark_reached(path, identity);
        let mut listing = Vec::with_capacity(names.len());
        let listed = self.check_entries((folder, &lookahead_entries), path, names, &mut listing);
        self.current.insert(path, listing);
        let mut folders = listed?;
        // The walk takes directories from the end of this list. Put known directories last, so that
        // the walk enters them first. If there are too many new files, the limits then cut off only
        // these.
        folders.sort_by_key(|(known, _)| *known);
        let folders = folders.into_iter().map(|(_, name)| name).collect();
        Ok(Level { identity, path_len: path.len(), pending_folders: folders })
    }

    /// Reads a directory entry outside of a walk. Returns `None` if the entry cannot be read.
    pub fn read_entry(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        fingerprint: StatFingerprint,
    ) -> Result<Option<EntryState>, Refusal> {
        match self.read(folder, name, fingerprint) {
            Ok(seen) => Ok(seen),
            Err(StopReason::Refused(refusal)) => Err(refusal),
            Err(StopReason::Entry | StopReason::LimitReached) => Ok(None),
        }
    }

    /// Checks the entries of a directory. Returns the subdirectories to walk, and whether each
    /// existed before.
    fn check_entries(
        &mut self,
        (folder, looked): (&OwnedFd, &HashMap<Vec<u8>, StatFingerprint>),
        path: &[u8],
        names: Vec<Vec<u8>>,
        listing: &mut Listing,
    ) -> Result<Vec<(bool, Vec<u8>)>, StopReason> {
        let mut folders = Vec::new();
        let before = self.previous;
        let mut known = before.listing(path).iter().peekable();
        for name in names {
            while known.next_if(|(old, _)| *old < name).is_some() {}
            let old = known.next_if(|(old, _)| *old == name).map(|(_, seen)| seen);
            let length = path.len() + usize::from(!path.is_empty()) + name.len();
            let Some(seen) = self.check_entry((folder, looked.get(&name)), &name, length, old)?
            else {
                continue;
            };
            let is_folder = seen.is_folder();
            let walked = is_folder && !self.request.skip.iter().any(|skip| skip.as_bytes() == name);
            if is_folder && length > PATH_LIMIT {
                let mut full = path.to_vec();
                push_name(&mut full, &name);
                self.unwalked.push(full);
                if self.unwalked.len() >= MAX_UNWALKED {
                    listing.push((name, seen));
                    return Err(StopReason::LimitReached);
                }
            } else if walked {
                folders.push((old.is_some(), name.clone()));
            }
            listing.push((name, seen));
        }
        Ok(folders)
    }

    /// Checks the entry `name`, whose path has the given length. Returns `None` if the entry is
    /// gone.
    fn check_entry(
        &mut self,
        (folder, lookahead_fingerprint): (&OwnedFd, Option<&StatFingerprint>),
        name: &[u8],
        length: usize,
        previous: Option<&EntryState>,
    ) -> Result<Option<EntryState>, StopReason> {
        self.path_bytes += length;
        if self.entry_count >= self.request.entry_limit || self.path_bytes > PATHS_LIMIT {
            return Err(StopReason::LimitReached);
        }
        let witness = match lookahead_fingerprint {
            Some(witness) => *witness,
            None => {
                let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
                let Some(stat) = none_if_missing(stat)? else { return Ok(None) };
                StatFingerprint::new(&stat)
            }
        };
        let seen = match previous {
            _ if !self.reads_content => Some(EntryState::new(witness, None, None)),
            Some(old) if old.is_still_valid(&witness) && !self.can_capture_now(old, &witness) => {
                Some(EntryState::new(witness, old.hash, old.link.clone()))
            }
            _ => match self.read(folder, name, witness) {
                // List the file without content.
                Err(StopReason::Entry) => Some(EntryState::new(witness, None, None)),
                other => other?,
            },
        };
        self.entry_count += u64::from(seen.is_some());
        Ok(seen)
    }

    /// Returns whether a file whose content was not captured last time is small enough now.
    fn can_capture_now(&self, previous: &EntryState, current: &StatFingerprint) -> bool {
        previous.lacks_content() && current.size <= self.file_limit()
    }

    /// Returns the maximum size of a file to send. The limit decreases as the total grows.
    fn file_limit(&self) -> u64 {
        let (file, all) = (self.request.file_limit, self.request.content_limit);
        match self.content_bytes {
            _ if all == 0 => file,
            sent if sent > all.saturating_mul(2) => 0,
            sent if sent > all => file.min(SMALL_FILE_BYTES),
            _ => file,
        }
    }

    fn read(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        fingerprint: StatFingerprint,
    ) -> Result<Option<EntryState>, StopReason> {
        match fingerprint.kind {
            EntryKind::Dir | EntryKind::Other => Ok(Some(EntryState::new(fingerprint, None, None))),
            EntryKind::Link => {
                // The link was replaced in the meantime. The next snapshot will capture it.
                let Ok(target) = readlinkat(folder, name, Vec::new()) else { return Ok(None) };
                let target = target.into_bytes();
                let hash = blake3::hash(&target);
                Ok(Some(EntryState::new(fingerprint, Some(*hash.as_bytes()), Some(target))))
            }
            EntryKind::File => self.read_file(folder, name, fingerprint),
        }
    }

    fn read_file(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        listed_fingerprint: StatFingerprint,
    ) -> Result<Option<EntryState>, StopReason> {
        let without_content = |witness| Ok(Some(EntryState::new(witness, None, None)));
        if listed_fingerprint.size > self.file_limit() {
            return without_content(listed_fingerprint);
        }
        let opened = openat(folder, name, FILE_FLAGS, Mode::empty());
        let Some(file) = none_if_missing(opened)? else { return Ok(None) };
        let witness = StatFingerprint::new(&fstat(&file)?);
        if witness.kind != EntryKind::File {
            return Ok(None);
        }
        if witness.size > self.file_limit() {
            return without_content(witness);
        }
        if witness.size <= SMALL_FILE_BYTES {
            let mut bytes = Vec::with_capacity(witness.size as usize);
            let whole = read_chunks(&file, SMALL_FILE_BYTES + 1, |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            })?;
            if !whole {
                return without_content(witness.with_size(SMALL_FILE_BYTES + 1));
            }
            let hash = *blake3::hash(&bytes).as_bytes();
            if self.is_new(&hash) {
                self.send_length(bytes.len() as u64)?;
                self.send_chunk(&bytes)?;
                self.count_sent(hash, bytes.len() as u64);
            }
            // The size of a file that is being written is the number of bytes read.
            return Ok(Some(EntryState::new(
                witness.with_size(bytes.len() as u64),
                Some(hash),
                None,
            )));
        }
        self.read_large_file(&file, witness)
    }

    /// Hashes a file, and then reads it again to send it. A sandbox with full memory could not
    /// buffer it.
    fn read_large_file(
        &mut self,
        file: &OwnedFd,
        fingerprint: StatFingerprint,
    ) -> Result<Option<EntryState>, StopReason> {
        let mut size = 0;
        let mut hasher = blake3::Hasher::new();
        let limit = self.file_limit();
        let whole = read_chunks(file, limit.saturating_add(1), |piece| {
            size += piece.len() as u64;
            hasher.update(piece);
            Ok(())
        })?;
        if !whole {
            return Ok(Some(EntryState::new(
                fingerprint.with_size(limit.saturating_add(1)),
                None,
                None,
            )));
        }
        let mut hash = *hasher.finalize().as_bytes();
        if !self.is_new(&hash) {
            return Ok(Some(EntryState::new(fingerprint.with_size(size), Some(hash), None)));
        }
        rustix::fs::seek(file, SeekFrom::Start(0))?;
        self.send_length(size)?;
        // The file's length has already been sent. If the file changes meanwhile, the content is
        // truncated or padded to that length, and this is the content that counts as captured.
        let (mut left, mut hasher) = (size, blake3::Hasher::new());
        let sent = read_chunks(file, u64::MAX, |piece| {
            let piece = &piece[..piece.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            left -= piece.len() as u64;
            hasher.update(piece);
            self.send_chunk(piece)?;
            if left == 0 { Err(StopReason::LimitReached) } else { Ok(()) }
        });
        match sent {
            Ok(_) | Err(StopReason::LimitReached | StopReason::Entry) => {}
            Err(refused) => return Err(refused),
        }
        let zeros = [0; 4096];
        while left > 0 {
            let piece = &zeros[..zeros.len().min(left as usize)];
            left -= piece.len() as u64;
            hasher.update(piece);
            self.send_chunk(piece)?;
        }
        hash = *hasher.finalize().as_bytes();
        self.count_sent(hash, size);
        Ok(Some(EntryState::new(fingerprint.with_size(size), Some(hash), None)))
    }

    fn is_new(&self, hash: &[u8; 32]) -> bool {
        !self.hashes.contains(hash) && !self.new_hashes.contains(hash)
    }

    fn count_sent(&mut self, hash: [u8; 32], bytes: u64) {
        self.content_bytes += bytes;
        self.new_hashes.insert(hash);
    }

    fn send_length(&self, length: u64) -> Result<(), StopReason> {
        self.send_chunk(&length.to_be_bytes())
    }

    fn send_chunk(&self, bytes: &[u8]) -> Result<(), StopReason> {
        self.stream
            .send_all(&self.server.outbox, channel::STDOUT, bytes)
            .map_err(StopReason::Refused)
    }
}

/// Opens a subdirectory. Returns `None` if it is gone, or if another file system is mounted there:
/// that does not belong to the work directory.
fn open(folder: &OwnedFd, name: &[u8], device: u64) -> Result<Option<OwnedFd>, StopReason> {
    match none_if_missing(openat(folder, name, FOLDER_FLAGS, Mode::empty())) {
        Ok(Some(inner)) if fstat(&inner)?.st_dev == device => Ok(Some(inner)),
        Ok(_) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns to the parent directory. If the child was moved meanwhile, opens the parent from the
/// root again, without following links.
fn open_parent(
    root: &OwnedFd,
    folder: &OwnedFd,
    identity: (u64, u64),
    path: &[u8],
) -> Result<OwnedFd, Errno> {
    let above = openat(folder, "..", FOLDER_FLAGS, Mode::empty())?;
    let stat = fstat(&above)?;
    if (stat.st_dev, stat.st_ino) == identity {
        return Ok(above);
    }
    let mut found = openat(root, ".", FOLDER_FLAGS, Mode::empty())?;
    for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        found = openat(&found, name, FOLDER_FLAGS, Mode::empty())?;
    }
    Ok(found)
}

/// Reads a file from its current position in chunks. Returns `false` if it reaches the limit.
fn read_chunks(
    file: &OwnedFd,
    limit: u64,
    mut process_chunk: impl FnMut(&[u8]) -> Result<(), StopReason>,
) -> Result<bool, StopReason> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut total = 0;
    loop {
        let read = match rustix::io::read(file, &mut chunk[..]) {
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        if read == 0 {
            return Ok(true);
        }
        total += read as u64;
        if total >= limit {
            return Ok(false);
        }
        process_chunk(&chunk[..read])?;
    }
}

/// Returns `None` if the entry has vanished since it was listed. Passes on all other errors.
fn none_if_missing<T>(result: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error),
    }
}
