//! The table `tests`: one row per expected test of a graded trial.

use std::collections::HashSet;

use proctor_types::Verdict;

use super::{Cell, Column, ColumnKind, column_info};
use crate::TaskReport;

/// One test in a verdict.
#[derive(Debug, Clone, Copy)]
pub struct TestRow<'a> {
    pub trial: &'a TaskReport,
    pub arm_name: &'a str,
    test: &'a str,
    kind: &'static str,
    status: proctor_types::TestStatus,
    passed: bool,
}

impl TestRow<'_> {
    /// Returns the row's values, in the order of [`TESTS`].
    pub fn cells(&self) -> Vec<Cell> {
        TESTS.iter().map(|column| (column.cell_fn)(self)).collect()
    }
}

/// Returns a verdict's rows, sorted by test id.
pub fn test_rows<'a>(
    trial: &'a TaskReport,
    arm_name: &'a str,
    verdict: &'a Verdict,
) -> impl Iterator<Item = TestRow<'a>> {
    let f2p = &verdict.fail_to_pass;
    let fail_to_pass: HashSet<&str> =
        f2p.passed.iter().chain(&f2p.failed).map(String::as_str).collect();
    let p2p = &verdict.pass_to_pass;
    let passed: HashSet<&str> = f2p.passed.iter().chain(&p2p.passed).map(String::as_str).collect();
    verdict.tests.iter().map(move |(test, status)| TestRow {
        trial,
        arm_name,
        test,
        kind: if fail_to_pass.contains(test.as_str()) { "fail_to_pass" } else { "pass_to_pass" },
        status: *status,
        passed: passed.contains(test.as_str()),
    })
}

type CellFn = fn(&TestRow<'_>) -> Cell;

const fn column(
    name: &'static str,
    kind: ColumnKind,
    about: &'static str,
    cell_fn: CellFn,
) -> Column<CellFn> {
    Column { info: column_info(name, kind, "", about), cell_fn }
}

/// The table's columns.
pub static TESTS: &[Column<CellFn>] = &[
    column("task", ColumnKind::Text, "the task's id", |row| (&row.trial.task).into()),
    column("arm", ColumnKind::Text, "the arm's id", |row| row.trial.arm.as_str().into()),
    column("arm_name", ColumnKind::Text, "the arm's name", |row| row.arm_name.into()),
    column("attempt", ColumnKind::Integer, "the attempt, counted from 1", |row| {
        row.trial.attempt.into()
    }),
    column("test", ColumnKind::Text, "the test's id", |row| row.test.into()),
    column("kind", ColumnKind::Text, "fail_to_pass or pass_to_pass", |row| row.kind.into()),
    column(
        "status",
        ColumnKind::Text,
        "passed, failed, error, skipped, xfailed, xpassed, flaky or missing",
        |row| row.status.to_string().into(),
    ),
    column("passed", ColumnKind::Boolean, "whether the verdict counts the test as passed", |row| {
        row.passed.into()
    }),
];
