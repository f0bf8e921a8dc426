//! The pack file. Only its trial appends to the file, while any process may read it.

use std::{
    collections::{HashMap, VecDeque},
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use blake3::Hasher;
use proctor_wire::SnapshotReply;
use serde::{Deserialize, Serialize};

use super::entry::{
    self, CHECKSUM_BYTES, EntryHeader, HEADER_BYTES, Hash, MARKER, PayloadKind, Splice,
};
use crate::{RecordError, Tree, disk};

/// Number of conversations per trial whose most recent request body is kept in memory. The next
/// body is stored as a difference from the most similar of these bodies.
const MAX_CACHED_BODIES: usize = 4;

/// A trial's `blobs.pack`. The file is created when the first entry is written.
///
/// Entries are only appended. A reader skips corrupt data and an incomplete end, and finds the next
/// entry by its marker. Lost content is reported as missing when its hash is looked up.
#[derive(Debug)]
pub(crate) struct Pack {
    path: PathBuf,
    index: Mutex<PackIndex>,
}

#[derive(Debug, Default)]
struct PackIndex {
    /// Whether this process writes the pack, so that its index is complete. The file itself is not
    /// kept open, because a run has hundreds of concurrent trials and often only a thousand file
    /// descriptors.
    is_writer: bool,
    /// Number of bytes of the file that are indexed.
    indexed_length: u64,
    entries: HashMap<Hash, (u64, EntryHeader)>,
    /// The most recent request body of each conversation. The conversation that was used last comes
    /// first.
    recent_bodies: VecDeque<ConversationBody>,
    /// The body that was read last. It is cached because bodies and manifests are usually read in
    /// order, and each one is stored as a difference from the previous one.
    last_read_body: Option<(Hash, Arc<Vec<u8>>)>,
    last_read_tree: Option<(Hash, Arc<Tree>)>,
    /// Whether a failed write left data that could not be truncated.
    is_broken: bool,
}

/// The most recent request body of a conversation. The next body is stored as a difference from it.
#[derive(Debug)]
struct ConversationBody {
    hash: Hash,
    bytes: Vec<u8>,
    /// The hasher's state after the shared prefix. The hash of the next body is computed from this
    /// state.
    prefix_hasher: Hasher,
}

/// Returns the hash of `bytes`, and the hasher's state after the prefix that `bytes` shares with an
/// earlier body. Thanks to this state, the earlier part of a long conversation is not hashed again
/// for each step.
fn hash_body(bytes: &[u8], previous: Option<(&ConversationBody, usize)>) -> (Hash, Hasher) {
    let (mut head, same) = match previous {
        Some((old, same)) if old.prefix_hasher.count() <= same as u64 => {
            (old.prefix_hasher.clone(), same)
        }
        Some((_, same)) => (Hasher::new(), same),
        None => (Hasher::new(), 0),
    };
    head.update(&bytes[head.count() as usize..same]);
    let mut whole = head.clone();
    whole.update(&bytes[same..]);
    (*whole.finalize().as_bytes(), head)
}

/// The payload of [`PayloadKind::Changes`] after the base hash.
#[derive(Serialize, Deserialize)]
struct Changes {
    changed: Vec<proctor_wire::SnapshotEntry>,
    removed: Vec<proctor_wire::RawPath>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unwalked: Vec<proctor_wire::RawPath>,
}

impl Pack {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), index: Mutex::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn lock_index(&self) -> MutexGuard<'_, PackIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores content, unless the pack already has it.
    pub(crate) fn put(&self, hash: &Hash, bytes: &[u8]) -> Result<(), RecordError> {
        let mut state = self.refresh_index()?;
        self.append_entry(&mut state, PayloadKind::Full, hash, bytes)
    }

    /// Stores the body of a request and returns its hash. For a prefix or suffix that the body
    /// shares with an earlier body of the trial, only the length is stored.
    pub(crate) fn put_body(&self, bytes: &[u8]) -> Result<Hash, RecordError> {
        let mut state = self.refresh_index()?;
        let splices = state
            .recent_bodies
            .iter()
            .enumerate()
            .map(|(index, old)| (index, Splice::diff(old.hash, &old.bytes, bytes)));
        let best = splices.max_by_key(|(_, splice)| splice.shared_len());
        // If less than half of the body matches the earlier body, it probably belongs to another
        // conversation.
        let best = best.filter(|(_, splice)| splice.shared_len() > bytes.len() / 2);
        let before =
            best.as_ref().map(|(index, splice)| (&state.recent_bodies[*index], splice.head_length));
        let (hash, head) = hash_body(bytes, before);
        if state.entries.contains_key(&hash) {
            return Ok(hash);
        }
        match best {
            Some((index, splice)) => {
                let (same, payload) = (splice.head_length, splice.encode());
                self.append_entry(&mut state, PayloadKind::Splice, &hash, &payload)?;
                // Reuse the old buffer instead of copying a long conversation for each step.
                let mut body =
                    state.recent_bodies.remove(index).map(|old| old.bytes).unwrap_or_default();
                body.truncate(same);
                body.extend_from_slice(&bytes[body.len()..]);
                state.recent_bodies.push_front(ConversationBody {
                    hash,
                    bytes: body,
                    prefix_hasher: head,
                });
            }
            None => {
                self.append_entry(&mut state, PayloadKind::Full, &hash, bytes)?;
                state.recent_bodies.push_front(ConversationBody {
                    hash,
                    bytes: bytes.to_vec(),
                    prefix_hasher: head,
                });
            }
        }
        state.recent_bodies.truncate(MAX_CACHED_BODIES);
        Ok(hash)
    }

    /// Stores a manifest as a difference from the manifest with hash `base_hash`, which must be in
    /// this pack or among the shared blobs.
    pub(crate) fn put_tree(
        &self,
        hash: &Hash,
        base_hash: &Hash,
        reply: &SnapshotReply,
    ) -> Result<(), RecordError> {
        let mut state = self.refresh_index()?;
        let SnapshotReply { changed, removed, unwalked, .. } = reply.clone();
        let changes = Changes { changed, removed, unwalked };
        let mut payload = base_hash.to_vec();
        serde_json::to_writer(&mut payload, &changes).map_err(|error| RecordError::Misuse {
            path: self.path.clone(),
            why: format!("a manifest is not JSON: {error}"),
        })?;
        self.append_entry(&mut state, PayloadKind::Changes, hash, &payload)
    }

    /// Syncs the written entries to disk.
    pub(crate) fn sync(&self) -> Result<(), RecordError> {
        let state = self.lock_index();
        if !state.is_writer {
            return Ok(());
        }
        self.open()
            .and_then(|file| file.sync_data())
            .map_err(RecordError::io(&self.path, "cannot be synced"))
    }

    fn append_entry(
        &self,
        state: &mut PackIndex,
        kind: PayloadKind,
        hash: &Hash,
        payload: &[u8],
    ) -> Result<(), RecordError> {
        if state.entries.contains_key(hash) {
            return Ok(());
        }
        if state.is_broken {
            return Err(RecordError::Misuse {
                path: self.path.clone(),
                why: "an earlier entry was only partially written".into(),
            });
        }
        let failed = || RecordError::io(&self.path, "cannot be written");
        let bytes = entry::encode_entry(kind, hash, payload).map_err(failed())?;
        let Some(head) = EntryHeader::read(&bytes) else {
            let why = "an entry cannot be read back".to_owned();
            return Err(RecordError::Misuse { path: self.path.clone(), why });
        };
        let file = self.open().map_err(failed())?;
        state.is_writer = true;
        let at = state.indexed_length;
        if let Err(error) = file.write_all_at(&bytes, at) {
            state.is_broken = file.set_len(at).is_err();
            return Err(failed()(error));
        }
        state.entries.insert(*hash, (at, head));
        state.indexed_length = at + bytes.len() as u64;
        Ok(())
    }

    fn open(&self) -> io::Result<File> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        disk::open_with(&options, &self.path)
    }

    /// Indexes every complete entry in the file and returns the index.
    fn refresh_index(&self) -> Result<MutexGuard<'_, PackIndex>, RecordError> {
        let mut state = self.lock_index();
        let failed = || RecordError::io(&self.path, "cannot be read");
        if !state.is_writer {
            match disk::open_regular_file(&self.path) {
                Ok(file) => drop(self.index_new_entries(&mut state, &file).map_err(failed())?),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed()(error)),
            }
        }
        Ok(state)
    }

    /// Reads the headers of entries that are not indexed yet. Returns the offsets at which corrupt
    /// data starts.
    fn index_new_entries(&self, state: &mut PackIndex, file: &File) -> io::Result<Vec<u64>> {
        let end = file.metadata()?.len();
        let (mut at, mut damage) = (state.indexed_length, Vec::new());
        while at < end {
            let mut head = [0; HEADER_BYTES];
            let there = usize::try_from(end - at).unwrap_or(HEADER_BYTES).min(HEADER_BYTES);
            file.read_exact_at(&mut head[..there], at)?;
            let read = EntryHeader::read(&head[..there]);
            let whole = read.filter(|read| at + read.length() as u64 <= end);
            if let Some(read) = whole
                && has_trustworthy_length(file, at, read, end)?
            {
                state.entries.insert(read.hash, (at, read));
                at += read.length() as u64;
                continue;
            }
            damage.push(at);
            let Some(next) = find_next_entry(file, at + 1, end)? else { break };
            at = next;
        }
        // Don't skip an incomplete entry at the end, because its writer may not have finished.
        state.indexed_length = at;
        Ok(damage)
    }

    fn read_entry(
        &self,
        state: &PackIndex,
        hash: &Hash,
    ) -> Result<Option<(PayloadKind, Vec<u8>)>, RecordError> {
        let Some((at, head)) = state.entries.get(hash) else { return Ok(None) };
        let mut bytes = vec![0; head.length()];
        let read = disk::open_regular_file(&self.path)
            .and_then(|file| file.read_exact_at(&mut bytes, *at));
        read.map_err(RecordError::io(&self.path, "cannot be read"))?;
        let payload = head.payload(&bytes).map_err(|why| self.corrupt_error(*at, why))?;
        Ok(Some((head.kind, payload)))
    }

    fn corrupt_error(&self, offset: u64, reason: &str) -> RecordError {
        RecordError::Corrupt {
            path: self.path.clone(),
            why: format!("byte {offset}: {reason}"),
            hint: crate::error::RESTORE_FROM_COPY_HINT,
        }
    }

    /// Returns the content with this hash, or `None` if the pack does not contain it. The caller
    /// must verify the hash. `read_shared` returns base content that is not in the pack.
    pub(crate) fn get(
        &self,
        hash: &Hash,
        read_shared: &dyn Fn(&Hash) -> Result<Vec<u8>, RecordError>,
    ) -> Result<Option<Vec<u8>>, RecordError> {
        let mut state = self.refresh_index()?;
        match state.entries.get(hash).map(|(_, head)| head.kind) {
            None => Ok(None),
            Some(PayloadKind::Changes) => {
                let tree = self.read_tree(&mut state, hash, read_shared)?;
                Ok(tree.map(|tree| tree.to_json()))
            }
            Some(_) => Ok(self.read_body(&mut state, hash, read_shared)?.map(|body| body.to_vec())),
        }
    }

    /// Returns the manifest with this hash as a tree, if the pack contains it. Like [`Pack::get`],
    /// this method does not verify the hash.
    pub(crate) fn get_tree(
        &self,
        hash: &Hash,
        read_shared: &dyn Fn(&Hash) -> Result<Vec<u8>, RecordError>,
    ) -> Result<Option<Arc<Tree>>, RecordError> {
        let mut state = self.refresh_index()?;
        match state.entries.contains_key(hash) {
            true => self.read_tree(&mut state, hash, read_shared),
            false => Ok(None),
        }
    }

    fn read_body(
        &self,
        state: &mut PackIndex,
        hash: &Hash,
        read_shared: &dyn Fn(&Hash) -> Result<Vec<u8>, RecordError>,
    ) -> Result<Option<Arc<Vec<u8>>>, RecordError> {
        let mut splices = Vec::new();
        let mut wanted = *hash;
        let mut body = loop {
            if let Some((known, body)) = &state.last_read_body
                && *known == wanted
            {
                break Arc::clone(body);
            }
            match self.read_entry(state, &wanted)? {
                Some((PayloadKind::Splice, payload)) => {
                    let base = Splice::decode(&payload).map(|splice| splice.base);
                    let Some(base) = base.filter(|_| splices.len() < state.entries.len()) else {
                        return Err(self.corrupt_error(0, "an entry has no base"));
                    };
                    splices.push(payload);
                    wanted = base;
                }
                Some((PayloadKind::Full, payload)) => break Arc::new(payload),
                Some((PayloadKind::Changes, _)) | None if splices.is_empty() => return Ok(None),
                Some((PayloadKind::Changes, _)) | None => break Arc::new(read_shared(&wanted)?),
            }
        };
        for payload in splices.iter().rev() {
            let next = Splice::decode(payload).and_then(|splice| splice.apply(&body));
            body = Arc::new(
                next.ok_or_else(|| self.corrupt_error(0, "an entry does not match its base"))?,
            );
        }
        // Cache only content that other entries may be based on.
        if !splices.is_empty() {
            state.last_read_body = Some((*hash, Arc::clone(&body)));
        }
        Ok(Some(body))
    }

    fn read_tree(
        &self,
        state: &mut PackIndex,
        hash: &Hash,
        read_shared: &dyn Fn(&Hash) -> Result<Vec<u8>, RecordError>,
    ) -> Result<Option<Arc<Tree>>, RecordError> {
        let mut steps = Vec::new();
        let mut wanted = *hash;
        let mut tree = loop {
            if let Some((known, tree)) = &state.last_read_tree
                && *known == wanted
            {
                break Arc::clone(tree);
            }
            let whole = match self.read_entry(state, &wanted)? {
                Some((PayloadKind::Changes, payload)) => {
                    let read = payload.split_at_checked(32).and_then(|(base, rest)| {
                        Some((base.try_into().ok()?, serde_json::from_slice(rest).ok()?))
                    });
                    let read: Option<(Hash, Changes)> =
                        read.filter(|_| steps.len() < state.entries.len());
                    let Some((base, changes)) = read else {
                        return Err(self.corrupt_error(0, "a manifest's changes cannot be parsed"));
                    };
                    steps.push(changes);
                    wanted = base;
                    continue;
                }
                Some((PayloadKind::Full, payload)) => payload,
                Some((PayloadKind::Splice, _)) | None => read_shared(&wanted)?,
            };
            let tree = Tree::from_json(&whole).map_err(|why| {
                self.corrupt_error(0, &format!("a blob is not a manifest: {why}"))
            })?;
            break Arc::new(tree);
        };
        for Changes { changed, removed, unwalked } in steps.into_iter().rev() {
            let reply = SnapshotReply { changed, removed, unwalked, ..SnapshotReply::default() };
            Arc::make_mut(&mut tree).apply_snapshot(&reply);
        }
        state.last_read_tree = Some((*hash, Arc::clone(&tree)));
        Ok(Some(tree))
    }

    pub(crate) fn contains(&self, hash: &Hash) -> Result<bool, RecordError> {
        Ok(self.refresh_index()?.entries.contains_key(hash))
    }
}

