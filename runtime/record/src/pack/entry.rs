//! Encodes and decodes one entry of a pack.
//!
//! The layout is `marker kind hash stored plain payload check`. The four-byte marker lets a reader
//! resynchronize after corruption. `kind` is the encoding of the payload, and `hash` is the BLAKE3
//! of the content. `stored` and `plain` are the payload's stored and unpacked lengths (little
//! endian). `check` is the first eight bytes of the BLAKE3 of everything before it.

use std::io::{Read as _, Write as _};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};

pub(crate) type Hash = [u8; 32];

pub(super) const MARKER: [u8; 4] = [0xf5, b'P', b'K', 0x1a];
pub(super) const HEADER_BYTES: usize = 4 + 1 + 32 + 4 + 4;
pub(super) const CHECKSUM_BYTES: usize = 8;

/// Maximum payload length. Packs store no larger payloads, so a header with a greater length is
/// corrupt.
pub(super) const MAX_PAYLOAD_BYTES: u32 = 1 << 30;

/// Flag in the kind byte: the payload is compressed.
const DEFLATED_FLAG: u8 = 0x80;
/// Content smaller than this many bytes is not compressed, because the compression header would
/// outweigh the savings.
const MIN_DEFLATE_BYTES: usize = 64;

/// How a payload encodes the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PayloadKind {
    /// The payload is the content itself.
    Full,
    /// The content of another entry, with the middle replaced. The payload contains that entry's
    /// hash, the number of bytes to keep from its start and from its end (eight bytes each), and
    /// the new middle.
    Splice,
    /// A manifest, as the hash of the previous manifest and the changes in JSON.
    Changes,
}

impl PayloadKind {
    fn to_byte(self) -> u8 {
        match self {
            Self::Full => b'w',
            Self::Splice => b's',
            Self::Changes => b'c',
        }
    }
}

/// The header of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryHeader {
    pub(super) kind: PayloadKind,
    is_deflated: bool,
    pub(super) hash: Hash,
    stored_length: u32,
    plain_length: u32,
}

impl EntryHeader {
    /// Returns `None` if the bytes are not the header of an entry.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = (bytes.get(..HEADER_BYTES)?, MARKER.len());
        let kind = *head.get(rest)?;
        let length = |at: usize| -> Option<u32> {
            head.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
        };
        let read = Self {
            kind: match kind & !DEFLATED_FLAG {
                b'w' => PayloadKind::Full,
                b's' => PayloadKind::Splice,
                b'c' => PayloadKind::Changes,
                _ => return None,
            },
            is_deflated: kind & DEFLATED_FLAG != 0,
            hash: head.get(5..37)?.try_into().ok()?,
            stored_length: length(37)?,
            plain_length: length(41)?,
        };
        let right = head.starts_with(&MARKER)
            && read.stored_length <= MAX_PAYLOAD_BYTES
            && read.plain_length <= MAX_PAYLOAD_BYTES;
        right.then_some(read)
    }

    /// Returns the size of the whole entry in bytes.
    pub(super) fn length(&self) -> usize {
        HEADER_BYTES + self.stored_length as usize + CHECKSUM_BYTES
    }

    /// Returns the payload of a complete entry.
    pub(super) fn payload(&self, entry: &[u8]) -> Result<Vec<u8>, &'static str> {
        const CHECKSUM_MISMATCH: &str = "an entry does not match its checksum";
        let (signed, check) =
            entry.split_at_checked(entry.len() - CHECKSUM_BYTES).ok_or(CHECKSUM_MISMATCH)?;
        if checksum(signed) != check {
            return Err(CHECKSUM_MISMATCH);
        }
        let stored = signed.get(HEADER_BYTES..).ok_or(CHECKSUM_MISMATCH)?;
        if !self.is_deflated {
            return Ok(stored.to_vec());
        }
        let mut plain = Vec::with_capacity(self.plain_length as usize);
        let read =
            DeflateDecoder::new(stored).take(u64::from(MAX_PAYLOAD_BYTES)).read_to_end(&mut plain);
        read.map_err(|_| "an entry cannot be unpacked")?;
        Ok(plain)
    }
}

