//! A journal event by event: whoever shows one step of a long trial holds one line of it.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use proctor_types::{Envelope, with_causes};
use serde::Deserialize;

use crate::{
    BadLine, RecordError,
    reading::{ended, without_sum},
};

/// The lines of a journal, in order. A torn last line ends them; it may be in the middle of being written.
#[derive(Debug)]
pub struct Events {
    path: PathBuf,
    reader: BufReader<File>,
    line: usize,
}

/// One whole line.
#[derive(Debug)]
pub struct EventLine {
    /// Answers delivered so far.
    pub step: u64,
    /// The event's kind.
    pub kind: String,
    /// Counted from 1.
    pub line: usize,
    path: PathBuf,
    bytes: Vec<u8>,
}

/// What is read of every line.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    step: u64,
    kind: String,
}

impl Events {
    /// Opens a journal.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(path: impl AsRef<Path>) -> Result<Self, RecordError> {
        let path = path.as_ref().to_owned();
        let file =
            File::open(&path).map_err(RecordError::io(&path, "the journal cannot be read"))?;
        Ok(Self { path, reader: BufReader::with_capacity(1 << 16, file), line: 0 })
    }
}

impl Iterator for Events {
    /// A line that is damaged is told by place; those after it are read all the same.
    type Item = Result<EventLine, BadLine>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut bytes = Vec::new();
        let bad = |path: &Path, line: usize, why: String| BadLine {
            path: path.to_owned(),
            line,
            why,
            repeated: false,
        };
        self.reader.read_until(b'\n', &mut bytes).ok()?;
        let (line, _) = ended(&bytes)?;
        let whole = line.len();
        bytes.truncate(whole);
        self.line += 1;
        let head = without_sum(&bytes).and_then(|whole| {
            let head: Head = serde_json::from_slice(&whole).map_err(|error| with_causes(&error))?;
            Ok((head, whole))
        });
        Some(match head {
            Ok((head, bytes)) => Ok(EventLine {
                step: head.step,
                kind: head.kind,
                line: self.line,
                path: self.path.clone(),
                bytes,
            }),
            Err(why) => Err(bad(&self.path, self.line, why)),
        })
    }
}

impl EventLine {
    /// The whole event.
    ///
    /// # Errors
    /// It is not one of this version's form.
    pub fn event(&self) -> Result<Envelope, BadLine> {
        serde_json::from_slice(&self.bytes).map_err(|error| BadLine {
            path: self.path.clone(),
            line: self.line,
            why: format!("not an event of this format: {}", with_causes(&error)),
            repeated: false,
        })
    }
}
