//! Proctor's own reader of logs and reports, for the strict policy.
//!
//! The reader searches for the ids that a task expects, so it never has to guess an id from a line.
//! A failure counts wherever it is printed and is final. A pass counts only where the runner prints
//! its results, and only in a log that ends like a complete run. If the exit status, the runner's
//! own totals and the results disagree, the log is in doubt.

mod agreement;
mod count;
mod junit;
mod lines;
mod log_reading;
mod node_id;
mod pytest;
mod pytest_session;
mod report;
mod sympy;
mod test_output;
mod unittest;

use proctor_types::{TestFormat, TestResults, TestStatus};

pub use lines::to_plain_text;
pub use log_reading::{LogReading, worst_status};
pub use pytest_session::{Totals, read_totals};
pub use report::{Report, detect_format};

/// Reads a log of pytest, unittest (including Django's) or sympy, or a report in another format.
/// Detects the format. `results` declares the task's format, without which a truncated report
/// cannot be read. Paths below `root` are made relative to `root`.
pub fn read(
    log: &[u8],
    expected_ids: &[String],
    results: Option<&TestResults>,
    root: &str,
) -> LogReading {
    let text = to_plain_text(log);
    let named =
        results.map(|results| results.format).filter(|format| *format != TestFormat::Pytest);
    if named.is_none() && junit::matches_format(&text) {
        return read_undeclared_junit(&text, expected_ids);
    }
    if let Some(format) = detect_format(&text).filter(|_| named.is_some()).or(named) {
        return Report::from_text(format, &text, root).into_log_reading(expected_ids);
    }
    let scope = test_output::find_test_output(&text);
    let is_sympy = sympy::matches_format(scope.body);
    let is_unittest = !is_sympy && unittest::matches_format(scope.body);
    let mut reading = if is_sympy {
        sympy::read(scope.body, expected_ids, scope.exit_status)
    } else if is_unittest {
        unittest::read(scope.body, expected_ids, scope.exit_status)
    } else if read_totals(scope.body).is_none()
        && let Some(format) = detect_format(scope.body)
    {
        Report::from_text(format, scope.body, root).into_log_reading(expected_ids)
    } else {
        pytest::read(scope.body, expected_ids, scope.exit_status)
    };
    reading.doubts.extend(scope.doubts);
    reading
}

/// Reads a JUnit report for a task that does not declare JUnit. Its expected ids may use several
/// notations.
fn read_undeclared_junit(text: &str, expected_ids: &[String]) -> LogReading {
    let mut reading = junit::read(text, expected_ids);
    let more = Report::from_text(TestFormat::Junit, text, "").expected_statuses(expected_ids);
    for (id, status) in &mut reading.tests {
        if *status == TestStatus::Missing {
            *status = more.get(id).copied().unwrap_or(*status);
        }
    }
    reading
}
