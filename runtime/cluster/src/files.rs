//! Atomic file writes.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use serde::{Serialize, de::DeserializeOwned};
use tempfile::TempPath;

/// Prefix of files that are being written.
const TEMPORARY: &str = ".tmp-";

/// Writes a value under a new name. `false`: the name is taken.
pub(crate) fn publish(path: &Path, value: &impl Serialize) -> io::Result<bool> {
    let written = write_beside(path, value)?;
    match fs::hard_link(&written, path) {
        Ok(()) => Ok(true),
        // A file server's reply may get lost after it created the link. The link count shows what
        // happened.
        Err(error) => match fs::metadata(&written) {
            Ok(found) if found.nlink() == 2 => Ok(true),
            _ if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            _ => Err(at(path, error)),
        },
    }
}

/// Writes a value under a name and replaces an existing file.
pub(crate) fn replace(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let written = write_beside(path, value)?;
    written.persist(path).map_err(|error| at(path, error.error))
}

/// Closes the file: an NFS client sends the data on close.
fn write_beside(path: &Path, value: &impl Serialize) -> io::Result<TempPath> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let write = || -> io::Result<TempPath> {
        let mut builder = tempfile::Builder::new();
        // Permissions of normal new files, not of private temporary ones.
        let mode = fs::Permissions::from_mode(0o666);
        let mut file = builder.prefix(TEMPORARY).permissions(mode).tempfile_in(folder)?;
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        file.write_all(&line)?;
        Ok(file.into_temp_path())
    };
    write().map_err(|error| at(path, error))
}

/// `None`: no such file. Opening makes an NFS client ask the server, which `stat` alone may not.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<(T, File)>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // The file was replaced during the read.
        Err(error) if error.kind() == ErrorKind::StaleNetworkFileHandle => return Ok(None),
        Err(error) => return Err(at(path, error)),
    };
    let mut bytes = Vec::new();
    (&file).read_to_end(&mut bytes).map_err(|error| at(path, error))?;
    let value = serde_json::from_slice(&bytes);
    value.map(|value| Some((value, file))).map_err(|error| at(path, error.into()))
}

/// The same error with the path in front.
pub(crate) fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Removes a directory that others may be reading: renames it first to a name that nothing reads.
pub(crate) fn remove_folder(path: &Path) {
    let Some(parent) = path.parent() else { return };
    let aside = parent.join(format!("{TEMPORARY}{:016x}", fastrand::u64(..)));
    if fs::rename(path, &aside).is_ok() {
        let _ = fs::remove_dir_all(&aside);
    }
}
