//! Binary patches: zlib, Git's delta instructions and blob ids.

use std::io::{Read as _, Write as _};

use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use sha1::{Digest as _, Sha1};

use crate::patch::BinaryData;

/// Limit on the uncompressed size in bytes of one file in a patch. Without this limit, a few
/// kilobytes of zlib data could fill a disk.
pub(crate) const MAX_FILE_BYTES: usize = 256 << 20;

/// Limit on the total size in bytes of all files in one patch. Without this limit, a patch of a few
/// kilobytes could describe terabytes.
pub(crate) const MAX_PATCH_BYTES: usize = 512 << 20;

pub(crate) fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// Decompresses exactly `size` bytes.
pub(crate) fn inflate(compressed: &[u8], size: usize) -> Result<Vec<u8>, String> {
    if size > MAX_FILE_BYTES {
        return Err(format!("{size} bytes of binary data exceed the limit of {MAX_FILE_BYTES}"));
    }
    let mut out = Vec::new();
    ZlibDecoder::new(compressed)
        .take(size as u64 + 1)
        .read_to_end(&mut out)
        .map_err(|error| format!("cannot decompress the binary data: {error}"))?;
    if out.len() != size {
        return Err(format!("the binary data does not have the declared size of {size} bytes"));
    }
    Ok(out)
}

pub(crate) fn apply_binary_data(data: &BinaryData, source: &[u8]) -> Result<Vec<u8>, String> {
    match data {
        BinaryData::Literal(bytes) => Ok(bytes.clone()),
        BinaryData::Delta(delta) => apply_delta(delta, source),
    }
}

/// Applies a delta in Git's pack format: two sizes, then instructions to copy from the source or to
/// insert bytes.
fn apply_delta(delta: &[u8], source: &[u8]) -> Result<Vec<u8>, String> {
    let cut = || "the delta is truncated".to_owned();
    let mut rest = delta.iter().copied();
    let mut size = || -> Option<usize> {
        let mut value = 0usize;
        for shift in (0..63).step_by(7) {
            let byte = rest.next()?;
            value |= usize::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    };
    let from = size().ok_or_else(cut)?;
    let to = size().ok_or_else(cut)?;
    if from != source.len() {
        return Err(format!(
            "the delta applies to a file of {from} bytes, but this file has {}",
            source.len()
        ));
    }
    if to > MAX_FILE_BYTES {
        return Err(format!("a result of {to} bytes exceeds the limit of {MAX_FILE_BYTES}"));
    }
    let mut out = Vec::new();
    while let Some(op) = rest.next() {
        if op & 0x80 != 0 {
            let mut field = |bits: std::ops::Range<u8>| -> Result<usize, String> {
                let first = bits.start;
                bits.filter(|bit| op & (1 << bit) != 0).try_fold(0, |value, bit| {
                    let byte = rest.next().ok_or_else(cut)?;
                    Ok(value | usize::from(byte) << (8 * (bit - first)))
                })
            };
            let offset = field(0..4)?;
            let length = match field(4..7)? {
                0 => 0x10000,
                length => length,
            };
            let piece = source
                .get(offset..offset + length)
                .ok_or("the delta copies from beyond the end of the file")?;
            out.extend_from_slice(piece);
        } else if op > 0 {
            for _ in 0..op {
                out.push(rest.next().ok_or_else(cut)?);
            }
        } else {
            return Err("the delta contains an unknown instruction".into());
        }
        if out.len() > to {
            return Err("the delta produces more bytes than its header says".into());
        }
    }
    if out.len() != to {
        return Err("the delta produces fewer bytes than its header says".into());
    }
    Ok(out)
}

/// Returns the id that Git gives a blob. For a binary patch, `git apply` requires both full ids.
pub(crate) fn blob_id(bytes: &[u8]) -> String {
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {}\0", bytes.len()));
    hasher.update(bytes);
    proctor_types::hex(&hasher.finalize())
}

/// Returns whether content is binary by Git's rule: a NUL among the first 8000 bytes.
pub fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(8000).any(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blob_ids_match_git() {
        assert_eq!(blob_id(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(blob_id(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
    }

    #[test]
    fn delta_copies_and_inserts() {
        // 10 -> 7 bytes: copy 4 bytes from offset 2, then insert "xyz".
        let delta = [10, 7, 0b1001_0001, 2, 4, 3, b'x', b'y', b'z'];
        assert_eq!(apply_delta(&delta, b"0123456789").unwrap(), b"2345xyz");
        assert!(apply_delta(&delta, b"012345678").unwrap_err().contains("10 bytes"));
        assert!(apply_delta(&delta[..8], b"0123456789").is_err());
        assert!(apply_delta(&[10, 7, 0b1001_0001, 9, 4], b"0123456789").is_err());
        assert!(apply_delta(&[0, 7, 0], b"").is_err());
        assert!(apply_delta(&[0xff; 20], b"").is_err());
    }

    #[test]
    fn unpacked_data_must_match_its_declared_size() {
        let packed = deflate(b"hello");
        assert_eq!(inflate(&packed, 5).unwrap(), b"hello");
        assert!(inflate(&packed, 4).is_err());
        assert!(inflate(&packed, 6).is_err());
        assert!(inflate(&packed, usize::MAX).is_err());
        assert!(inflate(b"junk", 4).is_err());
    }
}
