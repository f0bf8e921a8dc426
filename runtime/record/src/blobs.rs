//! Content-addressed storage for the files of snapshots, long outputs, request and response bodies,
//! and manifests.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use proctor_wire::SnapshotReply;
use tempfile::NamedTempFile;

use crate::{
    RecordError, Tree, disk,
    error::RESTORE_FROM_COPY_HINT,
    pack::{Hash, Pack},
};

/// Content longer than this many bytes is stored as a separate file among the shared blobs.
const MAX_PACKED_BYTES: usize = 1 << 20;

/// A directory of blobs, stored as `ab/cdef...` below its root. A blob's name is the BLAKE3 of its
/// content. The blobs of one trial (`RunDir::trial_blobs`) also include a pack: a single file for
/// the trial's own small content. As separate files, thousands of small blobs would each use a disk
/// block.
///
/// Any number of processes may write to the directory at once, because each blob is created
/// atomically by a rename. Blobs are not synced individually, because a snapshot has thousands. If
/// a power failure corrupts a blob, the blob no longer matches its name. Then [`Blobs::get`]
/// rejects it, and the next [`Blobs::put`] rewrites it.
#[derive(Debug, Clone)]
pub struct Blobs {
    root: PathBuf,
    pack: Option<Arc<Pack>>,
}

