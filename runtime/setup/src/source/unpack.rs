//! Unpacks an untrusted archive.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use flate2::read::GzDecoder;
use proctor_types::Fault;

use super::faults::{io_fault, source_fault};

/// Maximum number of unpacked bytes. A larger archive is treated as a decompression bomb.
const MAX_UNPACKED_BYTES: u64 = 2 << 30;
const MAX_ENTRIES: usize = 200_000;

/// Unpacks a `.tar.gz` into an empty directory. Strips a single top-level directory, as in sdists.
///
/// Rejects the whole archive if it contains paths or links that point outside the directory, or
/// entries other than files, directories and links.
pub(super) fn unpack_tar_gz(bytes: &[u8], target_dir: &Path) -> Result<(), Fault> {
    let staging = tempfile::tempdir_in(target_dir).map_err(|error| io_fault(target_dir, &error))?;
    let mut archive = tar::Archive::new(GzDecoder::new(bytes));
    archive.set_preserve_permissions(false);
    let refuse = |what: String| source_fault(format!("invalid archive: {what}"));
    let broken = |error: std::io::Error| source_fault(format!("cannot read the archive: {error}"));
    let (mut total, mut count) = (0_u64, 0_usize);
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.into_owned();
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() {
            continue;
        }
        count += 1;
        total += entry.size();
        if count > MAX_ENTRIES || total > MAX_UNPACKED_BYTES {
            return Err(refuse("its unpacked size exceeds the limit for a source tree".into()));
        }
        let Some(clean) = normalize_relative(&path) else {
            return Err(refuse(format!("{} points outside the folder", path.display())));
        };
        if kind.is_symlink() || kind.is_hard_link() {
            let target = entry.link_name().map_err(broken)?.unwrap_or_default().into_owned();
            // A symbolic link is relative to its own directory, a hard link to the archive's root.
            let start = if kind.is_symlink() { clean.parent() } else { None };
            let start = start.unwrap_or(Path::new(""));
            if target.is_absolute() || normalize_relative(&start.join(&target)).is_none() {
                let link = format!("{} -> {}", path.display(), target.display());
                return Err(refuse(format!("{link} points outside the folder")));
            }
        } else if !kind.is_file() && !kind.is_dir() {
            return Err(refuse(format!("{} is not a file, folder or link", path.display())));
        }
        // `unpack_in` repeats this check and also considers links that were unpacked earlier.
        if !entry.unpack_in(staging.path()).map_err(broken)? {
            return Err(refuse(format!("{} points outside the folder", path.display())));
        }
    }
    let root = single_folder(staging.path()).unwrap_or_else(|| staging.path().to_path_buf());
    for entry in fs::read_dir(&root).map_err(|error| io_fault(&root, &error))? {
        let entry = entry.map_err(|error| io_fault(&root, &error))?;
        let target = target_dir.join(entry.file_name());
        fs::rename(entry.path(), &target).map_err(|error| io_fault(&target, &error))?;
    }
    Ok(())
}

/// Returns the only entry, if it is a directory.
fn single_folder(folder: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(folder).ok()?;
    let only = entries.next()?.ok()?;
    (entries.next().is_none() && only.file_type().ok()?.is_dir()).then(|| only.path())
}

/// Resolves `.` and `..` in a relative path. Returns `None` if the path leads outside its starting
/// directory.
fn normalize_relative(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use tar::{Builder, EntryType, Header};

    use super::*;

    /// Creates an archive. Names are written as raw bytes, because the library's own builder
    /// rejects hostile names.
    fn build_archive(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, kind, content) in entries {
            let mut header = Header::new_gnu();
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            let data = if *kind == EntryType::Regular { content.as_bytes() } else { &[] };
            if *kind != EntryType::Regular {
                header.as_gnu_mut().unwrap().linkname[..content.len()]
                    .copy_from_slice(content.as_bytes());
            }
            header.set_size(data.len() as u64);
            header.set_cksum();
            builder.append(&header, data).unwrap();
        }
        let mut encoder = builder.into_inner().unwrap();
        encoder.flush().unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn unpack_tar_gz_strips_a_single_outer_folder() {
        let bytes = build_archive(&[
            ("pkg-1/a.py", EntryType::Regular, "x = 1\n"),
            ("pkg-1/sub/b.py", EntryType::Regular, "y = 2\n"),
            ("pkg-1/sub/l.py", EntryType::Symlink, "../a.py"),
        ]);
        let dir = tempfile::tempdir().unwrap();
        unpack_tar_gz(&bytes, dir.path()).unwrap();
        assert_eq!(fs::read(dir.path().join("a.py")).unwrap(), b"x = 1\n");
        assert_eq!(fs::read(dir.path().join("sub/l.py")).unwrap(), b"x = 1\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn unpack_tar_gz_rejects_paths_outside_the_folder() {
        let cases: [&[(&str, EntryType, &str)]; 6] = [
            &[("../evil", EntryType::Regular, "x")],
            &[("/etc/evil", EntryType::Regular, "x")],
            &[("a/../../evil", EntryType::Regular, "x")],
            &[("a/l", EntryType::Symlink, "../../out"), ("a/l/evil", EntryType::Regular, "x")],
            &[("a/l", EntryType::Symlink, "/etc")],
            &[("a/l", EntryType::Link, "../etc/passwd")],
        ];
        for case in cases {
            let outer = tempfile::tempdir().unwrap();
            let dir = outer.path().join("to");
            fs::create_dir(&dir).unwrap();
            let error = unpack_tar_gz(&build_archive(case), &dir).unwrap_err();
            assert!(error.what.contains("invalid archive"), "{case:?}: {error}");
            assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1, "{case:?}");
        }
        let device = build_archive(&[("a/null", EntryType::Char, "")]);
        let dir = tempfile::tempdir().unwrap();
        assert!(unpack_tar_gz(&device, dir.path()).is_err());
        assert!(unpack_tar_gz(b"not an archive", dir.path()).is_err());
    }
}
