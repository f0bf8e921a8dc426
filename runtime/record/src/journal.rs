//! Writes the journal, an append-only file with one JSON line per event. A journal has one writer.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use proctor_types::{EVENT_VERSION, Envelope, Event, one_line};

use crate::{
    RecordError, disk,
    error::RESTORE_FROM_COPY_HINT,
    journal_reader::{self, add_checksum},
};

/// The writer of one `trajectory.jsonl`.
///
/// A complete line is passed to the kernel before `append` returns, so it is not lost if this
/// process ends. With [`Journal::append_durable`], it also survives a machine crash. The file is
/// locked while the writer exists.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    try_number: u32,
    next_seq: u64,
    /// Total size of the complete lines in bytes.
    length: u64,
    /// The try's clock when this writer started, in seconds.
    clock_offset: f64,
    start: Instant,
    /// Whether a failed write left data that could not be truncated.
    is_broken: bool,
}

impl Journal {
    /// Creates the journal for a try, counted from 1. The file must not exist.
    pub fn create(path: impl Into<PathBuf>, try_number: u32) -> Result<Self, RecordError> {
        let path = path.into();
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(RecordError::io(&path, "the journal cannot be created"))?;
        lock_journal(&file, &path)?;
        Ok(Self::from_parts(file, path, try_number, 1, 0, 0.0))
    }

    /// Opens an existing journal, whose event numbering continues. If only the last line's newline
    /// is missing, adds it. Otherwise, removes an incomplete last line. The try's clock continues
    /// from the last event, so only `t_wall` includes the time in between.
    ///
    /// # Errors
    /// Fails if a line other than the last is corrupt, because new lines would hide the corruption.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, RecordError> {
        let path = path.into();
        let mut file = disk::open_with(OpenOptions::new().read(true).append(true), &path)
            .map_err(RecordError::io(&path, "the journal cannot be opened"))?;
        lock_journal(&file, &path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(RecordError::io(&path, "cannot be read"))?;
        let reading = journal_reader::parse_journal(&path, &bytes);
        if let Some(bad) = reading.bad_lines.first() {
            let why = format!("line {}: {}", bad.line, one_line(&bad.reason));
            return Err(RecordError::Corrupt { path, why, hint: RESTORE_FROM_COPY_HINT });
        }
        let mut length = reading.complete_bytes;
        if reading.is_torn {
            file.set_len(length)
                .map_err(RecordError::io(&path, "the incomplete last line cannot be removed"))?;
            file.sync_data().map_err(RecordError::io(&path, "cannot be synced"))?;
        }
        if reading.lacks_final_newline {
            file.write_all(b"\n")
                .map_err(RecordError::io(&path, "the last line cannot be completed"))?;
            length += 1;
        }
        file.seek(SeekFrom::End(0)).map_err(RecordError::io(&path, "cannot be read"))?;
        let last = reading.events.last();
        let (try_number, seq, offset) =
            last.map_or((1, 0, 0.0), |last| (last.try_number, last.seq, last.t_mono));
        Ok(Self::from_parts(file, path, try_number, seq + 1, length, offset))
    }

    /// Creates the journal for a try that starts with events of another trial. The events are
    /// renumbered, but keep their times and steps.
    pub fn create_with_events(
        path: impl Into<PathBuf>,
        try_number: u32,
        events: impl IntoIterator<Item = Envelope>,
    ) -> Result<(), RecordError> {
        let path = path.into();
        let mut lines = String::new();
        for (envelope, seq) in events.into_iter().zip(1..) {
            let envelope = Envelope { seq, try_number, ..envelope };
            let line = serde_json::to_string(&envelope).map_err(|error| RecordError::Misuse {
                path: path.clone(),
                why: format!("event {seq} is not JSON: {error}"),
            })?;
            lines.push_str(&add_checksum(&line));
        }
        disk::write_atomically(&path, lines.as_bytes())
    }

    fn from_parts(
        file: File,
        path: PathBuf,
        try_number: u32,
        next_seq: u64,
        length: u64,
        clock_offset: f64,
    ) -> Self {
        let start = Instant::now();
        Self { file, path, try_number, next_seq, length, clock_offset, start, is_broken: false }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn try_number(&self) -> u32 {
        self.try_number
    }

    /// Appends one event and returns its `seq`. `step` is the number of responses delivered so far.
    ///
    /// # Errors
    /// Fails if the line cannot be written. The partial line is removed, so a later append is safe.
    /// If the removal fails too, every later append is rejected.
    pub fn append(&mut self, step: u64, event: Event) -> Result<u64, RecordError> {
        if self.is_broken {
            return Err(RecordError::Misuse {
                path: self.path.clone(),
                why: "an earlier event was only partially written".into(),
            });
        }
        let seq = self.next_seq;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let envelope = Envelope {
            v: EVENT_VERSION,
            seq,
            try_number: self.try_number,
            step,
            t_mono: round_to_microseconds(self.clock_offset + self.start.elapsed().as_secs_f64()),
            t_wall: round_to_microseconds(since_epoch.as_secs_f64()),
            event,
        };
        let line = serde_json::to_string(&envelope).map_err(|error| RecordError::Misuse {
            path: self.path.clone(),
            why: format!("event {seq} is not JSON: {error}"),
        })?;
        let line = add_checksum(&line);
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            self.is_broken = self.file.set_len(self.length).is_err();
            return Err(RecordError::io(&self.path, "an event cannot be written")(error));
        }
        self.length += line.len() as u64;
        self.next_seq += 1;
        Ok(seq)
    }

    /// Calls [`Journal::append`], then `fdatasync`. Use this method for model responses, which cost
    /// money, and for outcomes, which end the trial. Takes a few milliseconds on a disk.
    pub fn append_durable(&mut self, step: u64, event: Event) -> Result<u64, RecordError> {
        let seq = self.append(step, event)?;
        self.file.sync_data().map_err(RecordError::io(&self.path, "cannot be synced"))?;
        Ok(seq)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Unlock explicitly. Closing the file is not enough, because a new child process shares the
        // descriptor and would keep the lock until it calls `exec`.
        let _ = self.file.unlock();
    }
}

/// Rounds to microseconds, which makes lines shorter. The clocks are not more precise.
fn round_to_microseconds(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

fn lock_journal(file: &File, path: &Path) -> Result<(), RecordError> {
    match disk::lock_file(file) {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(RecordError::Locked {
            path: path.to_owned(),
            holder: "the journal's writer".into(),
        }),
        // If the file system does not support locks, only the trial's claim keeps other writers
        // out.
        Err(TryLockError::Error(_)) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    #[test]
    fn journal_can_be_reopened_while_a_child_shares_its_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trajectory.jsonl");
        let journal = Journal::create(&path, 1).unwrap();
        let shared = journal.file.try_clone().unwrap();
        drop(journal);
        drop(Journal::open(&path).unwrap());
        drop(shared);
    }

    #[test]
    fn open_waits_for_a_brief_lock_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trajectory.jsonl");
        drop(Journal::create(&path, 1).unwrap());
        let holder = File::open(&path).unwrap();
        holder.lock().unwrap();
        let passing = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(holder);
        });
        assert!(Journal::open(&path).is_ok());
        passing.join().unwrap();
        let writer = Journal::open(&path).unwrap();
        assert!(matches!(Journal::open(&path), Err(RecordError::Locked { .. })));
        drop(writer);
    }
}
