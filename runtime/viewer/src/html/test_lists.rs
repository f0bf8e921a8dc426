//! The tests that a trial's page lists. Some tasks have tens of thousands of tests, and if a module
//! cannot be imported, all of them fail with a traceback.

use serde::Serialize;

use super::trial::TestLine;

/// Maximum number of failing tests that are shown with their log.
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

/// A trial's tests by result.
#[derive(Debug, Serialize)]
pub(crate) struct TestLists<'a> {
    failed_count: usize,
    /// Failing tests, with their logs.
    failed: Vec<&'a TestLine>,
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
        failed,
        failed_names: TestList::new(others),
        passed: TestList::new(passed),
    }
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
}
