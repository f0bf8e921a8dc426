//! The file server's clock. Machines' clocks differ, but the times of files in one directory come
//! from one clock.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use crate::{disk, files::at};

/// A reading is valid for this long. Until then this machine's clock measures the time since.
const FRESH: Duration = Duration::from_secs(5);

/// The time by the clock of the file server that holds the directory.
///
/// # Errors
/// The directory can't be written.
pub fn now(folder: &Path) -> io::Result<SystemTime> {
    disk::written_at(folder, ".clock-").map_err(|error| at(folder, error))
}

/// [`now`], queried at most every few seconds.
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
