//! Writes that are whole or absent, whenever the process is killed.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::Path,
};

use proctor_types::with_causes;
use serde::{Serialize, de::DeserializeOwned};

use crate::{RecordError, error::FROM_A_COPY};

/// Writes a file whole: a temporary file beside it, `fsync`, rename, `fsync` of the folder. A folder that lies
/// in its place is put aside.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    if path.is_dir() {
        put_aside(path)?;
    }
    let write = || -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut temporary = tempfile::Builder::new().prefix(".tmp-").tempfile_in(folder)?;
        temporary.write_all(bytes)?;
        temporary.as_file().sync_all()?;
        temporary.persist(path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(RecordError::io(path, "cannot be written"))
}

/// The file's bytes, or `None` where there is no such file.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, RecordError> {
    read_present(path).map_err(RecordError::io(path, "cannot be read"))
}

/// The bytes of a file, and of nothing else.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file to be read. To open a pipe that lies in its place would wait for ever.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    match kind.is_file() {
        true => File::open(path),
        false if kind.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        false => Err(io::Error::other("it is a pipe, a socket or a device")),
    }
}

/// The same for who tells damage, not an error.
pub(crate) fn read_present(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Renames a damaged file to `NAME.damaged`, or to the first such name with a number that is free: what
/// was found is kept, so that one can see what happened to it.
pub(crate) fn put_aside(path: &Path) -> Result<(), RecordError> {
    if !path.exists() {
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
    let free = (1..).map(named).find(|aside| !aside.exists()).unwrap_or_else(|| named(0));
    fs::rename(path, free).map_err(RecordError::io(path, "cannot be put aside"))
}

/// Pretty JSON with a newline at the end: people read these files too.
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
