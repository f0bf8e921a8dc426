//! Opens regular files in a run directory or cache, and rejects anything else at their paths.
//!
//! The directory may contain FIFOs, devices or dangling symlinks. Opening a FIFO may block forever,
//! reading a device may never end, and writing through a dangling symlink creates a file elsewhere.
//! Therefore, such entries are rejected without being opened. A symlink to a regular file is
//! treated like that file.

mod lock;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    path::Path,
};

pub use lock::lock;

/// Opens a file for reading.
///
/// # Errors
/// Fails if the file cannot be opened, or if the path is not a regular file.
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    check_regular_file(&fs::metadata(path)?)?;
    File::open(path)
}

/// Returns the content of a file.
///
/// # Errors
/// Fails in the same cases as [`open_regular_file`].
pub fn read_regular_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file for writing with the given options, which may create it.
///
/// # Errors
/// Fails in the same cases as [`open_regular_file`], and for dangling symlinks.
pub fn open_with(options: &OpenOptions, path: &Path) -> io::Result<File> {
    match fs::metadata(path) {
        Ok(found) => check_regular_file(&found)?,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) if entry_exists(path) => return Err(io::Error::other("dangling symbolic link")),
        Err(_) => {}
    }
    options.open(path)
}

/// Copies a file to a path that does not exist yet.
///
/// # Errors
/// Fails in the same cases as [`open_with`].
pub fn copy_regular_file(source: &Path, destination: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut to = open_with(options.write(true).create(true).truncate(true), destination)?;
    io::copy(&mut open_regular_file(source)?, &mut to).map(drop)
}

/// Returns whether anything exists at this path, including a dangling symlink.
pub fn entry_exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Returns whether something exists at this path that is neither a file nor a symlink to one.
pub fn exists_as_non_file(path: &Path) -> bool {
    entry_exists(path) && !path.is_file()
}

fn check_regular_file(metadata: &fs::Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    match kind.is_file() {
        true => Ok(()),
        false if kind.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        false => Err(io::Error::other("not a regular file but a pipe, socket or device")),
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, path::PathBuf, process::Command};

    use super::*;

    /// Creates a directory with every kind of entry that may exist in place of a regular file.
    fn create_non_files() -> (tempfile::TempDir, [PathBuf; 4]) {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        assert!(Command::new("mkfifo").arg(place("pipe")).status().unwrap().success());
        symlink("/dev/zero", place("device")).unwrap();
        symlink(place("nowhere"), place("dangling")).unwrap();
        fs::create_dir(place("folder")).unwrap();
        let all = ["pipe", "device", "dangling", "folder"].map(place);
        (folder, all)
    }

    #[test]
    fn non_files_are_neither_read_nor_written() {
        let (folder, places) = create_non_files();
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        for place in &places {
            assert!(
                read_regular_file(place).is_err() && open_regular_file(place).is_err(),
                "{}",
                place.display()
            );
            assert!(open_with(&options, place).is_err(), "{}", place.display());
            assert!(
                copy_regular_file(place, &folder.path().join("copy")).is_err(),
                "{}",
                place.display()
            );
            assert!(entry_exists(place) && exists_as_non_file(place), "{}", place.display());
        }
        assert!(!entry_exists(&folder.path().join("nowhere")), "no file may be created elsewhere");
    }

    #[test]
    fn files_and_links_to_files_are_read_and_written() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        assert_eq!(open_regular_file(&file).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!entry_exists(&file) && !exists_as_non_file(&file));
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        symlink(&file, &link).unwrap();
        for (path, text) in [(&file, "one"), (&link, "two")] {
            let mut open = open_with(&options, path).unwrap();
            io::Write::write_all(&mut open, text.as_bytes()).unwrap();
        }
        assert_eq!(read_regular_file(&link).unwrap(), b"onetwo");
        assert!(entry_exists(&link) && !exists_as_non_file(&link));
        let to = folder.path().join("copy");
        copy_regular_file(&link, &to).unwrap();
        assert_eq!(read_regular_file(&to).unwrap(), b"onetwo");
    }
}
