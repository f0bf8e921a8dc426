//! Reads zip archives (wheels, eggs, conda packages) through their central directory.

use crate::expand::{Expansion, Method, expand};

const END_MAGIC: &[u8] = b"PK\x05\x06";

/// Maximum distance between the start of the end record and the end of the file: the record's own
/// size plus the longest comment.
const MAX_END_DISTANCE: usize = 22 + 0xffff;

/// Returns the offset of the end record. A file with an end record is a zip archive, whatever it
/// starts with.
pub fn find_end_record(bytes: &[u8]) -> Option<usize> {
    let exact = bytes.len().checked_sub(22)?;
    if bytes[exact..].starts_with(END_MAGIC) {
        return Some(exact);
    }
    // A comment may follow the record. Search for it only if the file starts like an archive:
    // searching every file would cost more than the rest of the scan.
    if !bytes.starts_with(b"PK") {
        return None;
    }
    let from = bytes.len().saturating_sub(MAX_END_DISTANCE);
    bytes[from..].windows(4).rposition(|four| four == END_MAGIC).map(|at| from + at)
}

/// One file in an archive.
pub struct Entry<'a> {
    pub name: &'a [u8],
    method: u16,
    body: &'a [u8],
}

impl Entry<'_> {
    pub fn expand_content(&self, limit: u64) -> Expansion {
        match self.method {
            0 if self.body.len() as u64 > limit => {
                Expansion::Truncated(self.body[..limit as usize].to_vec())
            }
            0 => Expansion::Whole(self.body.to_vec()),
            8 => expand(Method::Deflate, self.body, limit),
            12 => expand(Method::Bzip2, self.body, limit),
            93 => expand(Method::Zstd, self.body, limit),
            95 => expand(Method::Xz, self.body, limit),
            _ => Expansion::Damaged,
        }
    }
}

/// Returns the entries before the first corrupt directory record.
pub fn entries(bytes: &[u8], end: usize) -> Vec<Entry<'_>> {
    read_directory(bytes, end).unwrap_or_default()
}

fn read_directory(bytes: &[u8], end: usize) -> Option<Vec<Entry<'_>>> {
    let size = parse_number(bytes, end + 12, 4)?;
    let claimed = parse_number(bytes, end + 16, 4)?;
    // Correct the offsets: if other data precedes the archive, such as a shebang line or a program,
    // all offsets are shifted.
    let directory =
        end.checked_sub(size).filter(|at| parse_number(bytes, *at, 4) == Some(0x0201_4b50));
    let directory = directory.unwrap_or(claimed);
    let shift = directory.saturating_sub(claimed);
    let mut entries = Vec::new();
    let mut at = directory;
    while parse_number(bytes, at, 4) == Some(0x0201_4b50) {
        let field = |offset, length| parse_number(bytes, at + offset, length);
        let (name, extra, comment) = (field(28, 2)?, field(30, 2)?, field(32, 2)?);
        let entry = (|| {
            let (method, size) = (field(10, 2)?, field(20, 4)?);
            let local = field(42, 4)?.checked_add(shift)?;
            let start = local
                + 30
                + parse_number(bytes, local + 26, 2)?
                + parse_number(bytes, local + 28, 2)?;
            Some(Entry {
                name: bytes.get(at + 46..at + 46 + name)?,
                method: method as u16,
                body: bytes.get(start..start.checked_add(size)?)?,
            })
        })();
        entries.extend(entry);
        at += 46 + name + extra + comment;
    }
    Some(entries)
}

fn parse_number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(length)?)?;
    Some(field.iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte)))
}
