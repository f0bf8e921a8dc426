//! Lists the copies of hidden content that were found in a sandbox, and how each was handled.

use std::collections::BTreeMap;

use proctor_sandbox_api::wire::RawPath;

/// The copies that were hidden in a sandbox, and the exceptions: copies that test tools receive or
/// that were not removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HiddenCopies {
    /// The removed copies, as sentences for the record.
    pub removed: Vec<String>,
    pub provided_modules: Vec<ProvidedModule>,
    pub kept: Vec<KeptCopy>,
    pub(crate) copies: Vec<RawPath>,
    pub(crate) leaks: Vec<RawPath>,
}

/// A module that was removed from the sandbox, but that the test tool receives when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvidedModule {
    /// The module's path in the environment.
    pub place: RawPath,
    /// File contents by path below the import root.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// A copy of hidden content that was not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptCopy {
    pub place: String,
    /// Why the copy is needed.
    pub why: String,
}

impl HiddenCopies {
    pub(crate) fn from_copies(copies: Vec<RawPath>) -> Self {
        Self { copies, ..Self::default() }
    }

    /// Returns the paths below the work directory that [`crate::remove_hidden_content`] removes.
    pub(crate) fn workdir_paths(&self) -> impl Iterator<Item = &RawPath> {
        self.copies.iter().chain(&self.leaks)
    }

    /// Returns the copies in the work directory that are recognized by name, without the other
    /// leaks.
    pub(crate) fn without_leaks(&self) -> Self {
        Self::from_copies(self.copies.clone())
    }

    /// Whether the leak check identified this path in the work directory as a copy.
    pub fn is_leak(&self, path: &RawPath) -> bool {
        self.leaks.contains(path)
    }
}
