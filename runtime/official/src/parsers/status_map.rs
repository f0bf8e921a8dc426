//! Test names and their statuses, in the order in which the tests first appear.

use std::collections::HashMap;

/// Test statuses in the order of a Python dictionary: a later status replaces the earlier one, but
/// keeps its position.
///
/// Statuses are words from the log. Most are `PASSED`, `FAILED`, `SKIPPED`, `ERROR` and `XFAIL`.
/// The official parsers accept any word that begins with one of these (`ERROR:`), but grade it as
/// neither passed nor failed.
#[derive(Debug, Clone, Default)]
pub struct StatusMap {
    entries: Vec<(String, String)>,
    positions: HashMap<String, usize>,
}

impl StatusMap {
    pub fn set(&mut self, name: impl Into<String>, status: impl Into<String>) {
        let (name, status) = (name.into(), status.into());
        match self.positions.get(&name) {
            Some(at) => self.entries[*at].1 = status,
            None => {
                self.positions.insert(name.clone(), self.entries.len());
                self.entries.push((name, status));
            }
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.positions.get(name).map(|at| self.entries[*at].1.as_str())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(name, status)| (name.as_str(), status.as_str()))
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }
}
