//! The graded tree: the pristine files with the patch applied.

use std::collections::BTreeSet;

use proctor_sandbox_api::wire::EntryKind;

use crate::{
    path_rules::{GuardReason, PathRules},
    pristine::PristineTree,
    shadow::ImportRoots,
};

/// Maximum number of test folders that the recorder checks for replacement.
const MAX_TEST_FOLDERS: usize = 1000;

/// The pristine tree, and the paths that the patch changed in it.
#[derive(Clone, Copy)]
pub(crate) struct PatchedTree<'a> {
    pub pristine: &'a PristineTree,
    pub paths: &'a PathRules<'a>,
    pub roots: &'a ImportRoots,
    /// The paths that the patch changed.
    pub changed_paths: &'a BTreeSet<String>,
}

impl PatchedTree<'_> {
    /// Whether the patch left a file unchanged.
    pub(crate) fn is_pristine(&self, path: &str) -> bool {
        match self.paths.guard_reason(path) {
            Some(GuardReason::Bytecode) => false,
            Some(_) => true,
            None => {
                self.pristine.entries.contains_key(path)
                    && !self.changed_paths.contains(path)
                    && !self.paths.is_masked(path)
            }
        }
    }

    /// Returns the test folders and their parents. Moving such a folder also moves tests.
    pub(crate) fn test_folders(&self) -> Vec<String> {
        let names = self.pristine.entries.iter();
        let folders = names.filter(|(path, kind)| {
            **kind == EntryKind::Dir
                && (self.paths.contains_watched_entry(path)
                    || self.paths.contains_test_folder(path))
        });
        folders.map(|(path, _)| path.clone()).take(MAX_TEST_FOLDERS).collect()
    }

    /// Whether a file existed when the run started and does not come from the patch.
    pub(crate) fn existed_before_run(&self, path: &str) -> bool {
        if self.pristine.files.contains_key(path) {
            return true;
        }
        let is_file = self.pristine.entries.get(path).is_some_and(|kind| *kind != EntryKind::Dir);
        is_file && !self.paths.is_task_path(path) && self.is_pristine(path)
    }
}
