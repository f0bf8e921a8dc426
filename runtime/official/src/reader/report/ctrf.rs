//! Reads the Common Test Report Format: <https://ctrf.io>.

use proctor_types::TestStatus;
use serde_json::Value;

use super::{
    content::Report,
    json::{array_field, count_field, find_object, str_field},
};
use crate::reader::agreement::RunCounts;

fn results(value: &Value) -> Option<&Value> {
    value.get("results").filter(|results| results.get("tests").is_some_and(Value::is_array))
}

fn find_report(log: &str) -> Option<Value> {
    find_object(log, &|value| results(value).is_some())
}

pub(super) fn matches_format(log: &str) -> bool {
    find_report(log).is_some()
}

pub(super) fn read(log: &str) -> Report {
    let mut report = Report::default();
    let value = find_report(log);
    let Some(results) = value.as_ref().and_then(results) else { return report };
    report.is_complete = true;
    for test in array_field(results, "tests") {
        let Some(name) = str_field(test, "name") else { continue };
        let suites: Vec<&str> = match test.get("suite") {
            Some(Value::String(suite)) if !suite.is_empty() => vec![suite.as_str()],
            Some(Value::Array(suites)) => suites.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let id = suites.into_iter().chain([name]).collect::<Vec<_>>().join(" > ");
        let flaky = test.get("flaky").and_then(Value::as_bool) == Some(true);
        report.add(
            id,
            match str_field(test, "status") {
                Some("passed") if flaky => TestStatus::Flaky,
                Some("passed") => TestStatus::Passed,
                Some("failed") => TestStatus::Failed,
                Some("skipped" | "pending") => TestStatus::Skipped,
                // Don't treat `other` as a pass.
                _ => TestStatus::Error,
            },
        );
    }
    let listed = |status: &str| {
        array_field(results, "tests")
            .iter()
            .filter(|test| str_field(test, "status") == Some(status))
            .count()
    };
    let (passed, failed) = (listed("passed"), listed("failed"));
    let summary = results.get("summary");
    let counted = |key: &str| summary.and_then(|summary| count_field(summary, key));
    report.add_disagreements(&RunCounts {
        runner_failure_count: counted("failed"),
        min_shown_failures: failed,
        max_shown_failures: failed,
        max_passed: counted("passed"),
        passed_count: passed,
        ..RunCounts::default()
    });
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_names_ctrf_tests_by_suite_and_name() {
        let log = r#"{"results": {"tool": {"name": "pytest"},
            "summary": {"tests": 6, "passed": 3, "failed": 1, "pending": 0, "skipped": 1, "other": 1},
            "tests": [
              {"name": "plain", "status": "passed", "duration": 1},
              {"name": "old", "status": "failed", "suite": "calc"},
              {"name": "new", "status": "passed", "suite": ["calc", "adds"]},
              {"name": "lucky", "status": "passed", "flaky": true, "suite": ""},
              {"name": "later", "status": "skipped"}, {"name": "odd", "status": "other"}]}}"#;
        let report = read(log);
        use TestStatus::{Error, Failed, Flaky, Passed, Skipped};
        for (id, status) in [
            ("plain", Passed),
            ("calc > old", Failed),
            ("calc > adds > new", Passed),
            ("lucky", Flaky),
            ("later", Skipped),
            ("odd", Error),
        ] {
            assert_eq!(report.tests.get(id), Some(&status), "{id}");
        }
        assert!(report.is_complete && report.doubts.is_empty(), "{:?}", report.doubts);
        let forged = log.replace("\"failed\": 1", "\"failed\": 2");
        assert_eq!(read(&forged).doubts, ["failures counted by the runner: 2, shown: 1"]);
    }
}
