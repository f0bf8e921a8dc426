//! Wraps every call to the shared file system. `examples/many_workers` replaces these functions
//! with variants that simulate a file server's delays.

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions, ReadDir},
    io::{self, Read as _, Write as _},
    os::unix::fs::{FileExt as _, PermissionsExt as _},
    path::Path,
    time::SystemTime,
};

use tempfile::TempPath;

pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

pub(crate) fn list(path: &Path) -> io::Result<ReadDir> {
    fs::read_dir(path)
}

pub(crate) fn metadata(path: &Path) -> io::Result<Metadata> {
    fs::metadata(path)
}

pub(crate) fn link(original: &Path, link_path: &Path) -> io::Result<()> {
    fs::hard_link(original, link_path)
}

pub(crate) fn rename(source: &Path, destination: &Path) -> io::Result<()> {
    fs::rename(source, destination)
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    fs::remove_dir_all(path)
}

/// Returns a file's whole content, and the open file.
pub(crate) fn read(path: &Path) -> io::Result<(Vec<u8>, File)> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok((bytes, file))
}

/// Returns the modification time of an open file.
pub(crate) fn modified(file: &File) -> io::Result<SystemTime> {
    file.metadata()?.modified()
}

/// Writes a file with a random name. Dropping the result removes the file. The file is closed
/// first, because an NFS client sends the data on close.
pub(crate) fn write_temporary(folder: &Path, prefix: &str, bytes: &[u8]) -> io::Result<TempPath> {
    let mut builder = tempfile::Builder::new();
    // Use the permissions of normal new files. Temporary files are private by default.
    let mode = Permissions::from_mode(0o666);
    let mut file = builder.prefix(prefix).permissions(mode).tempfile_in(folder)?;
    file.write_all(bytes)?;
    Ok(file.into_temp_path())
}

/// Renames a temporary file to its final path.
pub(crate) fn persist(file: TempPath, path: &Path) -> io::Result<()> {
    file.persist(path).map_err(|error| error.error)
}

pub(crate) fn discard(file: TempPath) {
    let _ = file.close();
}

/// Creates and removes a file with a random name. Returns the time that the server assigned to it.
pub(crate) fn probe_server_time(folder: &Path, prefix: &str) -> io::Result<SystemTime> {
    let mut file = tempfile::Builder::new().prefix(prefix).tempfile_in(folder)?;
    file.write_all(b".")?;
    file.as_file().sync_data()?;
    modified(file.as_file())
}

/// Rewrites the first byte of a file, so that the server updates the modification time. Returns
/// this time.
pub(crate) fn touch(path: &Path) -> io::Result<SystemTime> {
    // Don't create a missing file: it is missing because other workers presume its owner dead.
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut first = [0];
    file.read_exact_at(&mut first, 0)?;
    file.write_all_at(&first, 0)?;
    file.sync_data()?;
    modified(&file)
}
