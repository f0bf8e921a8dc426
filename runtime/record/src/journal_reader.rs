//! Reads a journal. Returns all intact events and a list of corrupt lines.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use proctor_types::{Envelope, format_error_chain, one_line};
use serde_json::value::RawValue;

use crate::{RecordError, disk};

/// The contents of a journal.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalContents {
    pub events: Vec<Envelope>,
    /// Whether the last line is incomplete because the writer was killed. That line is not in
    /// `events`.
    pub is_torn: bool,
    /// Whether the last line is complete except for its newline.
    pub lacks_final_newline: bool,
    /// All other corrupt lines: those that do not match their checksum, are not events, or are out
    /// of order.
    pub bad_lines: Vec<BadLine>,
    /// Number of bytes up to the end of the last complete line. Does not count a missing newline.
    pub complete_bytes: u64,
}

/// A corrupt line and its position. Its `Display` output contains the position and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    pub path: PathBuf,
    /// The line number, counted from 1.
    pub line: usize,
    pub reason: String,
    /// Whether the line repeats the previous one. Such a line is skipped without loss.
    pub is_repeated: bool,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, one_line(&self.reason))
    }
}

impl JournalContents {
    /// Returns the first line whose event is lost. Repeated lines lose no event.
    pub fn first_lost_line(&self) -> Option<&BadLine> {
        self.bad_lines.iter().find(|bad| !bad.is_repeated)
    }
}

/// Reads a journal. An event whose kind was added by a later version is returned as
/// `Event::Unknown`. An event of a known kind with invalid fields is a bad line.
///
/// # Errors
/// Fails if the file cannot be read. Corruption is not an error, but part of the
/// [`JournalContents`].
pub fn read_journal(path: impl AsRef<Path>) -> Result<JournalContents, RecordError> {
    let path = path.as_ref();
    let bytes = disk::read_regular_file(path)
        .map_err(RecordError::io(path, "the journal cannot be read"))?;
    Ok(parse_journal(path, &bytes))
}

/// Adds the checksum and a newline to a line of JSON. The checksum is the last key, so that it can
/// be removed without parsing the line.
pub(crate) fn add_checksum(line: &str) -> String {
    let body = line.strip_suffix('}').unwrap_or(line);
    format!("{body},\"sum\":\"{}\"}}\n", line_checksum(line.as_bytes()))
}

fn line_checksum(line: &[u8]) -> String {
    blake3::hash(line).to_hex()[..16].to_owned()
}

/// Returns the line without its checksum. Fails if the checksum is invalid.
pub(crate) fn strip_checksum(line: &[u8]) -> Result<Vec<u8>, String> {
    const CHECKSUM_FIELD_BYTES: usize = ",\"sum\":\"0123456789abcdef\"}".len();
    let no_sum = || "the line has no checksum".to_owned();
    let at = line.len().checked_sub(CHECKSUM_FIELD_BYTES).ok_or_else(no_sum)?;
    let (body, tail) = line.split_at(at);
    let claimed = tail
        .strip_prefix(b",\"sum\":\"")
        .and_then(|tail| tail.strip_suffix(b"\"}"))
        .ok_or_else(no_sum)?;
    let mut whole = body.to_vec();
    whole.push(b'}');
    if line_checksum(&whole).as_bytes() != claimed {
        return Err("the line does not match its checksum".into());
    }
    Ok(whole)
}

/// The result of scanning a journal's lines.
#[derive(Debug, Default)]
pub(crate) struct JournalScan {
    /// See [`JournalContents::is_torn`].
    pub(crate) is_torn: bool,
    lacks_final_newline: bool,
    /// The highest try number of any line, counted from 1, or 0 if there are no lines.
    pub(crate) try_number: u32,
    pub(crate) bad_lines: Vec<BadLine>,
    complete_bytes: u64,
}

impl JournalScan {
    /// Returns the first line whose event is lost.
    pub(crate) fn first_lost_line(&self) -> Option<&BadLine> {
        self.bad_lines.iter().find(|bad| !bad.is_repeated)
    }
}

