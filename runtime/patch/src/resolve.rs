//! Resolves a patch against files: computes the new content of each path.

use std::collections::{BTreeMap, BTreeSet};

use proctor_wire::RawPath;

use crate::{
    Change, Current, PatchError, Resolved, apply, binary, guard,
    patch::{Body, FilePatch, How, MODE_EXECUTABLE, MODE_FILE, Patch, is_gitlink, is_link},
};

impl Patch {
    /// Resolves the whole patch against the current files.
    ///
    /// `current` returns the file at a path, or `None` if nothing or a directory is there. The
    /// result has one change per path. Deletions come first, so that a directory may replace a
    /// file; changes are then sorted by path. A modified file keeps its mode, except for executable
    /// bits that the patch sets or clears.
    ///
    /// # Errors
    /// As with `git apply`: returns an error if the patch cannot be parsed, a path is forbidden or
    /// goes through a symlink, a file unexpectedly exists or is missing, or a hunk does not match.
    pub fn resolve(
        &self,
        current: &dyn Fn(&RawPath) -> Option<Current>,
    ) -> Result<Vec<Change>, PatchError> {
        Ok(self.resolved(current, false)?.changes)
    }

    /// Like [`Self::resolve`], but skips parts that no tool could apply: submodules, and binary
    /// content missing from the patch. A patch with carriage returns applies to a file without
    /// them, as with GNU patch. All such parts are reported.
    ///
    /// # Errors
    /// Returns the errors of [`Self::resolve`] for all other parts.
    pub fn resolve_parts(
        &self,
        current: &dyn Fn(&RawPath) -> Option<Current>,
    ) -> Result<Resolved, PatchError> {
        self.resolved(current, true)
    }

    fn resolved(
        &self,
        current: &dyn Fn(&RawPath) -> Option<Current>,
        lenient: bool,
    ) -> Result<Resolved, PatchError> {
        self.touched()?;
        // One file's patch may write to a path that another one vacates, in either order.
        let leaves: BTreeSet<_> = self
            .files
            .iter()
            .filter(|file| file.how == How::Rename || file.new.is_none())
            .filter_map(|file| file.old.clone())
            .collect();
        let left_out = self.repairs.clone();
        let mut scene =
            Scene { current, after: BTreeMap::new(), leaves, held: 0, lenient, left_out };
        for file in &self.files {
            scene.play(file)?;
        }
        let left_out = std::mem::take(&mut scene.left_out);
        Ok(Resolved { changes: scene.changes()?, left_out })
    }
}

struct Scene<'a> {
    current: &'a dyn Fn(&RawPath) -> Option<Current>,
    /// The content of the paths touched so far.
    after: BTreeMap<RawPath, Option<Current>>,
    leaves: BTreeSet<RawPath>,
    /// Total bytes of all contents so far.
    held: usize,
    /// Whether to skip parts that no tool could apply.
    lenient: bool,
    left_out: Vec<String>,
}

impl Scene<'_> {
    fn now(&self, path: &RawPath) -> Option<Current> {
        match self.after.get(path) {
            Some(state) => state.clone(),
            None => (self.current)(path),
        }
    }

    fn play(&mut self, file: &FilePatch) -> Result<(), PatchError> {
        let name = file.name();
        let refuse = |why: &str| PatchError::Refused { path: name.clone(), why: why.to_owned() };
        if let Some(why) = inapplicable(file).filter(|_| self.lenient) {
            self.left_out.push(format!("{name}: {why}"));
            return Ok(());
        }
        for mode in [file.old_mode, file.new_mode].into_iter().flatten() {
            match mode & 0o170_000 {
                0o100_000 | 0o120_000 => {}
                _ if is_gitlink(mode) => return Err(refuse("submodules are not supported")),
                _ => return Err(refuse("its mode is not that of a file or a link")),
            }
        }
        let source = match &file.old {
            None => None,
            // All renames and copies in a patch read the files as they were before the patch.
            Some(old) if file.how != How::Change => Some((self.current)(old)),
            Some(old) => Some(self.now(old)),
        };
        let source = match source {
            None => None,
            Some(Some(found)) => Some(found),
            // Without a Git header, an empty old side may mean that the file does not exist yet.
            Some(None) if file.plain && makes(file) => None,
            Some(None) => return Err(refuse("there is no such file to change")),
        };
        let is_new_place = source.is_none() || file.old != file.new;
        if let Some(new) = file.new.as_ref().filter(|_| is_new_place)
            && self.now(new).is_some()
            && !self.leaves.contains(new)
        {
            return Err(refuse("the patch creates it, but it already exists"));
        }
        let was_link = matches!(source, Some(Current::Link { .. }));
        if source.is_some() && file.old_mode.is_some_and(|mode| is_link(mode) != was_link) {
            return Err(refuse(
                "this is a link in the patch or in the tree, but a file in the other",
            ));
        }
        let (bytes, mode) = match source {
            None => (Vec::new(), None),
            Some(Current::File { bytes, mode }) => (bytes, Some(mode)),
            Some(Current::Link { target }) => (target.0, None),
        };
        let after = match content(file, &name, &bytes) {
            Err(conflict) if self.lenient && file.crlf => {
                let Some(after) = without_returns(file, &bytes) else { return Err(conflict) };
                let why = "the patch has carriage returns, but the file has none";
                self.left_out.push(format!("{name}: {why}"));
                after
            }
            after => after?,
        };
        self.held += after.len();
        if self.held > binary::WHOLE_LIMIT {
            let limit = binary::WHOLE_LIMIT;
            return Err(refuse(&format!(
                "the patch's files together have more than {limit} bytes"
            )));
        }
        let Some(new) = &file.new else {
            if !after.is_empty() {
                return Err(refuse("the patch deletes it, but it would not be empty"));
            }
            self.after.insert(name, None);
            return Ok(());
        };
        let link = file.new_mode.map_or(was_link, is_link);
        let state = if link {
            if after.is_empty() || after.contains(&0) {
                return Err(refuse("the target of the link is empty or contains a NUL byte"));
            }
            Current::Link { target: RawPath(after) }
        } else {
            Current::File { bytes: after, mode: permissions(mode, file.new_mode) }
        };
        if file.how == How::Rename
            && let Some(old) = &file.old
            && !matches!(self.after.get(old), Some(Some(_)))
        {
            self.after.insert(old.clone(), None);
        }
        self.after.insert(new.clone(), Some(state));
        Ok(())
    }

    fn changes(self) -> Result<Vec<Change>, PatchError> {
        let (mut removals, mut writes) = (Vec::new(), Vec::new());
        for (path, state) in &self.after {
            let before = (self.current)(path);
            if state == &before {
                continue;
            }
            let Some(state) = state else {
                removals.push(Change::Remove { path: path.clone() });
                continue;
            };
            for folder in guard::folders(path) {
                let why = match self.now(&folder) {
                    None => continue,
                    Some(Current::Link { .. }) => {
                        format!("its path goes through the link {folder}")
                    }
                    Some(Current::File { .. }) => format!("{folder} is a file, not a folder"),
                };
                return Err(PatchError::Refused { path: path.clone(), why });
            }
            let path = path.clone();
            writes.push(match state.clone() {
                Current::File { bytes, mode } => Change::Write { path, bytes, mode: Some(mode) },
                Current::Link { target } => Change::Symlink { path, target },
            });
        }
        removals.append(&mut writes);
        Ok(removals)
    }
}

