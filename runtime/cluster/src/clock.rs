//! The file server's clock. Machines' clocks differ, but the times of files in one directory come
//! from one clock.

use std::{
    fs::File,
    io::{self, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use crate::files::at;

/// A reading is valid for this long. Until then this machine's clock measures the time since.
const FRESH: Duration = Duration::from_secs(5);

/// The time by the clock of the file server that holds the directory.
///
/// # Errors
/// The directory can't be written.
pub fn now(folder: &Path) -> io::Result<SystemTime> {
    let read = || -> io::Result<SystemTime> {
        let mut file = tempfile::Builder::new().prefix(".clock-").tempfile_in(folder)?;
        file.write_all(b".")?;
        file.as_file().sync_data()?;
        file.as_file().metadata()?.modified()
    };
    read().map_err(|error| at(folder, error))
}

/// Rewrites the first byte of a file, so that the server sets its time, and returns that time.
pub(crate) fn touch(path: &Path) -> io::Result<SystemTime> {
    // Without `create`: a missing file means that others presume its owner dead.
    let file = File::options().read(true).write(true).open(path)?;
    let mut first = [0];
    file.read_exact_at(&mut first, 0)?;
    file.write_all_at(&first, 0)?;
    file.sync_data()?;
    file.metadata()?.modified()
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
