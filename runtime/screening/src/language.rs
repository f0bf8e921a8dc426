//! Screening of one language.

use std::collections::BTreeSet;

/// A location in a file that violates a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Index of the rule in the table.
    pub(crate) rule: usize,
    pub(crate) line: usize,
    /// The text that is compared with hits in the base tree and in the gold patch, to excuse this
    /// hit.
    pub(crate) expression: String,
    pub(crate) snippet: String,
    /// The index of the group, if the rule needs a hit in each of its groups.
    pub(crate) group: Option<usize>,
}

/// Screens files of one language.
pub trait LanguageScreen: Sync {
    /// Whether this screen can read a file with this path and content.
    fn can_read(&self, path: &str, bytes: &[u8]) -> bool;

    /// Returns the rule violations in a file. Code that cannot be read violates a separate rule.
    fn find_hits(&self, path: &str, bytes: &[u8], owned_modules: &BTreeSet<String>) -> Vec<Hit>;
}
