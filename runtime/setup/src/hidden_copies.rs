//! Lists the copies of hidden content that were found in a sandbox, and how each was handled.

use std::collections::BTreeMap;

use proctor_sandbox_api::wire::RawPath;

/// The copies that were hidden in a sandbox, and the exceptions: copies that test tools receive or
/// that were not removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HiddenCopies {
    /// The removed copies, as sentences for the record.
    pub removed_copies: Vec<String>,
    pub provided_modules: Vec<ProvidedModule>,
    pub remaining_copies: Vec<RemainingCopy>,
    pub(crate) workdir_copies: Vec<RawPath>,
    pub(crate) workdir_leaks: Vec<RawPath>,
}

/// A module that was removed from the sandbox, but that the test tool receives when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvidedModule {
    /// The module's path in the environment.
    pub path: RawPath,
    /// File contents by path below the import root.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// A copy of hidden content that was not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemainingCopy {
    pub location: String,
    /// Why the copy is needed.
    pub reason: String,
}

impl HiddenCopies {
    pub(crate) fn from_copies(workdir_copies: Vec<RawPath>) -> Self {
        Self { workdir_copies, ..Self::default() }
    }

    /// Returns the paths below the work directory that [`crate::remove_hidden_content`] removes.
    pub(crate) fn workdir_paths(&self) -> impl Iterator<Item = &RawPath> {
        self.workdir_copies.iter().chain(&self.workdir_leaks)
    }

    /// Returns the copies in the work directory that are recognized by name, without the other
    /// leaks.
    pub(crate) fn without_leaks(&self) -> Self {
        Self::from_copies(self.workdir_copies.clone())
    }

    /// Whether the leak check identified this path in the work directory as a copy.
    pub fn is_leak(&self, path: &RawPath) -> bool {
        self.workdir_leaks.contains(path)
    }
}
