//! The patch between two trees.

use std::collections::BTreeMap;

use proctor_patch::{
    FilePatch, MODE_EXECUTABLE, MODE_FILE, MODE_LINK, SideContent, check_path, is_binary,
};
use proctor_wire::{EntryKind, RawPath, SnapshotEntry};
use serde::{Deserialize, Serialize};

use super::{PatchPolicy, ignored::IgnoreRules, policy::ExcludeGlobs};
use crate::{Blobs, RecordError, Tree, TreeDifference};

/// The result of [`collect_patch`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectedPatch {
    pub bytes: Vec<u8>,
    /// Number of changed paths.
    pub changed_paths: u64,
    /// The paths left out, sorted. If a whole directory is left out, only the directory is listed.
    pub omitted_paths: Vec<OmittedPath>,
}

/// A path whose change is not in the patch, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OmittedPath {
    pub path: RawPath,
    pub why: String,
}

/// Returns the patch from `base` to `end`, for use with `git apply` and
/// [`proctor_patch::Patch::resolve`].
///
/// The ignore files of `end` apply only to paths that `base` does not contain. A tracked file stays
/// tracked. A patch does not include empty directories, or mode bits other than the owner's
/// executable bit. The policy's limits apply to the whole patch, so memory and time do not grow
/// with the tree.
///
/// # Errors
/// Fails if a blob that one of the trees refers to cannot be read, or if a glob in the policy is
/// invalid.
pub fn collect_patch(
    base: &Tree,
    end: &Tree,
    blobs: &Blobs,
    policy: &PatchPolicy,
) -> Result<CollectedPatch, RecordError> {
    let ignored = IgnoreRules::load(end, blobs, policy.ignore_limit_bytes)?;
    let excluded = ExcludeGlobs::compile(policy)?;
    let mut left_out =
        OmittedPaths { paths: BTreeMap::new(), unlisted_paths: 0, limit: policy.left_out_limit };
    let mut wanted = Vec::new();
    for change in base.diff(end) {
        let sides = [change.base, change.end];
        if sides.iter().flatten().all(|entry| entry.kind == EntryKind::Dir)
            || sides[0].map(patchable_properties) == sides[1].map(patchable_properties)
        {
            continue;
        }
        let path = change.path;
        let is_new = change.base.is_none_or(|entry| entry.kind == EntryKind::Dir);
        let mut leave = |length: usize, why: &str| left_out.add(&path.as_bytes()[..length], why);
        let whole = path.as_bytes().len();
        if let Some((length, why)) = excluded.excluded_prefix(path.as_bytes(), is_new) {
            leave(length, why);
        } else if let Some(length) = ignored.ignored_prefix_len(path).filter(|_| is_new) {
            leave(length, "new, and ignored by the repository's .gitignore");
        } else if check_path(path).is_err() {
            leave(whole, "patches must not touch this path");
        } else if whole > policy.path_limit_bytes {
            // List the directory instead of the path, because the paths of a deep tree would make
            // the outcome too large.
            let why = format!("path longer than {} bytes", policy.path_limit_bytes);
            leave(path.as_bytes().iter().position(|byte| *byte == b'/').unwrap_or(whole), &why);
        } else {
            wanted.push(change);
        }
    }
    sort_by_priority(&mut wanted);
    let mut used = PatchUsage {
        file_count: 0,
        patch_bytes: 0,
        content_bytes: 0,
        smallest_oversized: u64::MAX,
    };
    let mut pieces = BTreeMap::new();
    for change in wanted {
        let path = change.path;
        let left = match used.build_file_patch(path, [change.base, change.end], blobs, policy)? {
            Ok(piece) => {
                pieces.insert(path, piece);
                continue;
            }
            Err(why) => why,
        };
        left_out.add(path.as_bytes(), &left);
    }
    for folder in &end.unwalked_dirs {
        let folder = if folder.as_bytes().is_empty() { b"." } else { folder.as_bytes() };
        let shown = &folder[..folder.len().min(policy.path_limit_bytes)];
        left_out.add(shown, "too deep or too large to scan completely");
    }
    let files = pieces.len() as u64;
    let mut bytes = Vec::new();
    while let Some((_, piece)) = pieces.pop_first() {
        bytes.extend_from_slice(&piece);
    }
    Ok(CollectedPatch { bytes, changed_paths: files, omitted_paths: left_out.into_list() })
}

/// Sorts the changes by priority, because the limits may not allow all of them. Existing files come
/// first, then new files in directories with few new files, smallest first. New files in
/// directories with many new files come last, even if they are empty.
fn sort_by_priority(changes: &mut [TreeDifference<'_>]) {
    let folder = |path: &RawPath| {
        let bytes = path.as_bytes();
        bytes[..bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0)].to_vec()
    };
    let mut heaps: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.base.is_none()) {
        *heaps.entry(folder(change.path)).or_default() += 1;
    }
    changes.sort_by_cached_key(|change| match (change.base, change.end) {
        (None, Some(end)) => {
            let hundreds = heaps.get(&folder(change.path)).map_or(0, |count| count / 100);
            (true, hundreds, end.size == 0, end.size)
        }
        _ => (false, 0, false, 0),
    });
}

/// The list of paths left out, which is limited in length.
struct OmittedPaths {
    paths: BTreeMap<RawPath, String>,
    unlisted_paths: u64,
    limit: usize,
}