/// Reads every entry of a pack. Returns the offset and error of each corrupt entry.
pub(crate) fn find_corrupt_entries(bytes: &[u8]) -> Vec<(u64, &'static str)> {
    let (mut at, mut damage) = (0, Vec::new());
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let head = EntryHeader::read(rest);
        let entry = head.and_then(|head| Some((head, rest.get(..head.length())?)));
        let why = match entry {
            Some((head, entry)) => head.payload(entry).err(),
            None => Some("incomplete entry"),
        };
        let Some(why) = why else {
            at += entry.map_or(1, |(_, entry)| entry.len());
            continue;
        };
        damage.push((at as u64, why));
        let next = rest[1..].windows(MARKER.len()).position(|four| four == MARKER);
        let Some(next) = next else { break };
        at += 1 + next;
    }
    damage
}

/// Whether this entry's length can be trusted: another entry or the end of the file follows, or the
/// entry's checksum is valid. A corrupt length would hide the entries after it.
fn has_trustworthy_length(
    file: &File,
    offset: u64,
    header: EntryHeader,
    file_end: u64,
) -> io::Result<bool> {
    let next = offset + header.length() as u64;
    let mut four = MARKER;
    if next + (MARKER.len() as u64) <= file_end {
        file.read_exact_at(&mut four, next)?;
    }
    if four == MARKER {
        return Ok(true);
    }
    let mut entry = vec![0; header.length()];
    file.read_exact_at(&mut entry, offset)?;
    Ok(header.payload(&entry).is_ok())
}

/// Returns the offset of the next complete entry with a valid checksum.
fn find_next_entry(file: &File, start: u64, file_end: u64) -> io::Result<Option<u64>> {
    let mut rest = vec![0; usize::try_from(file_end - start).unwrap_or(0)];
    file.read_exact_at(&mut rest, start)?;
    let mut at = 0;
    while let Some(found) = rest[at..].windows(MARKER.len()).position(|four| four == MARKER) {
        at += found;
        let head = EntryHeader::read(&rest[at..]);
        let whole = head.and_then(|head| Some((head, rest.get(at..at + head.length())?)));
        if whole.is_some_and(|(head, entry)| head.payload(entry).is_ok()) {
            return Ok(Some(start + at as u64));
        }
        at += 1;
    }
    Ok(None)
}

const _: () = assert!(CHECKSUM_BYTES < HEADER_BYTES);
