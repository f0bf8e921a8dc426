//! Resolves a patch against files: computes the new content of each path.

use std::collections::{BTreeMap, BTreeSet};

use proctor_wire::RawPath;

use crate::{
    Change, CurrentFile, PatchError, ResolvedPatch, apply, binary, guard,
    patch::{Body, ChangeKind, FilePatch, MODE_EXECUTABLE, MODE_FILE, Patch, is_gitlink, is_link},
};

impl Patch {
    /// Resolves the whole patch against the current files.
    ///
    /// `read_current` returns the file at a path, or `None` if nothing or a directory is there. The
    /// result has one change per path. Deletions come first, so that a directory may replace a
    /// file; changes are then sorted by path. A modified file keeps its mode, except for executable
    /// bits that the patch sets or clears.
    ///
    /// # Errors
    /// As with `git apply`: returns an error if the patch cannot be parsed, a path is forbidden or
    /// goes through a symlink, a file unexpectedly exists or is missing, or a hunk does not match.
    pub fn resolve(
        &self,
        read_current: &dyn Fn(&RawPath) -> Option<CurrentFile>,
    ) -> Result<Vec<Change>, PatchError> {
        Ok(self.resolve_with(read_current, false)?.changes)
    }

    /// Like [`Self::resolve`], but skips parts that no tool could apply: submodules, and binary
    /// content that is missing from the patch. As in GNU patch, a patch with carriage returns
    /// applies to a file without them. Every such part is reported.
    ///
    /// # Errors
    /// Returns the errors of [`Self::resolve`] for all other parts.
    pub fn resolve_lenient(
        &self,
        read_current: &dyn Fn(&RawPath) -> Option<CurrentFile>,
    ) -> Result<ResolvedPatch, PatchError> {
        self.resolve_with(read_current, true)
    }

    fn resolve_with(
        &self,
        read_current: &dyn Fn(&RawPath) -> Option<CurrentFile>,
        is_lenient: bool,
    ) -> Result<ResolvedPatch, PatchError> {
        self.touched_paths()?;
        // One file's patch may write to a path that another file's patch removes, in either order.
        let leaves: BTreeSet<_> = self
            .files
            .iter()
            .filter(|file| file.kind == ChangeKind::Rename || file.new_path.is_none())
            .filter_map(|file| file.old_path.clone())
            .collect();
        let left_out = self.repairs.clone();
        let mut scene = PatchedTree {
            read_current,
            patched_files: BTreeMap::new(),
            vacated_paths: leaves,
            total_bytes: 0,
            is_lenient,
            skipped_parts: left_out,
        };
        for file in &self.files {
            scene.apply_file(file)?;
        }
        let left_out = std::mem::take(&mut scene.skipped_parts);
        Ok(ResolvedPatch { changes: scene.into_changes()?, skipped_parts: left_out })
    }
}

struct PatchedTree<'a> {
    read_current: &'a dyn Fn(&RawPath) -> Option<CurrentFile>,
    /// The content of each path that the patch has touched so far.
    patched_files: BTreeMap<RawPath, Option<CurrentFile>>,
    vacated_paths: BTreeSet<RawPath>,
    /// Total bytes of all contents so far.
    total_bytes: usize,
    /// Whether to skip parts that no tool could apply.
    is_lenient: bool,
    skipped_parts: Vec<String>,
}

