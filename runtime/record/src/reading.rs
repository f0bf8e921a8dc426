//! Reading a journal: all that was kept, and by name what was not.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use proctor_types::Envelope;

use crate::RecordError;

/// What a journal holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub events: Vec<Envelope>,
    /// The last line is not whole: the writer was killed in mid-write. It is not in `events`.
    pub torn: bool,
    /// Any other line that does not match its sum or is not an event.
    pub bad_lines: Vec<BadLine>,
    /// Bytes before the torn line.
    pub whole_bytes: u64,
}

/// A damaged line, by place. Prints as a sentence with a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    pub path: PathBuf,
    /// Counted from 1.
    pub line: usize,
    pub why: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.why)
    }
}

/// Reads a journal. Kinds of a later version come back as `Event::Unknown`.
///
/// # Errors
/// Only that the file cannot be read; damage is part of the [`Reading`].
pub fn read_journal(path: impl AsRef<Path>) -> Result<Reading, RecordError> {
    let path = path.as_ref();
    let bytes = fs::read(path).map_err(RecordError::io(path, "the journal cannot be read"))?;
    Ok(parse(path, &bytes))
}

/// Puts the sum into a line of JSON and ends it. The sum is the last key, so that the line
/// without it is plain text surgery, whatever the JSON says.
pub(crate) fn leak_check(line: &str) -> String {
    let body = line.strip_suffix('}').unwrap_or(line);
    format!("{body},\"sum\":\"{}\"}}\n", sum(line.as_bytes()))
}

fn sum(line: &[u8]) -> String {
    blake3::hash(line).to_hex()[..16].to_owned()
}

/// The line without its sum, where the sum is right.
fn unharden(line: &[u8]) -> Result<Vec<u8>, String> {
    const TAIL: usize = ",\"sum\":\"0123456789abcdef\"}".len();
    let no_sum = || "the line has no checksum at its end".to_owned();
    let at = line.len().checked_sub(TAIL).ok_or_else(no_sum)?;
    let (body, tail) = line.split_at(at);
    let claimed = tail
        .strip_prefix(b",\"sum\":\"")
        .and_then(|tail| tail.strip_suffix(b"\"}"))
        .ok_or_else(no_sum)?;
    let mut whole = body.to_vec();
    whole.push(b'}');
    if sum(&whole).as_bytes() != claimed {
        return Err("the line does not match its checksum".into());
    }
    Ok(whole)
}

pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Reading {
    let mut reading =
        Reading { events: Vec::new(), torn: false, bad_lines: Vec::new(), whole_bytes: 0 };
    let mut expected = 1;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let Some(line) = line.strip_suffix(b"\n") else {
            reading.torn = true;
            break;
        };
        reading.whole_bytes += line.len() as u64 + 1;
        let bad = |why: String| BadLine { path: path.to_owned(), line: index + 1, why };
        let event = unharden(line).and_then(|whole| {
            serde_json::from_slice::<Envelope>(&whole)
                .map_err(|error| format!("not an event of this format: {error}"))
        });
        match event {
            Ok(event) => {
                if event.seq != expected && reading.bad_lines.is_empty() {
                    let why = format!("event {} stands where {expected} should", event.seq);
                    reading.bad_lines.push(bad(why));
                }
                expected = event.seq + 1;
                reading.events.push(event);
            }
            Err(why) => {
                expected += 1;
                let hint = "the disk or an editor changed it; the other lines are kept";
                reading.bad_lines.push(bad(format!("{why} ({hint})")));
            }
        }
    }
    reading
}
