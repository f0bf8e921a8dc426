//! Computes the digest of a directory's contents.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
};

use proctor_types::{Fault, Source, sha256_hex};

use super::faults::{io_fault, source_fault};

/// Entries with these names are not part of a source: they are history, or files that interpreters
/// leave behind. Setup removes them too.
const IGNORED_NAMES: [&str; 3] = [".git", "__pycache__", ".pytest_cache"];

/// Maximum number of entries. A directory with more entries is probably a home directory.
const MAX_ENTRIES: usize = 200_000;

/// Returns the SHA-256 of the sorted paths, kinds, executable bits and contents.
pub(super) fn folder_digest(folder: &Path) -> Result<String, Fault> {
    if !folder.is_dir() {
        return Err(source_fault(format!("source {} is not a folder", folder.display())));
    }
    let mut entries = Vec::new();
    collect_entries(folder, folder, &mut entries)?;
    entries.sort();
    let text: String =
        entries.into_iter().map(|(path, what)| format!("{path:?} {what}\n")).collect();
    Ok(sha256_hex(text.as_bytes()))
}

/// Returns the current digest of a source on this host. Returns `None` if the task itself specifies
/// the digest, or if the source cannot be read. In the latter case, the error is reported when the
/// source is fetched.
pub fn local_source_digest(source: &Source, base_dir: &Path) -> Option<String> {
    match source {
        Source::Path { path } => folder_digest(&fs::canonicalize(base_dir.join(path)).ok()?).ok(),
        Source::Archive { archive, sha256: None } => {
            Some(sha256_hex(&fs::read(base_dir.join(archive)).ok()?))
        }
        Source::Archive { .. } | Source::Pypi { .. } | Source::Git { .. } => None,
    }
}

fn collect_entries(
    root: &Path,
    folder: &Path,
    out: &mut Vec<(Vec<u8>, String)>,
) -> Result<(), Fault> {
    for entry in fs::read_dir(folder).map_err(|error| io_fault(folder, &error))? {
        let entry = entry.map_err(|error| io_fault(folder, &error))?;
        if IGNORED_NAMES.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap_or(&path).as_os_str().as_bytes().to_vec();
        let meta = fs::symlink_metadata(&path).map_err(|error| io_fault(&path, &error))?;
        if meta.is_dir() {
            collect_entries(root, &path, out)?;
        } else if meta.is_symlink() {
            let target = fs::read_link(&path).map_err(|error| io_fault(&path, &error))?;
            out.push((name, format!("link {target:?}")));
        } else if meta.is_file() {
            let bytes = fs::read(&path).map_err(|error| io_fault(&path, &error))?;
            let executable = meta.permissions().mode() & 0o111 != 0;
            out.push((name, format!("file {executable} {}", sha256_hex(&bytes))));
        }
        if out.len() > MAX_ENTRIES {
            let what = format!("{} contains more than {MAX_ENTRIES} files", root.display());
            return Err(source_fault(what).hint("use the project's own folder as the source"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_digest_depends_on_content_mode_and_names_but_not_history() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.py"), "1").unwrap();
        let first = folder_digest(dir.path()).unwrap();
        fs::create_dir(dir.path().join(".git")).unwrap();
        fs::write(dir.path().join(".git/HEAD"), "x").unwrap();
        assert_eq!(folder_digest(dir.path()).unwrap(), first);
        fs::write(dir.path().join("a.py"), "2").unwrap();
        let second = folder_digest(dir.path()).unwrap();
        fs::rename(dir.path().join("a.py"), dir.path().join("b.py")).unwrap();
        let third = folder_digest(dir.path()).unwrap();
        assert!(first != second && second != third);
    }
}
