//! Lists and removes cache entries that Proctor can rebuild.
//!
//! Only entries whose names could come from this back end are listed, because a cache directory may
//! contain other files.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use proctor_sandbox_api::CacheEntry;

use crate::{agent, tree};

/// The cache's subdirectories, and the kind of their content.
const FOLDERS: [(&str, &str); 2] = [("layers", "layer"), ("bases", "base")];

/// Lists built environments, unpacked bases, and other versions' agents.
pub(crate) fn list(cache: &Path) -> io::Result<Vec<CacheEntry>> {
    let mut found = Vec::new();
    for (folder, kind) in FOLDERS {
        for (name, path) in list_entries(&cache.join(folder))? {
            if is_own_name(kind, &name) {
                found.push(cache_entry(kind, &name, &path)?);
            }
        }
    }
    let current = agent::folder_name();
    for (name, path) in list_entries(cache)? {
        let digest = name.strip_prefix("agentd-").unwrap_or_default();
        if is_hex(digest, 16) && name != current {
            found.push(cache_entry("agent", digest, &path)?);
        }
    }
    Ok(found)
}

/// Removes a listed entry.
pub(crate) fn remove(cache: &Path, entry: &CacheEntry) -> io::Result<()> {
    let path = PathBuf::from(&entry.backend_id);
    if !path.starts_with(cache) {
        return Err(io::Error::other(format!("{} is not in the cache", path.display())));
    }
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => tree::remove(&path),
        Ok(_) => fs::remove_file(&path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_own_name(kind: &str, name: &str) -> bool {
    match kind {
        "layer" => is_hex(name, 64),
        _ => {
            name.strip_prefix("host-").is_some_and(|digest| is_hex(digest, 16))
                || name.strip_prefix("archive-").is_some_and(|digest| is_hex(digest, 64))
                || name.strip_prefix("settings-").is_some_and(|digest| is_hex(digest, 64))
                || name.strip_prefix("used-").is_some_and(|digest| is_hex(digest, 64))
                // An earlier version of Proctor used this name.
                || name.strip_prefix("variables-").is_some_and(|digest| is_hex(digest, 64))
                || name.strip_prefix("folder-").is_some_and(|digest| is_hex(digest, 64))
                || name.strip_prefix("unreadable-").is_some_and(|digest| is_hex(digest, 64))
                || name.strip_prefix("digest-").is_some_and(|digest| is_hex(digest, 32))
        }
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn cache_entry(kind: &str, name: &str, path: &Path) -> io::Result<CacheEntry> {
    let short = name.rsplit('-').next().unwrap_or(name);
    Ok(CacheEntry {
        description: format!("native {kind} {short:.12}"),
        bytes: total_file_size(path)?,
        created_at: fs::symlink_metadata(path)?.modified().ok(),
        backend_id: path.display().to_string(),
    })
}

/// Returns a directory's entries, as names and paths. Returns an empty list if the directory does
/// not exist.
fn list_entries(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let named = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.file_name().to_string_lossy().into_owned(), entry.path()))
    };
    let mut all: Vec<_> = entries.map(named).collect::<io::Result<_>>()?;
    all.sort();
    Ok(all)
}

/// Returns the total size of all files in bytes. A directory counts as empty if it is inaccessible,
/// as an overlay's work directory is.
fn total_file_size(path: &Path) -> io::Result<u64> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return Ok(found.len());
    }
    let Ok(entries) = fs::read_dir(path) else { return Ok(0) };
    let mut bytes = 0;
    for entry in entries {
        bytes += total_file_size(&entry?.path()).unwrap_or(0);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_and_remove_ignore_foreign_files() {
        let cache = tempfile::tempdir().unwrap();
        let layer = cache.path().join("layers").join("ab".repeat(32));
        fs::create_dir_all(layer.join("tree")).unwrap();
        fs::write(layer.join("tree/file"), [0; 100]).unwrap();
        for theirs in ["layers/my-notes", "bases/rootfs", "runs/one", "agentd-mine"] {
            fs::create_dir_all(cache.path().join(theirs)).unwrap();
        }
        let current = cache.path().join(agent::folder_name());
        fs::create_dir_all(&current).unwrap();
        fs::create_dir_all(cache.path().join("agentd-0123456789abcdef")).unwrap();
        let found = list(cache.path()).unwrap();
        let said: Vec<_> =
            found.iter().map(|kept| (kept.description.as_str(), kept.bytes)).collect();
        assert_eq!(said, [("native layer abababababab", 100), ("native agent 0123456789ab", 0)]);
        for kept in &found {
            remove(cache.path(), kept).unwrap();
        }
        assert!(!layer.exists() && current.exists());
        assert!(cache.path().join("layers/my-notes").exists());
        let outside = CacheEntry { backend_id: "/".to_owned(), ..found[0].clone() };
        assert!(remove(cache.path(), &outside).is_err());
    }
}