/// Returns whether all hunks of a plain patch have an empty old side.
fn makes(file: &FilePatch) -> bool {
    match &file.body {
        Body::Text(hunks) => {
            file.new.is_some()
                && hunks.iter().all(|hunk| hunk.old_start == 0 && hunk.old_lines().next().is_none())
        }
        _ => false,
    }
}

/// Returns why no tool could apply this part, if so. Tools reject a deletion without the binary
/// content, although it is not needed.
fn inapplicable(file: &FilePatch) -> Option<&'static str> {
    if [file.old_mode, file.new_mode].into_iter().flatten().any(is_gitlink) {
        return Some("a submodule, skipped");
    }
    let is_withheld = file.body == Body::Withheld && file.new.is_some();
    is_withheld.then_some("its binary content is not in the patch, skipped")
}

/// Returns the content after applying the hunks without their carriage returns.
fn without_returns(file: &FilePatch, before: &[u8]) -> Option<Vec<u8>> {
    let mut hunks = file.hunks().to_vec();
    for line in hunks.iter_mut().flat_map(|hunk| &mut hunk.lines) {
        let end = if line.bytes.ends_with(b"\n") { line.bytes.len() - 1 } else { line.bytes.len() };
        if line.bytes[..end].ends_with(b"\r") {
            line.bytes.remove(end - 1);
        }
    }
    if hunks.is_empty() { None } else { apply::apply(&hunks, before).ok() }
}

fn content(file: &FilePatch, name: &RawPath, before: &[u8]) -> Result<Vec<u8>, PatchError> {
    let refuse = |why: String| PatchError::Refused { path: name.clone(), why };
    match &file.body {
        Body::Empty => Ok(before.to_vec()),
        Body::Text(hunks) => apply::apply(hunks, before)
            .map_err(|(hunk, why)| PatchError::Conflict { path: name.clone(), hunk, why }),
        Body::Binary { forward, .. } => {
            // A binary patch has no context. Without this check it would apply to any file.
            if let Some((old, _)) = file.index.as_ref().filter(|(old, _)| old.len() == 40)
                && file.old.is_some()
                && *old != binary::blob_id(before)
            {
                return Err(refuse("the binary patch is for other content".into()));
            }
            binary::apply(forward, before).map_err(refuse)
        }
        Body::Withheld => {
            Err(refuse("its binary content is not in the patch; create it with `--binary`".into()))
        }
    }
}

/// Returns the new permissions. A patch only sets the executable bit; other bits are kept.
fn permissions(before: Option<u32>, said: Option<u32>) -> u32 {
    match (before, said) {
        (None, said) => said.unwrap_or(MODE_FILE) & 0o777,
        (Some(before), None) => before,
        (Some(before), Some(said)) if said & 0o100 == before & 0o100 => before,
        (Some(before), Some(MODE_EXECUTABLE)) => before | (before & 0o444) >> 2 | 0o100,
        (Some(before), Some(_)) => before & !0o111,
    }
}
