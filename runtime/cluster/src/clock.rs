//! Reads the file server's clock. Clocks differ between machines, but the timestamps of files in
//! one directory come from one clock.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use crate::{disk, files::add_path};

/// Maximum age of a cached reading of the server's clock. A younger reading is used by adding the
/// time that has elapsed on the local clock.
const MAX_READING_AGE: Duration = Duration::from_secs(5);

/// Returns the time by the clock of the file server that stores the directory.
///
/// # Errors
/// Returns an error if the directory cannot be written.
pub fn server_time(folder: &Path) -> io::Result<SystemTime> {
    disk::probe_server_time(folder, ".clock-").map_err(|error| add_path(folder, error))
}

/// Caches [`server_time`], so that the server is queried only every few seconds.
#[derive(Debug)]
pub(crate) struct Clock {
    folder: PathBuf,
    last_reading: Mutex<Option<(Instant, SystemTime)>>,
}

impl Clock {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), last_reading: Mutex::new(None) }
    }

    pub(crate) fn set_time(&self, time: SystemTime) {
        *self.last_reading.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), time));
    }

    pub(crate) fn now(&self) -> io::Result<SystemTime> {
        let last = *self.last_reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, time)) = last
            && at.elapsed() < MAX_READING_AGE
        {
            return Ok(time + at.elapsed());
        }
        let time = server_time(&self.folder)?;
        self.set_time(time);
        Ok(time)
    }
}
