//! Limits the tests that a trial's page lists. Some tasks have tens of thousands of tests. If a
//! module cannot be imported, all of these tests fail with a traceback.

use serde::Serialize;

use super::trial::TestLine;

/// Maximum number of failing tests that are shown with their log. Tests with the same log count
/// separately.
const MAX_LOGS: usize = 100;
/// Maximum number of tests in a list of names.
const MAX_NAMES: usize = 1_000;

/// Some of a trial's tests.
#[derive(Debug, Serialize)]
pub(crate) struct TestList<'a> {
    /// Number of tests, including those that are not listed.
    count: usize,
    rows: Vec<&'a TestLine>,
    /// Number of tests that are not listed.
    more: usize,
}

impl<'a> TestList<'a> {
    fn new(mut rows: Vec<&'a TestLine>) -> Self {
        let count = rows.len();
        rows.truncate(MAX_NAMES);
        Self { count, more: count - rows.len(), rows }
    }
}

/// Failing tests that share one section of the log.
#[derive(Debug, Serialize)]
pub(crate) struct FailureGroup<'a> {
    tests: Vec<&'a TestLine>,
    log: &'a str,
}

/// A trial's tests by result.
#[derive(Debug, Serialize)]
pub(crate) struct TestLists<'a> {
    failed_count: usize,
    /// Failing tests, with their logs.
    failed: Vec<FailureGroup<'a>>,
    /// Further failing tests, without their logs.
    failed_names: TestList<'a>,
    passed: TestList<'a>,
}

pub(crate) fn test_lists(tests: &[TestLine]) -> TestLists<'_> {
    let (passed, mut failed): (Vec<_>, Vec<_>) = tests.iter().partition(|test| test.passed);
    let failed_count = failed.len();
    let others = failed.split_off(failed_count.min(MAX_LOGS));
    TestLists {
        failed_count,
        failed: group_failures(failed),
        failed_names: TestList::new(others),
        passed: TestList::new(passed),
    }
}

/// Groups tests with the same log. If a module cannot be imported, all of its tests have the same
/// one.
fn group_failures(tests: Vec<&TestLine>) -> Vec<FailureGroup<'_>> {
    let mut groups: Vec<FailureGroup<'_>> = Vec::new();
    for test in tests {
        let log = test.log.as_str();
        match groups.iter_mut().find(|group| !log.is_empty() && group.log == log) {
            Some(group) => group.tests.push(test),
            None => groups.push(FailureGroup { tests: vec![test], log }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_shortened_and_counted() {
        let test = |passed| TestLine { passed, ..TestLine::default() };
        let few = [test(true), test(false)];
        let lists = test_lists(&few);
        assert_eq!((lists.failed_count, lists.failed.len(), lists.failed_names.count), (1, 1, 0));
        assert_eq!((lists.passed.count, lists.passed.rows.len(), lists.passed.more), (1, 1, 0));
        let many = vec![test(false); MAX_LOGS + MAX_NAMES + 5];
        let lists = test_lists(&many);
        assert_eq!((lists.failed_count, lists.failed.len()), (many.len(), MAX_LOGS));
        let names = lists.failed_names;
        assert_eq!((names.count, names.rows.len(), names.more), (MAX_NAMES + 5, MAX_NAMES, 5));
    }

    #[test]
    fn tests_with_the_same_log_are_one_group() {
        let test = |id: &str, log: &str| TestLine {
            id: id.to_owned(),
            log: log.to_owned(),
            ..TestLine::default()
        };
        let tests = [test("a", "x"), test("b", ""), test("c", "x"), test("d", "")];
        let lists = test_lists(&tests);
        let ids: Vec<Vec<&str>> = lists
            .failed
            .iter()
            .map(|group| group.tests.iter().map(|test| test.id.as_str()).collect())
            .collect();
        assert_eq!(ids, [vec!["a", "c"], vec!["b"], vec!["d"]]);
        assert_eq!(lists.failed_count, 4);
    }
}