impl PatchedTree<'_> {
    fn current_entry(&self, path: &RawPath) -> Option<CurrentFile> {
        match self.patched_files.get(path) {
            Some(state) => state.clone(),
            None => (self.read_current)(path),
        }
    }

    fn apply_file(&mut self, file: &FilePatch) -> Result<(), PatchError> {
        let name = file.path();
        let refuse = |why: &str| PatchError::Refused { path: name.clone(), why: why.to_owned() };
        if let Some(why) = inapplicable_reason(file).filter(|_| self.is_lenient) {
            self.skipped_parts.push(format!("{name}: {why}"));
            return Ok(());
        }
        for mode in [file.old_mode, file.new_mode].into_iter().flatten() {
            match mode & 0o170_000 {
                0o100_000 | 0o120_000 => {}
                _ if is_gitlink(mode) => return Err(refuse("submodules are not supported")),
                _ => {
                    return Err(refuse("the mode is neither that of a regular file nor of a link"));
                }
            }
        }
        let source = match &file.old_path {
            None => None,
            // Renames and copies read the files as they were before the whole patch.
            Some(old) if file.kind != ChangeKind::Change => Some((self.read_current)(old)),
            Some(old) => Some(self.current_entry(old)),
        };
        let source = match source {
            None => None,
            Some(Some(found)) => Some(found),
            // Without a Git header, an empty old side may mean that the file does not exist yet.
            Some(None) if file.is_plain && creates_file(file) => None,
            Some(None) => return Err(refuse("there is no such file to change")),
        };
        let is_new_place = source.is_none() || file.old_path != file.new_path;
        if let Some(new) = file.new_path.as_ref().filter(|_| is_new_place)
            && self.current_entry(new).is_some()
            && !self.vacated_paths.contains(new)
        {
            return Err(refuse("the patch creates this file, but it already exists"));
        }
        let was_link = matches!(source, Some(CurrentFile::Link { .. }));
        if source.is_some() && file.old_mode.is_some_and(|mode| is_link(mode) != was_link) {
            return Err(refuse(
                "the patch and the tree disagree on whether this is a file or a link",
            ));
        }
        let (bytes, mode) = match source {
            None => (Vec::new(), None),
            Some(CurrentFile::File { bytes, mode }) => (bytes, Some(mode)),
            Some(CurrentFile::Link { target }) => (target.0, None),
        };
        let after = match patched_content(file, &name, &bytes) {
            Err(conflict) if self.is_lenient && file.has_crlf => {
                let Some(after) = apply_without_carriage_returns(file, &bytes) else {
                    return Err(conflict);
                };
                let why = "the patch has carriage returns, but the file has none";
                self.skipped_parts.push(format!("{name}: {why}"));
                after
            }
            after => after?,
        };
        self.total_bytes += after.len();
        if self.total_bytes > binary::MAX_PATCH_BYTES {
            let limit = binary::MAX_PATCH_BYTES;
            return Err(refuse(&format!(
                "the files in the patch have more than {limit} bytes in total"
            )));
        }
        let Some(new) = &file.new_path else {
            if !after.is_empty() {
                return Err(refuse(
                    "the patch deletes this file, but its hunks don't remove all of the content",
                ));
            }
            self.patched_files.insert(name, None);
            return Ok(());
        };
        let link = file.new_mode.map_or(was_link, is_link);
        let state = if link {
            if after.is_empty() || after.contains(&0) {
                return Err(refuse("the link's target is empty or contains a NUL byte"));
            }
            CurrentFile::Link { target: RawPath(after) }
        } else {
            CurrentFile::File { bytes: after, mode: new_permissions(mode, file.new_mode) }
        };
        if file.kind == ChangeKind::Rename
            && let Some(old) = &file.old_path
            && !matches!(self.patched_files.get(old), Some(Some(_)))
        {
            self.patched_files.insert(old.clone(), None);
        }
        self.patched_files.insert(new.clone(), Some(state));
        Ok(())
    }

    fn into_changes(self) -> Result<Vec<Change>, PatchError> {
        let (mut removals, mut writes) = (Vec::new(), Vec::new());
        for (path, state) in &self.patched_files {
            let before = (self.read_current)(path);
            if state == &before {
                continue;
            }
            let Some(state) = state else {
                removals.push(Change::Remove { path: path.clone() });
                continue;
            };
            for folder in guard::parent_directories(path) {
                let why = match self.current_entry(&folder) {
                    None => continue,
                    Some(CurrentFile::Link { .. }) => {
                        format!("the path goes through the link {folder}")
                    }
                    Some(CurrentFile::File { .. }) => format!("{folder} is a file, not a folder"),
                };
                return Err(PatchError::Refused { path: path.clone(), why });
            }
            let path = path.clone();
            writes.push(match state.clone() {
                CurrentFile::File { bytes, mode } => {
                    Change::Write { path, bytes, mode: Some(mode) }
                }
                CurrentFile::Link { target } => Change::Symlink { path, target },
            });
        }
        removals.append(&mut writes);
        Ok(removals)
    }
}

/// Returns whether all hunks of a plain patch have an empty old side.
fn creates_file(file: &FilePatch) -> bool {
    match &file.body {
        Body::Text(hunks) => {
            file.new_path.is_some()
                && hunks.iter().all(|hunk| hunk.old_start == 0 && hunk.old_lines().next().is_none())
        }
        _ => false,
    }
}

/// Returns the reason if no tool could apply this part. Such parts include deletions without the
/// deleted binary content: the content is not needed, but tools reject these deletions.
fn inapplicable_reason(file: &FilePatch) -> Option<&'static str> {
    if [file.old_mode, file.new_mode].into_iter().flatten().any(is_gitlink) {
        return Some("skipped a submodule");
    }
    let is_withheld = file.body == Body::Withheld && file.new_path.is_some();
    is_withheld.then_some("skipped, because the patch does not contain the binary content")
}

/// Returns the content after applying the hunks without their carriage returns.
fn apply_without_carriage_returns(file: &FilePatch, old_content: &[u8]) -> Option<Vec<u8>> {
    let mut hunks = file.hunks().to_vec();
    for line in hunks.iter_mut().flat_map(|hunk| &mut hunk.lines) {
        let end = if line.bytes.ends_with(b"\n") { line.bytes.len() - 1 } else { line.bytes.len() };
        if line.bytes[..end].ends_with(b"\r") {
            line.bytes.remove(end - 1);
        }
    }
    if hunks.is_empty() { None } else { apply::apply_hunks(&hunks, old_content).ok() }
}

fn patched_content(
    file: &FilePatch,
    name: &RawPath,
    old_content: &[u8],
) -> Result<Vec<u8>, PatchError> {
    let refuse = |why: String| PatchError::Refused { path: name.clone(), why };
    match &file.body {
        Body::Empty => Ok(old_content.to_vec()),
        Body::Text(hunks) => apply::apply_hunks(hunks, old_content)
            .map_err(|(hunk, why)| PatchError::Conflict { path: name.clone(), hunk, why }),
        Body::Binary { forward, .. } => {
            // A binary patch has no context, so without this check it would apply to any file.
            if let Some((old, _)) = file.blob_ids.as_ref().filter(|(old, _)| old.len() == 40)
                && file.old_path.is_some()
                && *old != binary::blob_id(old_content)
            {
                return Err(refuse("the binary patch was made for other content".into()));
            }
            binary::apply_binary_data(forward, old_content).map_err(refuse)
        }
        Body::Withheld => {
            Err(refuse("the binary content is missing; create the patch with `--binary`".into()))
        }
    }
}

/// Returns the new permissions. A patch can only change the executable bit; other bits are
/// kept.
fn new_permissions(old_permissions: Option<u32>, patch_mode: Option<u32>) -> u32 {
    match (old_permissions, patch_mode) {
        (None, said) => said.unwrap_or(MODE_FILE) & 0o777,
        (Some(before), None) => before,
        (Some(before), Some(said)) if said & 0o100 == before & 0o100 => before,
        (Some(before), Some(MODE_EXECUTABLE)) => before | (before & 0o444) >> 2 | 0o100,
        (Some(before), Some(_)) => before & !0o111,
    }
}
