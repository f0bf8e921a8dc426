//! Content by its hash: snapshots' files, long outputs, manifests.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use crate::RecordError;

/// A folder of blobs, `ab/cdef...` below its root; the name is the BLAKE3 of the content.
///
/// Any number of processes may write at once: a blob appears whole by a rename. Blobs are not
/// synced one by one (a snapshot has thousands); a blob that a power cut tore no longer matches
/// its name, is refused by [`Blobs::get`] and written anew by the next [`Blobs::put`].
#[derive(Debug, Clone)]
pub struct Blobs {
    root: PathBuf,
}

impl Blobs {
    /// The folder is made when the first blob is put.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The hash that `put` would return.
    pub fn hash(bytes: &[u8]) -> String {
        blake3::hash(bytes).to_hex().to_string()
    }

    /// Keeps the bytes and returns their hash: 64 lower-case hex digits.
    pub fn put(&self, bytes: &[u8]) -> Result<String, RecordError> {
        let hash = Self::hash(bytes);
        let path = self.path(&hash)?;
        if fs::metadata(&path).is_ok_and(|found| found.len() == bytes.len() as u64) {
            return Ok(hash);
        }
        let write = || {
            let folder = path.parent().unwrap_or(&self.root);
            fs::create_dir_all(folder)?;
            let mut temporary = tempfile::Builder::new().prefix(".tmp-").tempfile_in(folder)?;
            temporary.write_all(bytes)?;
            temporary.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(RecordError::io(&path, "cannot be written"))?;
        Ok(hash)
    }

    /// The bytes, checked against their name.
    pub fn get(&self, hash: &str) -> Result<Vec<u8>, RecordError> {
        let path = self.path(hash)?;
        let bytes = fs::read(&path).map_err(RecordError::io(&path, "cannot be read"))?;
        if Self::hash(&bytes) != hash {
            return Err(RecordError::Corrupt {
                path,
                why: "the content does not match its name".into(),
                hint: "the disk damaged it; remove it and do the trial again",
            });
        }
        Ok(bytes)
    }

    pub fn has(&self, hash: &str) -> bool {
        self.path(hash).is_ok_and(|path| path.is_file())
    }

    /// Hashes come out of files that anyone may have written: one that is not 64 hex digits is
    /// refused before it becomes a path.
    fn path(&self, hash: &str) -> Result<PathBuf, RecordError> {
        let digits = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if hash.len() != 64 || !hash.bytes().all(digits) {
            return Err(RecordError::Misuse {
                path: self.root.clone(),
                why: format!("{hash:?} is not the name of a blob"),
            });
        }
        let (head, tail) = hash.split_at(2);
        Ok(self.root.join(head).join(tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_found_by_its_hash_and_put_once() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::at(folder.path());
        let hash = blobs.put(b"hello").unwrap();
        assert_eq!(hash, blobs.put(b"hello").unwrap());
        assert_eq!(blobs.get(&hash).unwrap(), b"hello");
        assert!(blobs.has(&hash));
        assert!(!blobs.has(&Blobs::hash(b"other")));
        let files = fs::read_dir(folder.path().join(&hash[..2])).unwrap().count();
        assert_eq!(files, 1, "no temporary file stays");
    }

    #[test]
    fn a_torn_blob_is_refused_and_repaired() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::at(folder.path());
        let hash = blobs.put(b"hello").unwrap();
        let path = folder.path().join(&hash[..2]).join(&hash[2..]);
        fs::write(&path, b"hel").unwrap();
        let error = blobs.get(&hash).unwrap_err().to_string();
        assert!(error.contains("does not match its name"), "{error}");
        blobs.put(b"hello").unwrap();
        assert_eq!(blobs.get(&hash).unwrap(), b"hello");
    }

    #[test]
    fn a_name_that_is_no_hash_never_becomes_a_path() {
        let blobs = Blobs::at("/nowhere");
        for name in ["../../etc/passwd", "", "ab", &"A".repeat(64)] {
            assert!(matches!(blobs.get(name), Err(RecordError::Misuse { .. })), "{name}");
        }
    }
}
