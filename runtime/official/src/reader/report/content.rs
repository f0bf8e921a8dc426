//! The content of a report, and how expected ids are found in it.

use std::collections::BTreeMap;

use proctor_types::TestStatus;

use crate::reader::{LogReading, agreement::RunCounts, node_id::split_node_id, worst_status};

/// The content of a report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Every test by its id.
    pub tests: BTreeMap<String, TestStatus>,
    /// Whether the report ends as it does after a complete run.
    pub is_complete: bool,
    /// Reasons to doubt the report itself.
    pub doubts: Vec<String>,
    /// Failures that don't belong to a test, such as a file that cannot be loaded or a package that
    /// cannot be built.
    pub other_failure_count: usize,
}

impl Report {
    /// Returns the expected tests' statuses.
    pub fn expected_statuses(&self, expected_ids: &[String]) -> BTreeMap<String, TestStatus> {
        let status = |id: &String| {
            self.resolve_id(id)
                .and_then(|id| self.tests.get(id))
                .copied()
                .unwrap_or(TestStatus::Missing)
        };
        expected_ids.iter().map(|id| (id.clone(), status(id))).collect()
    }

    /// Returns the reported id to which an expected id refers: the identical id or, if there is
    /// none, the only reported id that ends with the expected id.
    ///
    /// A suffix that consists of whole components is preferred. For example, `adds` refers to
    /// `Calc::adds` even if there is a test `Calc::never adds`.
    pub fn resolve_id(&self, expected_id: &str) -> Option<&str> {
        if let Some((id, _)) = self.tests.get_key_value(expected_id) {
            return Some(id.as_str());
        }
        if expected_id.is_empty() {
            return None;
        }
        let is_part = |head: &str| head.ends_with("::") || head.ends_with(" > ");
        let is_word = |head: &str| !head.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let found = self
            .find_unique_suffix(expected_id, &is_part)
            .or_else(|| self.find_unique_suffix(expected_id, &is_word));
        // pytest's JUnit report splits a node id into a class and a name.
        found.flatten().or_else(|| {
            let (class, name) = split_node_id(expected_id);
            self.tests.get_key_value(&format!("{class}::{name}")).map(|(id, _)| id.as_str())
        })
    }

    /// Returns the only id that ends with `expected_id` and whose beginning satisfies `predicate`.
    /// Returns `None` if no id matches, and `Some(None)` if several match.
    fn find_unique_suffix(
        &self,
        expected_id: &str,
        predicate: &dyn Fn(&str) -> bool,
    ) -> Option<Option<&str>> {
        let ends = |id: &&String| id.strip_suffix(expected_id).is_some_and(predicate);
        let mut found = self.tests.keys().filter(ends);
        let first = found.next()?;
        Some(found.next().is_none().then_some(first.as_str()))
    }

    /// Adds a result. If a test has several results, the worst one counts.
    pub(in crate::reader) fn add(&mut self, id: String, status: TestStatus) {
        let now = self.tests.entry(id).or_insert(status);
        *now = worst_status(&[*now, status]);
    }

    fn count_with_status(&self, statuses: &[TestStatus]) -> usize {
        self.tests.values().filter(|status| statuses.contains(status)).count()
    }

    /// Number of failed tests, plus failures that do not belong to a test.
    pub fn failure_count(&self) -> usize {
        self.count_with_status(&[TestStatus::Failed, TestStatus::Error]) + self.other_failure_count
    }

    /// Compares the runner's counts with the results that it lists.
    pub(in crate::reader) fn add_disagreements(&mut self, counts: &RunCounts) {
        self.doubts.extend(counts.disagreements());
    }

    pub(in crate::reader) fn into_log_reading(self, expected_ids: &[String]) -> LogReading {
        LogReading {
            tests: self.expected_statuses(expected_ids),
            is_complete: self.is_complete,
            doubts: self.doubts,
        }
    }
}