impl OmittedPaths {
    fn add(&mut self, path: &[u8], reason: &str) {
        let path = RawPath::new(path);
        if self.paths.contains_key(&path) {
            return;
        }
        if self.paths.len() < self.limit {
            self.paths.insert(path, reason.to_owned());
        } else {
            self.unlisted_paths += 1;
        }
    }

    fn into_list(self) -> Vec<OmittedPath> {
        let listed = self.paths.into_iter().map(|(path, why)| OmittedPath { path, why });
        let more = (self.unlisted_paths > 0).then(|| OmittedPath {
            path: "...".into(),
            why: format!(
                "and {} more path{}",
                self.unlisted_paths,
                if self.unlisted_paths == 1 { "" } else { "s" }
            ),
        });
        listed.chain(more).collect()
    }
}

/// The amounts that count toward the policy's limits so far.
struct PatchUsage {
    file_count: u64,
    patch_bytes: u64,
    content_bytes: u64,
    /// Size of the smallest file that did not fit. Files of this size or larger are skipped.
    smallest_oversized: u64,
}

impl PatchUsage {
    /// Returns one path's part of the patch, or the reason why the path is left out.
    fn build_file_patch(
        &mut self,
        path: &RawPath,
        sides: [Option<&SnapshotEntry>; 2],
        blobs: &Blobs,
        policy: &PatchPolicy,
    ) -> Result<Result<Vec<u8>, String>, RecordError> {
        if self.file_count >= policy.files_limit {
            let limit = policy.files_limit;
            return Ok(Err(format!("the patch would exceed {limit} files")));
        }
        let read: u64 = sides
            .iter()
            .flatten()
            .filter(|entry| entry.kind == EntryKind::File && entry.size <= policy.file_limit_bytes)
            .map(|entry| entry.size)
            .sum();
        if self.content_bytes + read > policy.content_limit_bytes {
            let limit = policy.content_limit_bytes;
            return Ok(Err(format!(
                "this file and the files before it contain more than {limit} bytes to compare"
            )));
        }
        let over = || {
            let limit = policy.bytes_limit;
            Ok(Err(format!("the patch would exceed {limit} bytes with this file")))
        };
        if read >= self.smallest_oversized {
            return over();
        }
        let (old, new) = match read_sides(sides[0], sides[1], blobs, policy)? {
            Ok(sides) => sides,
            Err(why) => return Ok(Err(why)),
        };
        self.content_bytes += read;
        let mut piece = Vec::new();
        if let Some(why) = append_change(path, old, new, policy, &mut piece) {
            return Ok(Err(why.to_owned()));
        }
        if self.patch_bytes + piece.len() as u64 > policy.bytes_limit {
            self.smallest_oversized = read;
            return over();
        }
        self.file_count += 1;
        self.patch_bytes += piece.len() as u64;
        Ok(Ok(piece))
    }
}

/// Returns the properties of an entry that a patch can represent.
fn patchable_properties(
    entry: &SnapshotEntry,
) -> (EntryKind, bool, Option<&String>, Option<&RawPath>, u64) {
    let executable = entry.kind == EntryKind::File && entry.mode & 0o100 != 0;
    let size = if entry.kind == EntryKind::File { entry.size } else { 0 };
    (entry.kind, executable, entry.hash.as_ref(), entry.link.as_ref(), size)
}

fn read_sides(
    base: Option<&SnapshotEntry>,
    end: Option<&SnapshotEntry>,
    blobs: &Blobs,
    policy: &PatchPolicy,
) -> Result<Result<(SideContent, SideContent), String>, RecordError> {
    let mut sides = [None, None];
    for (place, entry) in sides.iter_mut().zip([base, end]) {
        let Some(entry) = entry else { continue };
        *place = match entry.kind {
            EntryKind::Dir => None,
            EntryKind::Other => return Ok(Err("neither a file nor a link".into())),
            EntryKind::Link => match &entry.link {
                Some(target) => Some((MODE_LINK, target.as_bytes().to_vec())),
                None => return Ok(Err("link with an unknown target".into())),
            },
            EntryKind::File => {
                let limit = policy.file_limit_bytes;
                if entry.size > limit {
                    let size = entry.size;
                    return Ok(Err(format!("{size} bytes exceed the limit of {limit}")));
                }
                let Some(hash) = &entry.hash else {
                    return Ok(Err("too large for a snapshot".into()));
                };
                let executable = entry.mode & 0o100 != 0;
                let mode = if executable { MODE_EXECUTABLE } else { MODE_FILE };
                Some((mode, blobs.get(hash)?))
            }
        };
    }
    let [old, new] = sides;
    Ok(Ok((old, new)))
}

/// Appends one path's change to `patch`, or returns the reason why the policy excludes the change.
fn append_change(
    path: &RawPath,
    old: SideContent,
    new: SideContent,
    policy: &PatchPolicy,
    patch: &mut Vec<u8>,
) -> Option<&'static str> {
    let is_link = |side: &SideContent| side.as_ref().is_some_and(|(mode, _)| *mode == MODE_LINK);
    let contents = [&old, &new].map(|side| side.as_ref().map_or(&[][..], |(_, bytes)| bytes));
    let is_binary = contents.iter().any(|bytes| is_binary(bytes));
    if is_binary && !policy.binary {
        return Some("binary, excluded by policy");
    }
    // A change between file and symlink is written as a deletion and an addition.
    if old.is_some() && new.is_some() && is_link(&old) != is_link(&new) {
        FilePatch::from_sides(path, old, None).write(patch);
        FilePatch::from_sides(path, None, new).write(patch);
    } else {
        FilePatch::from_sides(path, old, new).write(patch);
    }
    None
}
