//! Writes files atomically.

use std::{
    fs::File,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use serde::{Serialize, de::DeserializeOwned};
use tempfile::TempPath;

use crate::disk;

/// Name prefix of files that are being written.
const TEMP_PREFIX: &str = ".tmp-";

/// Writes a value to a new file. Returns `false` if the file already exists.
pub(crate) fn create_file(path: &Path, value: &impl Serialize) -> io::Result<bool> {
    let written = write_temp_file(path, value)?;
    let published = match disk::link(&written, path) {
        Ok(()) => Ok(true),
        // The file server's reply may have been lost after the link was created. The link count
        // shows whether the link exists.
        Err(error) => match disk::metadata(&written) {
            Ok(found) if found.nlink() == 2 => Ok(true),
            _ if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            _ => Err(add_path(path, error)),
        },
    };
    disk::discard(written);
    published
}

/// Writes a value to a file, replacing an existing one.
pub(crate) fn write_file(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let written = write_temp_file(path, value)?;
    disk::persist(written, path).map_err(|error| add_path(path, error))
}

fn write_temp_file(path: &Path, value: &impl Serialize) -> io::Result<TempPath> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let write = || -> io::Result<TempPath> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        disk::write_temporary(folder, TEMP_PREFIX, &line)
    };
    write().map_err(|error| add_path(path, error))
}

/// Reads a value, or returns `None` if there is no such file. Opening the file forces an NFS client
/// to contact the server, whereas `stat` may be answered from the client's cache.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<(T, File)>> {
    let (bytes, file) = match disk::read(path) {
        Ok(read) => read,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // The file was replaced while it was read.
        Err(error) if error.kind() == ErrorKind::StaleNetworkFileHandle => return Ok(None),
        Err(error) => return Err(add_path(path, error)),
    };
    let value = serde_json::from_slice(&bytes);
    value.map(|value| Some((value, file))).map_err(|error| add_path(path, error.into()))
}

/// Prepends the path to an error.
pub(crate) fn add_path(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Removes a directory that other workers may be reading. The directory is first renamed to a name
/// that no worker reads.
pub(crate) fn remove_folder(path: &Path) {
    let Some(parent) = path.parent() else { return };
    let aside = parent.join(format!("{TEMP_PREFIX}{:016x}", fastrand::u64(..)));
    if disk::rename(path, &aside).is_ok() {
        let _ = disk::remove_folder(&aside);
    }
}
