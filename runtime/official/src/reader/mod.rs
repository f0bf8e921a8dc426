//! Our own reading of logs, for the strict policy.
//!
//! It looks for the ids that a task expects, so that no id needs to be guessed from a line. A
//! failure counts wherever it is printed and is final; a pass counts only where the runner prints
//! its results, in a log that ends as a whole run does. The exit status, the runner's own totals and
//! the results have to agree, or the log is doubted.

mod agreement;
mod count;
mod junit;
mod lines;
mod pytest;
mod scope;
mod sympy;
mod unittest;

use std::collections::BTreeMap;

use proctor_types::TestStatus;

pub use lines::plain;
pub use pytest::{Totals, totals};

/// What a log says about the expected tests.
#[derive(Debug, Default)]
pub struct LogReading {
    pub tests: BTreeMap<String, TestStatus>,
    /// The log ends as a whole run's does.
    pub ended: bool,
    /// What speaks against the log itself.
    pub doubts: Vec<String>,
}

/// Reads a log of pytest, unittest (and Django), sympy, or a JUnit XML report.
pub fn read(log: &[u8], wanted: &[String]) -> LogReading {
    let text = plain(log);
    if junit::is_one(&text) {
        return junit::read(&text, wanted);
    }
    let scope = scope::of(&text);
    let mut reading = if sympy::is_one(scope.body) {
        sympy::read(scope.body, wanted, scope.exit)
    } else if unittest::is_one(scope.body) {
        unittest::read(scope.body, wanted, scope.exit)
    } else {
        pytest::read(scope.body, wanted, scope.exit)
    };
    reading.doubts.extend(scope.doubts);
    reading
}

/// The worst of the statuses that were printed for one test: a failure is final.
pub fn worst(statuses: &[TestStatus]) -> TestStatus {
    let order = [
        TestStatus::Failed,
        TestStatus::Error,
        TestStatus::Skipped,
        TestStatus::Xfailed,
        TestStatus::Xpassed,
        TestStatus::Flaky,
        TestStatus::Passed,
    ];
    order.into_iter().find(|status| statuses.contains(status)).unwrap_or(TestStatus::Missing)
}
