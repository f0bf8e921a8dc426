//! Lists, normalizes and hashes the files in a bundle.

use std::{
    fs,
    io::Read,
    os::unix::fs::{PermissionsExt, lchown},
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::BundleError;

/// A file or symlink in a bundle. Directories have no items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TreeItem {
    /// The path, relative to the bundle's root.
    pub(crate) path: String,
    pub(crate) what: TreeItemKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TreeItemKind {
    File { mode: u32, size: u64, hash: String },
    Link { target: String },
}

/// Returns all regular files in a tree.
pub(crate) fn list_files(root: &Path) -> Result<Vec<PathBuf>, BundleError> {
    let all = list_entries(root)?;
    Ok(all.into_iter().filter(|(_, kind)| kind.is_file()).map(|(path, _)| path).collect())
}

/// Returns all entries in a tree in a fixed order. A directory comes before its content.
fn list_entries(root: &Path) -> Result<Vec<(PathBuf, fs::FileType)>, BundleError> {
    let (mut out, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = open.pop() {
        let io = |error: std::io::Error| BundleError::io(&folder, &error);
        for entry in fs::read_dir(&folder).map_err(io)? {
            let entry = entry.map_err(io)?;
            let kind = entry.file_type().map_err(io)?;
            if kind.is_dir() {
                open.push(entry.path());
            }
            out.push((entry.path(), kind));
        }
    }
    out.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(out)
}

/// Sets a standard owner (root, if permitted) and a standard mode for each entry. Rejects links
/// that lead outside the bundle, special files, and names that are not UTF-8.
pub(crate) fn normalize_tree(root: &Path) -> Result<(), BundleError> {
    let as_root = rustix::process::geteuid().is_root();
    for (path, kind) in list_entries(root)?.into_iter().chain([(root.to_owned(), root_kind(root)?)])
    {
        let io = |error: std::io::Error| BundleError::io(&path, &error);
        if as_root {
            lchown(&path, Some(0), Some(0)).map_err(io)?;
        }
        if kind.is_symlink() {
            let target = fs::read_link(&path).map_err(io)?;
            let below = path.strip_prefix(root).unwrap_or(&path);
            if !stays_below_root(below, &target) {
                let what = format!(
                    "{} -> {} points outside the bundle",
                    below.display(),
                    target.display()
                );
                return Err(BundleError::new(what));
            }
            continue;
        }
        let now = fs::metadata(&path).map_err(io)?.permissions().mode();
        let mode = match (kind.is_dir(), kind.is_file()) {
            (true, _) => 0o755,
            (_, true) if now & 0o111 != 0 => 0o755,
            (_, true) => 0o644,
            _ => {
                let what = format!("{} is not a file, folder or link", path.display());
                return Err(BundleError::new(what));
            }
        };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(io)?;
    }
    Ok(())
}

fn root_kind(root: &Path) -> Result<fs::FileType, BundleError> {
    Ok(fs::symlink_metadata(root).map_err(|error| BundleError::io(root, &error))?.file_type())
}

/// Returns whether a relative link at `path` leads to a place below the root.
fn stays_below_root(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count() as i64 - 1;
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir => depth -= 1,
            Component::RootDir | Component::Prefix(_) => return false,
        }
        if depth < 0 {
            return false;
        }
    }
    true
}

/// Returns all files and links in a tree. A file's item includes a hash of its content.
pub(crate) fn read_items(root: &Path) -> Result<Vec<TreeItem>, BundleError> {
    let mut out = Vec::new();
    for (path, kind) in list_entries(root)? {
        let io = |error: std::io::Error| BundleError::io(&path, &error);
        let what = if kind.is_symlink() {
            TreeItemKind::Link { target: path_to_string(&fs::read_link(&path).map_err(io)?)? }
        } else if kind.is_file() {
            let found = fs::metadata(&path).map_err(io)?;
            let hash = hash(&path).map_err(io)?;
            TreeItemKind::File {
                mode: found.permissions().mode() & 0o7777,
                size: found.len(),
                hash,
            }
        } else {
            continue;
        };
        out.push(TreeItem {
            path: path_to_string(path.strip_prefix(root).unwrap_or(&path))?,
            what,
        });
    }
    Ok(out)
}

