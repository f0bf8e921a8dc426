//! Reads the file server's clock. Clocks differ between machines, but the timestamps of files in
//! one directory come from one clock.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use crate::{disk, files::at};

/// How long a reading is used. Within it, the local clock measures the time since the reading.
const FRESH: Duration = Duration::from_secs(5);

/// Returns the time by the clock of the file server that stores the directory.
///
/// # Errors
/// Returns an error if the directory cannot be written.
pub fn now(folder: &Path) -> io::Result<SystemTime> {
    disk::written_at(folder, ".clock-").map_err(|error| at(folder, error))
}

/// Caches [`now`], which is queried at most every few seconds.
#[derive(Debug)]
pub(crate) struct Clock {
    folder: PathBuf,
    last: Mutex<Option<(Instant, SystemTime)>>,
}

impl Clock {
    pub(crate) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), last: Mutex::new(None) }
    }

    pub(crate) fn set(&self, time: SystemTime) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), time));
    }

    pub(crate) fn now(&self) -> io::Result<SystemTime> {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, time)) = last
            && at.elapsed() < FRESH
        {
            return Ok(time + at.elapsed());
        }
        let time = now(&self.folder)?;
        self.set(time);
        Ok(time)
    }
}
