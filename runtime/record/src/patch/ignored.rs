//! The rules of the `.gitignore` files in the final tree.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use proctor_patch::parent_directories;
use proctor_wire::{EntryKind, RawPath};

use crate::{Blobs, RecordError, Tree};

/// Every `.gitignore` file in a tree, by directory. The user's global rules and `.git/info/exclude`
/// are not used, because they are not part of the trial's files.
pub(super) struct IgnoreRules {
    rules_by_folder: BTreeMap<Vec<u8>, Gitignore>,
}

impl IgnoreRules {
    /// Reads at most `limit` bytes of rules, because the rules are kept in memory and the agent
    /// controls their size.
    pub(super) fn load(tree: &Tree, blobs: &Blobs, limit: u64) -> Result<Self, RecordError> {
        let mut by_folder = BTreeMap::new();
        let mut read: u64 = 0;
        for (path, entry) in &tree.entries {
            let folder = match path.as_bytes().strip_suffix(b".gitignore") {
                Some(b"") => Vec::new(),
                Some([folder @ .., b'/']) => folder.to_vec(),
                _ => continue,
            };
            // Like Git, do not follow symlinks here.
            let (EntryKind::File, Some(hash)) = (entry.kind, &entry.hash) else { continue };
            read = read.saturating_add(entry.size);
            if read > limit {
                break;
            }
            let text = blobs.get(hash)?;
            let mut builder = GitignoreBuilder::new(make_absolute(&folder));
            for line in String::from_utf8_lossy(&text).lines() {
                // As in Git, an invalid pattern matches nothing.
                let _ = builder.add_line(None, line);
            }
            if let Ok(rules) = builder.build() {
                by_folder.insert(folder, rules);
            }
        }
        Ok(Self { rules_by_folder: by_folder })
    }

    /// Returns the length of the ignored prefix of a path. As in Git, a later rule cannot
    /// re-include a file below an ignored directory.
    pub(super) fn ignored_prefix_len(&self, path: &RawPath) -> Option<usize> {
        if self.rules_by_folder.is_empty() {
            return None;
        }
        parent_directories(path)
            .map(|folder| (folder, true))
            .chain([(path.clone(), false)])
            .find(|(head, is_folder)| self.ignores(head.as_bytes(), *is_folder))
            .map(|(head, _)| head.as_bytes().len())
    }

    /// Whether a path is ignored. If rules in several directories match, those in the deepest
    /// directory decide.
    fn ignores(&self, path: &[u8], is_folder: bool) -> bool {
        let mut folder = path;
        loop {
            folder = match folder.iter().rposition(|byte| *byte == b'/') {
                Some(slash) => &folder[..slash],
                None => b"",
            };
            if let Some(rules) = self.rules_by_folder.get(folder) {
                match rules.matched(make_absolute(path), is_folder) {
                    Match::None => {}
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                }
            }
            if folder.is_empty() {
                return false;
            }
        }
    }
}

/// Makes a path absolute. The matcher removes its root directory from the start of every path. With
/// relative paths, it could remove a part of a file's own name.
fn make_absolute(path: &[u8]) -> PathBuf {
    Path::new("/").join(OsStr::from_bytes(path))
}
