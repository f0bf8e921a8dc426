//! Unpacks archives entry by entry. Unpacks only files, and symlinks if the caller allows them.

use std::{
    fs,
    io::Read,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Component, Path, PathBuf},
};

use flate2::read::GzDecoder;

use crate::BundleError;

/// One entry of an archive.
pub(crate) enum ArchiveEntry<'a> {
    File { content: &'a mut dyn Read, is_executable: bool },
    Link(PathBuf),
}

/// Passes each file and symlink in a tar archive to `visit`, with its path without `.` components.
/// Fails if the archive contains devices, hard links or paths that lead outside.
pub(crate) fn for_each_tar_entry(
    reader: impl Read,
    visit: &mut dyn FnMut(&Path, ArchiveEntry<'_>) -> Result<(), BundleError>,
) -> Result<(), BundleError> {
    let broken = |error: std::io::Error| BundleError::new(format!("invalid archive: {error}"));
    let mut archive = tar::Archive::new(reader);
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let kind = entry.header().entry_type();
        if kind.is_dir() || kind.is_pax_global_extensions() {
            continue;
        }
        let named = entry.path().map_err(broken)?.into_owned();
        let refused =
            |why: &str| BundleError::new(format!("invalid archive: {} {why}", named.display()));
        let path = normalize_path(&named).ok_or_else(|| refused("points outside the archive"))?;
        if kind.is_symlink() {
            let target = entry.link_name().map_err(broken)?.unwrap_or_default().into_owned();
            visit(&path, ArchiveEntry::Link(target))?;
        } else if kind.is_file() {
            let executable = entry.header().mode().map_err(broken)? & 0o111 != 0;
            visit(&path, ArchiveEntry::File { content: &mut entry, is_executable: executable })?;
        } else {
            return Err(refused("is not a file, folder or link"));
        }
    }
    Ok(())
}

/// Extracts the files of a `.tar.gz` into a directory, without the top-level directory in the
/// archive. Rejects links, because no registry publishes packages with links.
pub(crate) fn extract_tar_gz(bytes: &[u8], target: &Path) -> Result<(), BundleError> {
    for_each_tar_entry(GzDecoder::new(bytes), &mut |path, entry| {
        let rest: PathBuf = path.components().skip(1).collect();
        match entry {
            ArchiveEntry::File { content, is_executable: executable }
                if !rest.as_os_str().is_empty() =>
            {
                write_file(&target.join(rest), content, executable)
            }
            ArchiveEntry::File { .. } => Ok(()),
            ArchiveEntry::Link(_) => {
                Err(BundleError::new(format!("invalid archive: {} is a link", path.display())))
            }
        }
    })
}

/// Writes one file and creates its parent directories. Replaces an existing file: if two packages
/// contain the same file, the later one takes precedence, as with the packages' own installers.
pub(crate) fn write_file(
    path: &Path,
    content: &mut dyn Read,
    is_executable: bool,
) -> Result<(), BundleError> {
    let io = |error: std::io::Error| BundleError::io(path, &error);
    prepare_path(path)?;
    let mut out = fs::File::create(path).map_err(io)?;
    std::io::copy(content, &mut out).map_err(io)?;
    let mode = if is_executable { 0o755 } else { 0o644 };
    out.set_permissions(fs::Permissions::from_mode(mode)).map_err(io)
}

pub(crate) fn create_symlink(target: &Path, link: &Path) -> Result<(), BundleError> {
    prepare_path(link)?;
    symlink(target, link).map_err(|error| BundleError::io(link, &error))
}

/// Creates the parent directories of a path, and removes an existing file at the path.
fn prepare_path(path: &Path) -> Result<(), BundleError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| BundleError::io(parent, &error))?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(BundleError::io(path, &error))
        }
        _ => Ok(()),
    }
}

/// Returns the path without `.` components, or `None` if the path contains `..` or is absolute.
fn normalize_path(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!out.as_os_str().is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn archive(name: &str, kind: tar::EntryType) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        // Write the name directly, because the library's own builder would reject malicious names.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o755);
        header.set_size(0);
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, &[][..]).unwrap();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&builder.into_inner().unwrap()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn tar_gz_rejects_paths_outside_the_folder() {
        let cases = [
            ("package/../../evil", tar::EntryType::Regular),
            ("/evil", tar::EntryType::Regular),
            ("package/link", tar::EntryType::Symlink),
            ("package/hard", tar::EntryType::Link),
            ("package/null", tar::EntryType::Char),
        ];
        for (name, kind) in cases {
            let folder = tempfile::tempdir().unwrap();
            let error =
                extract_tar_gz(&archive(name, kind), &folder.path().join("to")).unwrap_err();
            assert!(error.problem.contains("invalid archive"), "{name}: {error}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{name}");
        }
        let folder = tempfile::tempdir().unwrap();
        extract_tar_gz(&archive("package/bin/x", tar::EntryType::Regular), folder.path()).unwrap();
        let mode = fs::metadata(folder.path().join("bin/x")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        assert!(extract_tar_gz(b"no archive", folder.path()).is_err());
    }
}
