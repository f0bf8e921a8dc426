use std::collections::{BTreeMap, VecDeque};

use proctor_sandbox_api::wire::RawPath;

/// One edit: the complete content of the file before and after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UndoEntry {
    /// The content before the edit; `None` if the edit created the file.
    pub(super) old_content: Option<Vec<u8>>,
    pub(super) new_content: Vec<u8>,
}

/// The edits of one trial, by file. They are kept on the host, where the sandbox cannot change
/// them.
#[derive(Debug)]
pub(super) struct History {
    depth: usize,
    files: BTreeMap<RawPath, VecDeque<UndoEntry>>,
}

impl History {
    pub(super) fn new(depth: usize) -> Self {
        Self { depth, files: BTreeMap::new() }
    }

    pub(super) fn push(&mut self, path: RawPath, entry: UndoEntry) {
        let edits = self.files.entry(path).or_default();
        edits.push_back(entry);
        if edits.len() > self.depth {
            edits.pop_front();
        }
    }

    pub(super) fn last_entry(&self, path: &RawPath) -> Option<&UndoEntry> {
        self.files.get(path)?.back()
    }

    pub(super) fn remove_last(&mut self, path: &RawPath) {
        if let Some(edits) = self.files.get_mut(path) {
            edits.pop_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_drops_the_oldest_edits_per_file() {
        let mut history = History::new(2);
        let edited = |n: u8| UndoEntry { old_content: None, new_content: vec![n] };
        let (a, b) = (RawPath::from("/a"), RawPath::from("/b"));
        for n in 1..=3 {
            history.push(a.clone(), edited(n));
        }
        history.push(b.clone(), edited(9));
        assert_eq!(history.last_entry(&a), Some(&edited(3)));
        history.remove_last(&a);
        assert_eq!(history.last_entry(&a), Some(&edited(2)));
        history.remove_last(&a);
        assert_eq!(history.last_entry(&a), None);
        assert_eq!(history.last_entry(&b), Some(&edited(9)));
    }
}