pub(crate) fn parse_journal(path: &Path, bytes: &[u8]) -> JournalContents {
    let mut events = Vec::new();
    let scan = scan_lines(
        path,
        bytes,
        |line| {
            let event: Envelope = serde_json::from_slice(line)?;
            Ok((LineNumbers { seq: event.seq, try_number: event.try_number }, event))
        },
        |event| events.push(event),
    );
    let JournalScan {
        is_torn: torn,
        lacks_final_newline: unended,
        bad_lines,
        complete_bytes: whole_bytes,
        ..
    } = scan;
    JournalContents {
        events,
        is_torn: torn,
        lacks_final_newline: unended,
        bad_lines,
        complete_bytes: whole_bytes,
    }
}

/// The sequence and try numbers of a line.
pub(crate) struct LineNumbers {
    pub(crate) seq: u64,
    pub(crate) try_number: u32,
}

/// Returns a line without its newline, and whether the newline was there. Returns `None` if the
/// line is incomplete. A last line without a newline is complete if its checksum is valid.
pub(crate) fn split_newline(line: &[u8]) -> Option<(&[u8], bool)> {
    match line.strip_suffix(b"\n") {
        Some(line) => Some((line, true)),
        None => strip_checksum(line).is_ok().then_some((line, false)),
    }
}

/// Checks every line, and passes the result of `parse_line` for each line to `accept_line`, in
/// order.
pub(crate) fn scan_lines<T>(
    path: &Path,
    bytes: &[u8],
    parse_line: impl Fn(&[u8]) -> Result<(LineNumbers, T), serde_json::Error>,
    mut accept_line: impl FnMut(T),
) -> JournalScan {
    let mut scan = JournalScan::default();
    let (mut expected, mut last) = (1, None);
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let Some((line, newline)) = split_newline(line) else {
            scan.is_torn = true;
            break;
        };
        scan.lacks_final_newline = !newline;
        scan.complete_bytes += line.len() as u64 + u64::from(newline);
        let bad = |why: String, repeated| BadLine {
            path: path.to_owned(),
            line: index + 1,
            reason: why,
            is_repeated: repeated,
        };
        let event = strip_checksum(line)
            .map_err(|why| {
                format!(
                    "{why} (a disk error or an editor changed the line; the other lines are kept)"
                )
            })
            .and_then(|whole| {
                parse_line(&whole).map_err(|error| {
                    let hint = "the checksum is valid, so another version of Proctor wrote it";
                    let why = format_error_chain(&error);
                    format!("not an event of this format: {why} ({hint})")
                })
            });
        match event {
            Ok(_) if last == Some(line) => {
                scan.bad_lines.push(bad("repeats the previous line".into(), true));
            }
            Ok((LineNumbers { seq, try_number }, event)) => {
                scan.try_number = scan.try_number.max(try_number);
                if seq != expected && !scan.bad_lines.iter().any(|bad| !bad.is_repeated) {
                    let why = format!("expected event {expected}, found event {seq}");
                    scan.bad_lines.push(bad(why, false));
                }
                // The number in a corrupt line may be wrong, so continue from the number found.
                expected = seq.saturating_add(1);
                last = Some(line);
                accept_line(event);
            }
            Err(why) => {
                expected = expected.saturating_add(1);
                scan.bad_lines.push(bad(why, false));
            }
        }
    }
    scan
}

/// Returns the text of one field of the last line, exactly as written, so that numbers keep their
/// digits.
pub(crate) fn last_line_field(bytes: &[u8], field: &str) -> Option<String> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let (line, _) = lines.filter_map(split_newline).next_back()?;
    let whole = strip_checksum(line).ok()?;
    let fields: BTreeMap<&str, &RawValue> = serde_json::from_slice(&whole).ok()?;
    fields.get(field).map(|text| text.get().to_owned())
}
