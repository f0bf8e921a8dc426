//! Writes files so that they stay intact if the process is killed.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

pub(crate) use proctor_files::{is_no_file, is_there, open, open_with, read};
use proctor_types::with_causes;
use serde::{Serialize, de::DeserializeOwned};
use tempfile::NamedTempFile;

use crate::{RecordError, error::FROM_A_COPY};

/// Prefix of files that are being written.
const TEMPORARY: &str = ".tmp-";

/// How much longer a lock may be held after its writer ended: a child process shares the writer's
/// file descriptors until it calls `exec`.
const LOCK_GRACE: Duration = Duration::from_millis(300);

/// Locks a file. Fails with `WouldBlock` if another process still holds the lock after [`LOCK_GRACE`].
pub(crate) fn lock(file: &File) -> Result<(), TryLockError> {
    let deadline = Instant::now() + LOCK_GRACE;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(10));
            }
            locked => return locked,
        }
    }
}

/// Writes a file atomically: temporary file, `fsync`, rename, `fsync` of the directory. If the path
/// is taken by something other than a regular file, that is moved aside.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    make_way(path)?;
    let write = || -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut temporary = temporary(folder)?;
        temporary.write_all(bytes)?;
        temporary.as_file().sync_all()?;
        temporary.persist(path).map_err(|error| error.error)?;
        sync_folder(folder)
    };
    write().map_err(RecordError::io(path, "cannot be written"))
}

/// Creates a file that is renamed once it is complete. Like a journal's, its permissions follow the
/// umask, so that other users who work on a run can read either all of it or nothing.
pub(crate) fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    let mode = fs::Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(TEMPORARY).permissions(mode).tempfile_in(folder)
}

/// Syncs a directory, so that renames in it survive power loss.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Returns the file's bytes, or `None` if there is no such file.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, RecordError> {
    read_present(path).map_err(RecordError::io(path, "cannot be read"))
}

/// Like [`read_if_there`], for callers that report damage instead of an error.
pub(crate) fn read_present(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Renames a damaged file to `NAME.damaged`, or to `NAME.damaged-N` if that is taken, so that it
/// can be inspected.
pub(crate) fn put_aside(path: &Path) -> Result<(), RecordError> {
    if !is_there(path) {
        return Ok(());
    }
    let named = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(".damaged");
        if number > 1 {
            name.push(format!("-{number}"));
        }
        std::path::PathBuf::from(name)
    };
    let free = (1..).map(named).find(|aside| !is_there(aside)).unwrap_or_else(|| named(0));
    fs::rename(path, free).map_err(RecordError::io(path, "cannot be moved aside"))
}

/// Moves anything at this path that is not a file aside: a directory, pipe, device or dangling symlink.
pub(crate) fn make_way(path: &Path) -> Result<(), RecordError> {
    if is_no_file(path) { put_aside(path) } else { Ok(()) }
}

/// Removes partial files of a killed writer. Call this only from the directory's only writer.
pub(crate) fn remove_half_written(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes pretty JSON with a final newline, because people read these files, too.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), RecordError> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|error| RecordError::Misuse {
        path: path.to_owned(),
        why: format!("not JSON: {error}"),
    })?;
    bytes.push(b'\n');
    write_whole(path, &bytes)
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, RecordError> {
    let Some(bytes) = read_if_there(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| RecordError::Corrupt {
        path: path.to_owned(),
        why: with_causes(&error),
        hint: FROM_A_COPY,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_whole_uses_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, plain) = (folder.path().join("whole"), folder.path().join("plain"));
        write_whole(&whole, b"x").unwrap();
        fs::write(&plain, "x").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&whole), mode(&plain));
    }
}
