//! Reads a journal event by event, so that only one line of a long trial is in memory at a time.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use memchr::memmem;
use proctor_types::{Envelope, format_error_chain};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    BadLine, RecordError, disk,
    journal_reader::{split_newline, strip_checksum},
};

/// Iterates over a journal's lines, in order. An incomplete last line is not returned, because its
/// writer may not have finished it.
#[derive(Debug)]
pub struct EventReader {
    path: PathBuf,
    reader: BufReader<File>,
    line_count: usize,
    /// Offset of the next line in the journal, in bytes.
    offset: u64,
}

/// One complete line.
#[derive(Debug)]
pub struct EventLine {
    /// Number of responses delivered so far.
    pub step: u64,
    /// The time since the try started, in seconds.
    pub t_mono: f64,
    /// Seconds since the Unix epoch.
    pub t_wall: f64,
    /// The kind of the event.
    pub kind: String,
    /// The line number, counted from 1.
    pub line: usize,
    /// Offset of the line in the journal, in bytes.
    pub offset: u64,
    path: PathBuf,
    bytes: Vec<u8>,
}

/// The fields that are parsed for every line.
#[derive(Deserialize)]
struct EventHead {
    #[serde(default)]
    step: u64,
    #[serde(default)]
    t_mono: f64,
    #[serde(default)]
    t_wall: f64,
    kind: String,
}

/// Proctor writes a line's kind within this many bytes.
const MAX_HEAD_BYTES: usize = 256;

impl EventHead {
    /// Reads the head of a line. The kind is the first field after the numbers, so the rest of the
    /// line need not be parsed, and a line with a megabyte of output takes no longer than a short
    /// one. Only a line with a different key order is parsed completely.
    fn parse(line: &[u8]) -> Result<Self, serde_json::Error> {
        const KIND_KEY: &[u8] = b",\"kind\":\"";
        let near = &line[..line.len().min(MAX_HEAD_BYTES)];
        let end = memmem::find(near, KIND_KEY).and_then(|at| {
            let word = at + KIND_KEY.len();
            Some(word + memchr::memchr(b'"', &near[word..])?)
        });
        if let Some(end) = end {
            let mut head = near[..=end].to_vec();
            head.push(b'}');
            if let Ok(head) = serde_json::from_slice(&head) {
                return Ok(head);
            }
        }
        serde_json::from_slice(line)
    }
}

impl EventReader {
    /// Opens a journal.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RecordError> {
        Self::open_at(path, 0, 0)
    }

    /// Opens a journal at a line that starts at byte `offset`, with `lines_before` lines before it.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn open_at(
        path: impl AsRef<Path>,
        offset: u64,
        lines_before: usize,
    ) -> Result<Self, RecordError> {
        let path = path.as_ref().to_owned();
        let failed = RecordError::io(&path, "the journal cannot be read");
        let opened = disk::open_regular_file(&path).and_then(|mut file| {
            file.seek(SeekFrom::Start(offset))?;
            Ok(file)
        });
        let reader = BufReader::with_capacity(1 << 16, opened.map_err(failed)?);
        Ok(Self { path, reader, line_count: lines_before, offset })
    }

    /// Returns the offset, in bytes, of the end of the last complete line that was read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of complete lines read so far, including lines before the start offset.
    pub fn line_count(&self) -> usize {
        self.line_count
    }
}

impl Iterator for EventReader {
    /// A corrupt line is returned as an error with its position. The lines after it are still read.
    type Item = Result<EventLine, BadLine>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut bytes = Vec::new();
        let bad = |path: &Path, line: usize, why: String| BadLine {
            path: path.to_owned(),
            line,
            reason: why,
            is_repeated: false,
        };
        self.reader.read_until(b'\n', &mut bytes).ok()?;
        let (line, newline) = split_newline(&bytes)?;
        let whole = line.len();
        bytes.truncate(whole);
        self.line_count += 1;
        let at = self.offset;
        self.offset += whole as u64 + u64::from(newline);
        let head = strip_checksum(&bytes).and_then(|whole| {
            let head = EventHead::parse(&whole).map_err(|error| format_error_chain(&error))?;
            Ok((head, whole))
        });
        Some(match head {
            Ok((head, bytes)) => Ok(EventLine {
                step: head.step,
                t_mono: head.t_mono,
                t_wall: head.t_wall,
                kind: head.kind,
                line: self.line_count,
                offset: at,
                path: self.path.clone(),
                bytes,
            }),
            Err(why) => Err(bad(&self.path, self.line_count, why)),
        })
    }
}

impl EventLine {
    /// Parses the complete event.
    ///
    /// # Errors
    /// Fails if the line does not match this version's event format.
    pub fn parse_event(&self) -> Result<Envelope, BadLine> {
        self.parse_fields()
    }

    /// Parses only the fields that `T` has.
    ///
    /// # Errors
    /// Fails in the same cases as [`EventLine::parse_event`].
    pub fn parse_fields<T: DeserializeOwned>(&self) -> Result<T, BadLine> {
        serde_json::from_slice(&self.bytes).map_err(|error| BadLine {
            path: self.path.clone(),
            line: self.line,
            reason: format!("not an event of this format: {}", format_error_chain(&error)),
            is_repeated: false,
        })
    }

    /// Returns the line without its checksum, as JSON.
    pub fn json(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::Event;
    use serde_json::json;

    use super::*;
    use crate::Journal;

    #[test]
    fn event_reader_finds_a_line_by_its_offset() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trajectory.jsonl");
        let mut journal = Journal::create(&path, 1).unwrap();
        // The fields of a note must not be mistaken for fields of the line.
        for note in
            [json!({"a": ",\"kind\":\"x\""}), json!({"b": {"a": 1, "kind": "y"}}), json!({})]
        {
            let note = note.as_object().unwrap().clone();
            journal.append(7, Event::Noted { note }).unwrap();
        }
        let lines: Vec<EventLine> =
            EventReader::open(&path).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(lines.len(), 3);
        for (line, number) in lines.iter().zip(1..) {
            assert_eq!((line.kind.as_str(), line.step, line.line), ("noted", 7, number));
            let again = EventReader::open_at(&path, line.offset, line.line - 1).unwrap().next();
            let again = again.unwrap().unwrap();
            assert_eq!((again.line, again.json()), (line.line, line.json()));
        }
        let mut read = EventReader::open(&path).unwrap();
        assert_eq!(read.by_ref().count(), 3);
        assert_eq!((read.offset(), read.line_count()), (path.metadata().unwrap().len(), 3));
    }

    #[test]
    fn event_head_is_parsed_with_keys_in_any_order() {
        for (line, kind) in [
            (r#"{"v":2,"step":3,"kind":"noted","note":{}}"#, "noted"),
            (r#"{"note":{"a":1,"kind":"x"},"step":3,"kind":"noted"}"#, "noted"),
            (r#"{"kind":"noted","step":3}"#, "noted"),
        ] {
            let head = EventHead::parse(line.as_bytes()).unwrap();
            assert_eq!((head.kind.as_str(), head.step), (kind, 3), "{line}");
        }
        assert!(EventHead::parse(b"{\"step\":1}").is_err());
    }
}
