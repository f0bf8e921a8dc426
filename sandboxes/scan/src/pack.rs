//! Reads every object in a Git pack and resolves deltas.

use std::collections::HashMap;

use flate2::{Decompress, FlushDecompress, Status};

/// Maximum total size of resolved objects to keep as bases for later ones, in bytes. If a delta's
/// base was dropped, the delta itself is scanned, because it contains the lines that it adds.
const MAX_KEPT_BYTES: usize = 48 << 20;

/// Maximum size of an object in bytes. Larger objects are truncated.
const MAX_OBJECT_BYTES: usize = 16 << 20;

/// The magic bytes, and the version without its last byte.
pub const MAGIC: &[u8] = b"PACK\0\0\0";

pub fn is_pack(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Calls `visit` with each object's content. Returns `false` if the pack is corrupt or more than
/// `limit` bytes were expanded.
pub fn visit_objects(bytes: &[u8], limit: u64, visit: &mut dyn FnMut(&[u8])) -> bool {
    let mut kept: HashMap<usize, Vec<u8>> = HashMap::new();
    let (mut kept_bytes, mut expanded) = (0, 0);
    let mut at = 12;
    let count = bytes.get(8..12).map_or(0, parse_big_endian);
    for _ in 0..count {
        let start = at;
        let Some((kind, mut body)) = read_header(bytes, at) else { return false };
        let base = match kind {
            6 => {
                let Some((distance, next)) = read_base_distance(bytes, body) else { return false };
                body = next;
                start.checked_sub(distance)
            }
            7 => {
                body += 20;
                None
            }
            _ => None,
        };
        let Some((content, used)) = inflate(bytes.get(body..).unwrap_or_default()) else {
            return false;
        };
        at = body + used;
        expanded += content.len() as u64;
        let whole = match base.and_then(|base| kept.get(&base)) {
            Some(base) => apply_delta(base, &content).unwrap_or(content),
            None => content,
        };
        visit(&whole);
        if expanded > limit {
            return false;
        }
        if kept_bytes + whole.len() <= MAX_KEPT_BYTES {
            kept_bytes += whole.len();
            kept.insert(start, whole);
        }
    }
    true
}

fn parse_big_endian(field: &[u8]) -> usize {
    field.iter().fold(0, |value, &byte| value << 8 | usize::from(byte))
}

/// Returns the type of the object at `at`, and the offset that follows its size.
fn read_header(bytes: &[u8], at: usize) -> Option<(u8, usize)> {
    let first = *bytes.get(at)?;
    let mut next = at + 1;
    let mut more = first & 0x80 != 0;
    while more {
        more = bytes.get(next)? & 0x80 != 0;
        next += 1;
    }
    Some((first >> 4 & 7, next))
}

/// Returns how far back a delta's base is, and the offset of the delta.
fn read_base_distance(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    let mut next = at + 1;
    while byte & 0x80 != 0 {
        byte = *bytes.get(next)?;
        value = value.checked_add(1)?.checked_mul(128)? | usize::from(byte & 0x7f);
        next += 1;
    }
    Some((value, next))
}

/// Returns the expanded content, truncated to [`MAX_OBJECT_BYTES`], and the number of bytes that it
/// took up in the pack.
fn inflate(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut inflater = Decompress::new(true);
    let mut content = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        let (read, written) = (inflater.total_in() as usize, inflater.total_out());
        let status =
            inflater.decompress(bytes.get(read..)?, &mut piece, FlushDecompress::None).ok()?;
        let got = (inflater.total_out() - written) as usize;
        let isolate = MAX_OBJECT_BYTES.saturating_sub(content.len());
        content.extend_from_slice(&piece[..got.min(isolate)]);
        if status == Status::StreamEnd {
            return Some((content, inflater.total_in() as usize));
        }
        if got == 0 && inflater.total_in() as usize == read {
            return None;
        }
    }
}

fn apply_delta(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let (_, at) = read_size(delta, 0)?;
    let (length, mut at) = read_size(delta, at)?;
    let mut out = Vec::with_capacity(length.min(MAX_OBJECT_BYTES));
    while let Some(&code) = delta.get(at) {
        at += 1;
        if code & 0x80 == 0 {
            out.extend_from_slice(delta.get(at..at + usize::from(code))?);
            at += usize::from(code);
        } else {
            let mut field = |bits: std::ops::Range<u8>| -> Option<usize> {
                let mut value = 0;
                for (shift, bit) in bits.enumerate() {
                    if code >> bit & 1 == 1 {
                        value |= usize::from(*delta.get(at)?) << (8 * shift);
                        at += 1;
                    }
                }
                Some(value)
            };
            let from = field(0..4)?;
            let count = match field(4..7)? {
                0 => 0x10000,
                count => count,
            };
            out.extend_from_slice(base.get(from..from.checked_add(count)?)?);
        }
        if out.len() > MAX_OBJECT_BYTES {
            return None;
        }
    }
    Some(out)
}

fn read_size(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = *bytes.get(at)?;
        value |= usize::from(byte & 0x7f).checked_shl(shift)?;
        at += 1;
        if byte & 0x80 == 0 {
            return Some((value, at));
        }
        shift += 7;
    }
}
