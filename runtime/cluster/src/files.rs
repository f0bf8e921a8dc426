//! Files that appear whole or not at all.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use serde::{Serialize, de::DeserializeOwned};
use tempfile::TempPath;

/// Begins the names of files that are being written.
const TEMPORARY: &str = ".tmp-";

/// Writes a value under a name that nobody has yet. `false`: somebody has it.
pub(crate) fn publish(path: &Path, value: &impl Serialize) -> io::Result<bool> {
    let written = write_beside(path, value)?;
    match fs::hard_link(&written, path) {
        Ok(()) => Ok(true),
        // The reply of a file server may get lost after it made the link. The count of links tells.
        Err(error) => match fs::metadata(&written) {
            Ok(found) if found.nlink() == 2 => Ok(true),
            _ if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            _ => Err(at(path, error)),
        },
    }
}

/// Writes a value under a name, in place of what has it.
pub(crate) fn replace(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let written = write_beside(path, value)?;
    written.persist(path).map_err(|error| at(path, error.error))
}

/// The file is closed: an NFS client sends what was written when it closes a file.
fn write_beside(path: &Path, value: &impl Serialize) -> io::Result<TempPath> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let write = || -> io::Result<TempPath> {
        let mut builder = tempfile::Builder::new();
        // As other new files, and not private as temporary ones.
        let mode = fs::Permissions::from_mode(0o666);
        let mut file = builder.prefix(TEMPORARY).permissions(mode).tempfile_in(folder)?;
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        file.write_all(&line)?;
        Ok(file.into_temp_path())
    };
    write().map_err(|error| at(path, error))
}

/// `None`: no such file. Opening it makes an NFS client ask the server, which `stat` alone may not.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<(T, File)>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // The file was replaced while the client looked at it.
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

/// Removes a folder that others may read at the same moment: it first gets a name that nobody looks for.
pub(crate) fn remove_folder(path: &Path) {
    let Some(parent) = path.parent() else { return };
    let aside = parent.join(format!("{TEMPORARY}{:016x}", fastrand::u64(..)));
    if fs::rename(path, &aside).is_ok() {
        let _ = fs::remove_dir_all(&aside);
    }
}