impl Blobs {
    /// Creates access to the blobs in this directory, without a pack. The first `put` creates the
    /// directory.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), pack: None }
    }

    /// Adds a pack. Only the process that runs the trial may write to the pack.
    #[must_use]
    pub fn with_pack(&self, pack: impl Into<PathBuf>) -> Self {
        Self { root: self.root.clone(), pack: Some(Arc::new(Pack::new(pack))) }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a shared blob, whether or not the blob exists.
    pub(crate) fn shared_blob_path(&self, hash: &str) -> Result<PathBuf, RecordError> {
        self.blob_path(hash)
    }

    /// Whether content of this size is too large for a pack.
    pub(crate) fn exceeds_pack_limit(bytes: u64) -> bool {
        bytes > MAX_PACKED_BYTES as u64
    }

    /// Returns the hash that `put` would return.
    pub fn hash(bytes: &[u8]) -> String {
        blake3::hash(bytes).to_hex().to_string()
    }

    /// Stores the bytes and returns their hash: 64 lower-case hex digits.
    pub fn put(&self, bytes: &[u8]) -> Result<String, RecordError> {
        match &self.pack {
            Some(pack) if bytes.len() <= MAX_PACKED_BYTES => {
                let hash = blake3::hash(bytes);
                pack.put(hash.as_bytes(), bytes)?;
                Ok(hash.to_hex().to_string())
            }
            _ => self.put_shared(bytes),
        }
    }

    /// Stores the bytes among the run's shared blobs. Use this for content that many trials share,
    /// such as a task's initial files.
    pub fn put_shared(&self, bytes: &[u8]) -> Result<String, RecordError> {
        let hash = Self::hash(bytes);
        let path = self.blob_path(&hash)?;
        if fs::metadata(&path).is_ok_and(|found| found.len() == bytes.len() as u64) {
            return Ok(hash);
        }
        let write = || {
            let folder = path.parent().unwrap_or(&self.root);
            fs::create_dir_all(folder)?;
            let mut temporary = disk::create_temp_file(folder)?;
            temporary.write_all(bytes)?;
            temporary.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(RecordError::io(&path, "cannot be written"))?;
        Ok(hash)
    }

    /// Stores the exact body of a request or response and returns its hash. Each request repeats
    /// the conversation so far, so a body that starts like an earlier body of the trial is stored
    /// as a difference from that body.
    pub fn put_body(&self, bytes: &[u8]) -> Result<String, RecordError> {
        let Some(pack) = &self.pack else { return self.put_shared(bytes) };
        Ok(blake3::Hash::from(pack.put_body(bytes)?).to_hex().to_string())
    }

    /// Stores a manifest as a difference from the manifest with hash `base_hash`.
    pub(crate) fn put_tree(
        &self,
        tree: &Tree,
        base_hash: &str,
        reply: &SnapshotReply,
    ) -> Result<String, RecordError> {
        let bytes = tree.to_json();
        let Some(pack) = &self.pack else { return self.put_shared(&bytes) };
        let hash = blake3::hash(&bytes);
        let name = hash.to_hex().to_string();
        // If a tree equals the trial's initial tree, don't store it as a difference from a later
        // tree. That tree is itself stored as a difference from the initial one, so the two would
        // refer to each other.
        if !self.blob_path(&name)?.is_file() {
            pack.put_tree(hash.as_bytes(), &self.parse_hash(base_hash)?, reply)?;
        }
        Ok(name)
    }

    /// Starts a blob that is written in chunks. If `is_shared` is set, the blob is stored as
    /// [`Blobs::put_shared`] does, and otherwise as [`Blobs::put`] does.
    pub fn writer(&self, is_shared: bool) -> BlobWriter {
        let (hasher, blobs) = (blake3::Hasher::new(), self.clone());
        BlobWriter { blobs, is_shared, hasher, buffer: Vec::new(), file: None }
    }

    /// Returns the content with this hash. Verifies the content first.
    pub fn get(&self, hash: &str) -> Result<Vec<u8>, RecordError> {
        if let Some(pack) = &self.pack {
            let name = self.parse_hash(hash)?;
            // If the pack's entry is corrupt, fall back to a shared blob with the same content.
            let packed = pack.get(&name, &|hash| self.get_shared_by_hash(hash));
            match packed {
                Ok(Some(bytes)) if Self::hash(&bytes) == hash => return Ok(bytes),
                Ok(Some(_)) if !self.blob_path(hash)?.is_file() => {
                    return Err(RecordError::Corrupt {
                        path: pack.path().to_owned(),
                        why: format!("the content of {hash} does not match its name"),
                        hint: RESTORE_FROM_COPY_HINT,
                    });
                }
                Err(error) if !self.blob_path(hash)?.is_file() => return Err(error),
                // Name the pack in the error, because the blob may never have been in the shared
                // directory.
                Ok(None) if !self.blob_path(hash)?.is_file() => {
                    let how = if pack.path().exists() {
                        "has no blob"
                    } else {
                        "missing, along with blob"
                    };
                    return Err(RecordError::Corrupt {
                        path: pack.path().to_owned(),
                        why: format!(
                            "{how} {hash}; the run's shared blobs do not contain it either"
                        ),
                        hint: RESTORE_FROM_COPY_HINT,
                    });
                }
                _ => {}
            }
        }
        self.get_shared(hash)
    }

    fn get_shared_by_hash(&self, hash: &Hash) -> Result<Vec<u8>, RecordError> {
        self.get_shared(blake3::Hash::from(*hash).to_hex().as_str())
    }

    fn get_shared(&self, hash: &str) -> Result<Vec<u8>, RecordError> {
        let path = self.blob_path(hash)?;
        let bytes =
            disk::read_regular_file(&path).map_err(RecordError::io(&path, "cannot be read"))?;
        if Self::hash(&bytes) != hash {
            return Err(RecordError::Corrupt {
                path,
                why: "the content does not match its name".into(),
                hint: RESTORE_FROM_COPY_HINT,
            });
        }
        Ok(bytes)
    }

    /// Returns the manifest with this hash, if the pack stores it as a difference.
    pub(crate) fn get_packed_tree(&self, hash: &str) -> Result<Option<Arc<Tree>>, RecordError> {
        let Some(pack) = &self.pack else { return Ok(None) };
        let tree = pack.get_tree(&self.parse_hash(hash)?, &|hash| self.get_shared_by_hash(hash))?;
        match tree {
            Some(tree) if tree.digest() != hash => Err(RecordError::Corrupt {
                path: pack.path().to_owned(),
                why: format!("the manifest {hash} does not match its name"),
                hint: RESTORE_FROM_COPY_HINT,
            }),
            tree => Ok(tree),
        }
    }

    pub fn contains(&self, hash: &str) -> bool {
        let packed = || {
            let (pack, hash) = (self.pack.as_ref()?, self.parse_hash(hash).ok()?);
            pack.contains(&hash).ok()
        };
        packed().unwrap_or(false) || self.is_shared(hash)
    }

    /// Whether the shared directory has this blob.
    pub(crate) fn is_shared(&self, hash: &str) -> bool {
        self.blob_path(hash).is_ok_and(|path| path.is_file())
    }

    /// Syncs the pack's content to disk.
    pub fn sync(&self) -> Result<(), RecordError> {
        self.pack.as_ref().map_or(Ok(()), |pack| pack.sync())
    }

    /// Returns the size of the trial's pack in bytes, or `None` if there is no pack.
    pub fn pack_size(&self) -> Option<u64> {
        let found = fs::metadata(self.pack.as_ref()?.path()).ok()?;
        found.is_file().then_some(found.len())
    }

    /// Parses a hash. Hashes are read from files that anyone may have changed, so this function
    /// rejects everything except 64 hex digits, before the text becomes part of a path.
    fn parse_hash(&self, hash: &str) -> Result<Hash, RecordError> {
        let digits = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let named = blake3::Hash::from_hex(hash).ok().filter(|_| hash.bytes().all(digits));
        let named = named.ok_or_else(|| RecordError::Misuse {
            path: self.root.clone(),
            why: format!("{hash:?} is not a valid blob name"),
        });
        Ok(*named?.as_bytes())
    }

    fn blob_path(&self, hash: &str) -> Result<PathBuf, RecordError> {
        self.parse_hash(hash)?;
        let (head, tail) = hash.split_at(2);
        Ok(self.root.join(head).join(tail))
    }
}

/// Maximum number of bytes of a new blob that are kept in memory. Larger blobs don't fit into a
/// pack, so they are written to a file.
const MAX_BUFFERED_BYTES: usize = MAX_PACKED_BYTES;

/// A blob that is being written. Dropping the writer before `finish` discards the blob.
#[derive(Debug)]
pub struct BlobWriter {
    blobs: Blobs,
    is_shared: bool,
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
    file: Option<NamedTempFile>,
}

impl BlobWriter {
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), RecordError> {
        self.hasher.update(bytes);
        if self.file.is_none() && self.buffer.len() + bytes.len() <= MAX_BUFFERED_BYTES {
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        let root = self.blobs.root.clone();
        let mut write = || {
            let file = match &mut self.file {
                Some(file) => file,
                none => {
                    fs::create_dir_all(&root)?;
                    none.insert(disk::create_temp_file(&root)?)
                }
            };
            file.write_all(&std::mem::take(&mut self.buffer))?;
            file.write_all(bytes)
        };
        write().map_err(RecordError::io(&root, "cannot be written"))
    }

    /// Finishes the blob and returns its hash, as [`Blobs::put`] does.
    pub fn finish(self) -> Result<String, RecordError> {
        let Some(file) = self.file else {
            return match self.is_shared {
                true => self.blobs.put_shared(&self.buffer),
                false => self.blobs.put(&self.buffer),
            };
        };
        let hash = self.hasher.finalize().to_hex().to_string();
        let path = self.blobs.blob_path(&hash)?;
        let write = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            file.persist(&path).map_err(|error| error.error).map(drop)
        };
        write().map_err(RecordError::io(&path, "cannot be written"))?;
        Ok(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_store_content_once_by_hash() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(folder.path());
        let hash = blobs.put(b"hello").unwrap();
        assert_eq!(hash, blobs.put(b"hello").unwrap());
        assert_eq!(blobs.get(&hash).unwrap(), b"hello");
        assert!(blobs.contains(&hash));
        assert!(!blobs.contains(&Blobs::hash(b"other")));
        let files = fs::read_dir(folder.path().join(&hash[..2])).unwrap().count();
        assert_eq!(files, 1, "a temporary file was left behind");
    }

    #[test]
    fn blob_written_in_chunks_matches_put() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(folder.path());
        for size in [0, 10, MAX_BUFFERED_BYTES, MAX_BUFFERED_BYTES + 1, 3 * MAX_BUFFERED_BYTES] {
            let bytes: Vec<u8> = (0..size).map(|n| (n / 7) as u8).collect();
            let mut new = blobs.writer(false);
            bytes.chunks(100_000).for_each(|piece| new.write(piece).unwrap());
            let hash = new.finish().unwrap();
            assert_eq!(hash, Blobs::hash(&bytes));
            assert_eq!(blobs.get(&hash).unwrap(), bytes);
        }
        let mut dropped = blobs.writer(false);
        dropped.write(&vec![7; 2 * MAX_BUFFERED_BYTES]).unwrap();
        drop(dropped);
        let left = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
        assert!(left.into_iter().all(|name| name.len() == 2), "a temporary file was left behind");
    }

    #[test]
    fn torn_blob_is_rejected_and_repaired() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(folder.path());
        let hash = blobs.put(b"hello").unwrap();
        let path = folder.path().join(&hash[..2]).join(&hash[2..]);
        fs::write(&path, b"hel").unwrap();
        let error = blobs.get(&hash).unwrap_err().to_string();
        assert!(error.contains("does not match its name"), "{error}");
        blobs.put(b"hello").unwrap();
        assert_eq!(blobs.get(&hash).unwrap(), b"hello");
    }

    #[test]
    fn blobs_reject_names_that_are_not_hashes() {
        let blobs = Blobs::new("/nowhere");
        for name in ["../../etc/passwd", "", "ab", &"A".repeat(64)] {
            assert!(matches!(blobs.get(name), Err(RecordError::Misuse { .. })), "{name}");
        }
    }
}