/// Returns the bytes of an entry. The payload is compressed if that makes it smaller.
pub(super) fn encode_entry(
    kind: PayloadKind,
    hash: &Hash,
    payload: &[u8],
) -> std::io::Result<Vec<u8>> {
    let packed = deflate(payload)?;
    let (mark, stored) = match packed.as_deref() {
        Some(packed) => (kind.to_byte() | DEFLATED_FLAG, packed),
        None => (kind.to_byte(), payload),
    };
    let mut entry = Vec::with_capacity(HEADER_BYTES + stored.len() + CHECKSUM_BYTES);
    entry.extend_from_slice(&MARKER);
    entry.push(mark);
    entry.extend_from_slice(hash);
    for length in [stored.len(), payload.len()] {
        let length = u32::try_from(length).ok().filter(|length| *length <= MAX_PAYLOAD_BYTES);
        let length = length.ok_or(std::io::ErrorKind::FileTooLarge)?;
        entry.extend_from_slice(&length.to_le_bytes());
    }
    entry.extend_from_slice(stored);
    entry.extend_from_slice(&checksum(&entry));
    Ok(entry)
}

fn deflate(payload: &[u8]) -> std::io::Result<Option<Vec<u8>>> {
    if payload.len() < MIN_DEFLATE_BYTES {
        return Ok(None);
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(payload)?;
    let packed = encoder.finish()?;
    Ok((packed.len() < payload.len()).then_some(packed))
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut sum = [0; CHECKSUM_BYTES];
    sum.copy_from_slice(&blake3::hash(bytes).as_bytes()[..CHECKSUM_BYTES]);
    sum
}

/// The payload of [`PayloadKind::Splice`].
pub(super) struct Splice<'a> {
    pub(super) base: Hash,
    pub(super) head_length: usize,
    pub(super) tail_length: usize,
    pub(super) middle: &'a [u8],
}

impl<'a> Splice<'a> {
    /// Returns the difference from `old` to `new`.
    pub(super) fn diff(base: Hash, old: &[u8], new: &'a [u8]) -> Self {
        let head_length = common_prefix_len(old, new);
        let most = old.len().min(new.len()) - head_length;
        let (olds, news) = (old.iter().rev(), new.iter().rev());
        let tail_length = olds.zip(news).take(most).take_while(|(old, new)| old == new).count();
        Self { base, head_length, tail_length, middle: &new[head_length..new.len() - tail_length] }
    }

    /// Returns the number of bytes that come from the base entry.
    pub(super) fn shared_len(&self) -> usize {
        self.head_length + self.tail_length
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut payload = self.base.to_vec();
        payload.extend_from_slice(&(self.head_length as u64).to_le_bytes());
        payload.extend_from_slice(&(self.tail_length as u64).to_le_bytes());
        payload.extend_from_slice(self.middle);
        payload
    }

    pub(super) fn decode(payload: &'a [u8]) -> Option<Self> {
        let number = |at: usize| -> Option<usize> {
            let bytes = payload.get(at..at + 8)?.try_into().ok()?;
            usize::try_from(u64::from_le_bytes(bytes)).ok()
        };
        Some(Self {
            base: payload.get(..32)?.try_into().ok()?,
            head_length: number(32)?,
            tail_length: number(40)?,
            middle: payload.get(48..)?,
        })
    }

    /// Returns the content, given the content of the base entry.
    pub(super) fn apply(&self, base_content: &[u8]) -> Option<Vec<u8>> {
        let tail = base_content.len().checked_sub(self.tail_length)?;
        let (head, tail) = (base_content.get(..self.head_length)?, base_content.get(tail..)?);
        Some([head, self.middle, tail].concat())
    }
}

/// Returns the length of the common prefix. Compares whole chunks first, so the speed is limited
/// only by memory access.
fn common_prefix_len(old: &[u8], new: &[u8]) -> usize {
    const CHUNK_BYTES: usize = 1024;
    let chunks = old.chunks_exact(CHUNK_BYTES).zip(new.chunks_exact(CHUNK_BYTES));
    let at = chunks.take_while(|(old, new)| old == new).count() * CHUNK_BYTES;
    at + old[at..].iter().zip(&new[at..]).take_while(|(old, new)| old == new).count()
}
