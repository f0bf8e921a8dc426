//! Copies, removes and moves directory trees on the host.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use crate::mapped_removal;

/// Copies a tree: directories, files with their modes and times, and links as links. Skips sockets,
/// pipes and devices, because they are not source code.
pub(crate) fn copy(source: &Path, destination: &Path) -> io::Result<()> {
    copy_with_handler(source, destination, &mut |_, error| Err(error))
}

/// Copies a tree like [`copy`], but skips what this user cannot read. Returns the skipped paths. A
/// skipped directory is created but left empty.
pub(crate) fn copy_readable(source: &Path, destination: &Path) -> io::Result<Vec<PathBuf>> {
    let mut missing = Vec::new();
    copy_with_handler(source, destination, &mut |path, error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            missing.push(path.to_owned());
            Ok(())
        }
        _ => Err(error),
    })?;
    Ok(missing)
}

/// A function that is called for each path that cannot be read.
type UnreadableHandler<'a> = &'a mut dyn FnMut(&Path, io::Error) -> io::Result<()>;

fn copy_with_handler(
    source_root: &Path,
    destination_root: &Path,
    on_unreadable: UnreadableHandler<'_>,
) -> io::Result<()> {
    fs::create_dir_all(destination_root)?;
    let mut entries = match fs::read_dir(source_root) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>()?,
        Err(error) => {
            on_unreadable(source_root, error)?;
            Vec::new()
        }
    };
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (source, target) = (entry.path(), destination_root.join(entry.file_name()));
        let found = entry.metadata()?;
        if found.is_dir() {
            copy_with_handler(&source, &target, on_unreadable)?;
        } else if found.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
        } else if found.is_file() {
            if let Err(error) = fs::copy(&source, &target) {
                on_unreadable(&source, error)?;
                continue;
            }
            let file = fs::OpenOptions::new().append(true).open(&target);
            // Setting the time fails if the file is read-only. Ignore this, because nothing depends
            // on the time.
            if let Ok(file) = file {
                file.set_modified(found.modified()?)?;
            }
        }
    }
    fs::set_permissions(destination_root, fs::metadata(source_root)?.permissions())
}

/// Removes a tree, including files of mapped ids and directories that an overlay left without
/// permissions. Succeeds if the tree does not exist.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            match make_accessible(path).and_then(|()| fs::remove_dir_all(path)) {
                Err(error)
                    if error.kind() == io::ErrorKind::PermissionDenied && !geteuid().is_root() =>
                {
                    mapped_removal::remove_mapped_tree(path)
                }
                other => other,
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn make_accessible(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_accessible(&entry.path())?;
        }
    }
    Ok(())
}

/// Moves a finished directory to its final location. Succeeds if another process has already put
/// the same content there.
pub(crate) fn publish(source: &Path, destination: &Path) -> io::Result<()> {
    match fs::rename(source, destination) {
        Err(_) if destination.is_dir() => remove(source),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_keeps_modes_and_links_and_remove_deletes_it() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::write(from.join("sub/run"), "x").unwrap();
        fs::set_permissions(from.join("sub/run"), fs::Permissions::from_mode(0o555)).unwrap();
        symlink("sub/run", from.join("link")).unwrap();
        let to = folder.path().join("to");
        copy(&from, &to).unwrap();
        assert_eq!(fs::metadata(to.join("sub/run")).unwrap().permissions().mode() & 0o777, 0o555);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("sub/run"));
        fs::set_permissions(to.join("sub"), fs::Permissions::from_mode(0o000)).unwrap();
        remove(&to).unwrap();
        assert!(!to.exists());
        remove(&to).unwrap();
    }

    #[test]
    fn copy_readable_returns_skipped_paths() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        fs::create_dir_all(from.join("closed")).unwrap();
        fs::write(from.join("closed/inner"), "x").unwrap();
        fs::write(from.join("open"), "x").unwrap();
        fs::set_permissions(from.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let to = folder.path().join("to");
        let missing = copy_readable(&from, &to).unwrap();
        assert!(to.join("open").is_file());
        // Nothing is skipped if this process is root, because root can read everything.
        if geteuid().is_root() {
            assert!(missing.is_empty());
        } else {
            assert_eq!(missing, [from.join("closed")]);
            assert!(fs::metadata(to.join("closed")).unwrap().is_dir());
        }
        fs::set_permissions(from.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    }
}
