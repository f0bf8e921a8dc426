//! Writes files so that they stay intact if the process is killed.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

pub(crate) use proctor_files::{
    entry_exists, exists_as_non_file, open_regular_file, open_with, read_regular_file,
};
use proctor_types::{describe_io_error, format_error_chain};
use serde::{Serialize, de::DeserializeOwned};
use tempfile::NamedTempFile;

use crate::{RecordError, error::RESTORE_FROM_COPY_HINT};

/// Prefix of files that are being written.
const TEMP_PREFIX: &str = ".tmp-";

/// How long to wait for a lock that is still held after its writer has ended: a new child process
/// shares the writer's file descriptors until it calls `exec`.
const LOCK_GRACE: Duration = Duration::from_secs(1);

/// Locks a file. Fails with `WouldBlock` if another process still holds the lock after [`LOCK_GRACE`].
pub(crate) fn lock_file(file: &File) -> Result<(), TryLockError> {
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

/// Writes a file atomically: temporary file, `fsync`, rename, `fsync` of the directory. If
/// something other than a regular file exists at the path, moves it aside.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    move_non_file_aside(path)?;
    let write = || -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut temporary = create_temp_file(folder)?;
        temporary.write_all(bytes)?;
        temporary.as_file().sync_all()?;
        temporary.persist(path).map_err(|error| error.error)?;
        sync_folder(folder)
    };
    write().map_err(RecordError::io(path, "cannot be written"))
}

/// Creates a temporary file for content that is renamed when complete. The file's permissions
/// follow the umask, like those of a journal. As a result, other users can read either all files of
/// a run or none.
pub(crate) fn create_temp_file(folder: &Path) -> io::Result<NamedTempFile> {
    let mode = fs::Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(TEMP_PREFIX).permissions(mode).tempfile_in(folder)
}

/// Syncs a directory, so that renames in it survive power loss.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Returns a file's content, or `None` if there is no such file.
pub(crate) fn read_if_exists(path: &Path) -> Result<Option<Vec<u8>>, RecordError> {
    try_read_if_exists(path).map_err(RecordError::io(path, "cannot be read"))
}

/// Like [`read_if_exists`], but returns the plain I/O error, for callers that report an unreadable
/// file as corruption.
pub(crate) fn try_read_if_exists(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read_regular_file(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Describes a read error, such as a directory in place of a file, another user's file, or a disk
/// error.
pub(crate) fn describe_read_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::IsADirectory => "expected a file, found a directory".to_owned(),
        _ => format!("cannot be read: {}", describe_io_error(error)),
    }
}

/// Renames a corrupt file to `NAME.damaged`, or to `NAME.damaged-N` if that name is taken. Users
/// can inspect the renamed file.
pub(crate) fn move_aside(path: &Path) -> Result<(), RecordError> {
    if !entry_exists(path) {
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
    let free = (1..).map(named).find(|aside| !entry_exists(aside)).unwrap_or_else(|| named(0));
    fs::rename(path, free).map_err(RecordError::io(path, "cannot be moved aside"))
}

/// If something other than a file is at this path (a directory, pipe, device or dangling symlink),
/// moves it aside.
pub(crate) fn move_non_file_aside(path: &Path) -> Result<(), RecordError> {
    if exists_as_non_file(path) { move_aside(path) } else { Ok(()) }
}

/// Removes partial files that a killed writer left behind. Only a process that is the directory's
/// sole writer may call this function.
pub(crate) fn remove_partial_files(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(TEMP_PREFIX) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes indented JSON with a final newline, because people also read these files.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), RecordError> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|error| RecordError::Misuse {
        path: path.to_owned(),
        why: format!("not JSON: {error}"),
    })?;
    bytes.push(b'\n');
    write_atomically(path, &bytes)
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, RecordError> {
    let Some(bytes) = read_if_exists(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| RecordError::Corrupt {
        path: path.to_owned(),
        why: format_error_chain(&error),
        hint: RESTORE_FROM_COPY_HINT,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_atomically_uses_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, plain) = (folder.path().join("whole"), folder.path().join("plain"));
        write_atomically(&whole, b"x").unwrap();
        fs::write(&plain, "x").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&whole), mode(&plain));
    }
}
