//! Reads the JSON reports of jest, vitest (which uses the same format) and mocha.

use proctor_types::TestStatus;
use serde_json::Value;

use super::{
    content::Report,
    json::{array_field, count_field, find_object, str_field},
    root::ReportRoot,
};
use crate::reader::agreement::RunCounts;

fn is_jest(value: &Value) -> bool {
    value.get("testResults").is_some_and(Value::is_array)
}

fn is_mocha(value: &Value) -> bool {
    let has = |key: &str| value.get(key).is_some_and(Value::is_array);
    value.get("stats").is_some_and(Value::is_object) && has("passes") && has("failures")
}

fn find_report(log: &str) -> Option<Value> {
    find_object(log, &|value| is_jest(value) || is_mocha(value))
}

pub(super) fn matches_format(log: &str) -> bool {
    find_report(log).is_some()
}

pub(super) fn read(log: &str, root: &ReportRoot) -> Report {
    match find_report(log) {
        Some(value) if is_jest(&value) => read_jest(&value, root),
        Some(value) => read_mocha(&value, root),
        None => Report::default(),
    }
}

/// Returns `file::outer > inner > name`, or without a file, `outer > inner > name`.
fn test_id(file: Option<&str>, suites: &[&str], name: &str, root: &ReportRoot) -> String {
    let path: Vec<&str> = suites.iter().copied().chain([name]).collect();
    let path = path.join(" > ");
    match file.filter(|file| !file.is_empty()) {
        Some(file) => format!("{}::{path}", root.relative_path(file)),
        None => path,
    }
}

fn read_jest(value: &Value, root: &ReportRoot) -> Report {
    let mut report = Report::default();
    let (mut passed, mut failed) = (0, 0);
    for file in array_field(value, "testResults") {
        let tests = array_field(file, "assertionResults");
        for test in tests {
            let Some(name) = str_field(test, "title") else { continue };
            let suites: Vec<&str> =
                array_field(test, "ancestorTitles").iter().filter_map(Value::as_str).collect();
            let again = count_field(test, "invocations").is_some_and(|times| times > 1);
            let status = match str_field(test, "status") {
                Some("passed") => {
                    passed += 1;
                    if again { TestStatus::Flaky } else { TestStatus::Passed }
                }
                Some("failed") => {
                    failed += 1;
                    TestStatus::Failed
                }
                Some("pending" | "skipped" | "todo" | "disabled") => TestStatus::Skipped,
                _ => TestStatus::Error,
            };
            report.add(test_id(str_field(file, "name"), &suites, name, root), status);
        }
        let is_failed = |test: &Value| str_field(test, "status") == Some("failed");
        if is_failed(file) && !tests.iter().any(is_failed) {
            report.other_failure_count += 1;
        }
    }
    // Only jest reports whether a run was interrupted. vitest does not have this key.
    report.is_complete = value.get("wasInterrupted").and_then(Value::as_bool) != Some(true);
    report.add_disagreements(&RunCounts {
        runner_failure_count: count_field(value, "numFailedTests"),
        min_shown_failures: failed,
        max_shown_failures: failed,
        max_passed: count_field(value, "numPassedTests"),
        passed_count: passed,
        ..RunCounts::default()
    });
    report
}

fn read_mocha(value: &Value, root: &ReportRoot) -> Report {
    let mut report = Report { is_complete: true, ..Report::default() };
    let kinds = [
        ("passes", TestStatus::Passed),
        ("failures", TestStatus::Failed),
        ("pending", TestStatus::Skipped),
    ];
    for (key, status) in kinds {
        for test in array_field(value, key) {
            let Some(name) = str_field(test, "title") else { continue };
            let full = str_field(test, "fullTitle").unwrap_or(name);
            // Suite titles are joined with spaces, so nested suites cannot be distinguished.
            let above = full.strip_suffix(name).map(str::trim_end);
            let suites: Vec<&str> = above.into_iter().filter(|above| !above.is_empty()).collect();
            let again = count_field(test, "currentRetry").is_some_and(|retries| retries > 0);
            let status = match status {
                TestStatus::Passed if again => TestStatus::Flaky,
                status => status,
            };
            report.add(test_id(str_field(test, "file"), &suites, name, root), status);
        }
    }
    let stats = value.get("stats");
    let counted = |key: &str| stats.and_then(|stats| count_field(stats, key));
    let (passed, failed) =
        (array_field(value, "passes").len(), array_field(value, "failures").len());
    report.add_disagreements(&RunCounts {
        runner_failure_count: counted("failures"),
        min_shown_failures: failed,
        max_shown_failures: failed,
        max_passed: counted("passes"),
        passed_count: passed,
        ..RunCounts::default()
    });
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_report(log: &str, root: &str) -> Report {
        read(log, &ReportRoot::new(root))
    }

    #[test]
    fn jest_and_vitest_name_tests_by_file_and_suites() {
        for (log, file) in [
            (include_str!("../../../tests/reports/jest.json"), "a.test.js"),
            (include_str!("../../../tests/reports/vitest.json"), "v/a.test.js"),
        ] {
            let report = read_report(log, "/testbed");
            use TestStatus::{Failed, Passed, Skipped};
            for (name, status) in [
                ("calc > adds > two numbers", Passed),
                ("calc > adds > badly", Failed),
                ("calc > later", Skipped),
                ("top level", Passed),
            ] {
                assert_eq!(report.tests.get(&format!("{file}::{name}")), Some(&status), "{name}");
            }
            assert_eq!(report.tests.len(), 4);
            assert!(report.is_complete && report.doubts.is_empty(), "{:?}", report.doubts);
            // With another root, the path stays absolute. The task's ids still match the end of the
            // reported ids.
            let elsewhere = read_report(log, "/other");
            let id = format!("{file}::top level");
            assert_eq!(elsewhere.expected_statuses(std::slice::from_ref(&id))[&id], Passed);
        }
    }

    #[test]
    fn mocha_names_tests_by_file_and_suite_titles() {
        let report = read_report(include_str!("../../../tests/reports/mocha.json"), "/testbed/");
        use TestStatus::{Failed, Passed, Skipped};
        for (name, status) in [
            ("calc adds > two numbers", Passed),
            ("calc adds > badly", Failed),
            ("calc > later", Skipped),
            ("top level", Passed),
        ] {
            let id = format!("m/a.spec.js::{name}");
            assert_eq!(report.tests.get(&id), Some(&status), "{id}");
        }
        assert!(report.is_complete && report.doubts.is_empty(), "{:?}", report.doubts);
    }

    #[test]
    fn jest_counts_load_errors_as_failures_and_retries_as_flaky() {
        let log = r#"{"testResults": [
            {"name": "/r/a.js", "status": "failed", "message": "Cannot find module", "assertionResults": []},
            {"name": "/r/b.js", "status": "passed", "assertionResults": [
              {"title": "t", "ancestorTitles": [], "status": "passed", "invocations": 2}]}]}"#;
        let report = read_report(log, "/r");
        assert_eq!((report.failure_count(), report.tests["b.js::t"]), (1, TestStatus::Flaky));
        let forged = log.replace("{\"testResults\"", "{\"numFailedTests\": 1, \"testResults\"");
        let doubts = read_report(&forged, "/r").doubts;
        assert_eq!(doubts, ["failures counted by the runner: 1, shown: 0"]);
        let stopped = log.replace("{\"testResults\"", "{\"wasInterrupted\": true, \"testResults\"");
        assert!(!read_report(&stopped, "/r").is_complete);
    }
}