fn path_to_string(path: &Path) -> Result<String, BundleError> {
    let named = path.to_str().map(str::to_owned);
    named.ok_or_else(|| BundleError::new(format!("{} is not UTF-8", path.display())))
}

fn hash(path: &Path) -> std::io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; 1 << 18];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hasher.finalize().to_hex().to_string()),
            read => hasher.update(&piece[..read]),
        };
    }
}

/// Returns a digest of modes, paths and contents. Times and owners don't affect it.
pub(crate) fn digest(items: &[TreeItem]) -> String {
    let mut hasher = blake3::Hasher::new();
    for item in items {
        let line = match &item.what {
            TreeItemKind::File { mode, size, hash } => {
                format!("{}\0{mode:o} {size} {hash}\n", item.path)
            }
            TreeItemKind::Link { target } => format!("{}\0-> {target}\n", item.path),
        };
        hasher.update(line.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

/// Returns the first difference in size, mode or link target. Unlike [`items`], does not read any
/// content.
pub(crate) fn find_change(root: &Path, items: &[TreeItem]) -> Option<String> {
    for item in items {
        let path = root.join(&item.path);
        let Ok(found) = fs::symlink_metadata(&path) else {
            return Some(format!("{} is missing", item.path));
        };
        let same = match &item.what {
            TreeItemKind::File { mode, size, .. } => {
                let now = found.permissions().mode() & 0o7777;
                found.is_file() && found.len() == *size && now == *mode
            }
            TreeItemKind::Link { target } => {
                fs::read_link(&path).is_ok_and(|now| now == Path::new(target))
            }
        };
        if !same {
            return Some(format!("{} has changed", item.path));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn sample_tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        fs::write(folder.path().join("bin/tool"), "#!x\n").unwrap();
        let mode = fs::Permissions::from_mode(0o4711);
        fs::set_permissions(folder.path().join("bin/tool"), mode).unwrap();
        fs::write(folder.path().join("note"), "n").unwrap();
        symlink("tool", folder.path().join("bin/other")).unwrap();
        normalize_tree(folder.path()).unwrap();
        folder
    }

    #[test]
    fn tree_digest_depends_on_content_and_executable_bit() {
        let (one, two) = (sample_tree(), sample_tree());
        let items_of_one = read_items(one.path()).unwrap();
        assert_eq!(digest(&items_of_one), digest(&read_items(two.path()).unwrap()));
        let modes: Vec<_> = items_of_one
            .iter()
            .filter_map(|item| match item.what {
                TreeItemKind::File { mode, .. } => Some(mode),
                TreeItemKind::Link { .. } => None,
            })
            .collect();
        assert_eq!(modes, [0o755, 0o644]);
        fs::write(two.path().join("note"), "m").unwrap();
        assert_eq!(find_change(two.path(), &items_of_one), None, "the size is the same");
        assert_ne!(digest(&items_of_one), digest(&read_items(two.path()).unwrap()));
        fs::write(two.path().join("note"), "longer").unwrap();
        assert_eq!(find_change(two.path(), &items_of_one).unwrap(), "note has changed");
        fs::remove_file(two.path().join("bin/other")).unwrap();
        assert_eq!(find_change(two.path(), &items_of_one).unwrap(), "bin/other is missing");
    }

    #[test]
    fn tree_rejects_links_out_of_the_bundle() {
        for target in ["/etc/passwd", "../../x", "sub/../../../x"] {
            let folder = sample_tree();
            symlink(target, folder.path().join("bin/link")).unwrap();
            assert!(normalize_tree(folder.path()).is_err(), "{target}");
        }
        assert!(stays_below_root(Path::new("bin/x"), Path::new("../lib/y")));
    }
}
