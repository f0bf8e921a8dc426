//! Reads the output of `go test -json`: one event per line.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::TestStatus;
use serde_json::Value;

use super::{
    content::Report,
    json::{json_lines, str_field},
};

fn is_event(value: &Value) -> bool {
    value.get("Action").is_some_and(Value::is_string)
        && ["Package", "ImportPath"].iter().any(|key| value.get(key).is_some())
}

pub(super) fn matches_format(log: &str) -> bool {
    json_lines(log).take(100).any(|value| is_event(&value))
}

fn final_status(action: &str) -> Option<TestStatus> {
    match action {
        "pass" => Some(TestStatus::Passed),
        "fail" => Some(TestStatus::Failed),
        "skip" => Some(TestStatus::Skipped),
        _ => None,
    }
}

pub(super) fn read(log: &str) -> Report {
    let mut report = Report::default();
    // The result of each package; `None` if the package has not finished.
    let mut packages: BTreeMap<String, Option<TestStatus>> = BTreeMap::new();
    let mut started: BTreeSet<String> = BTreeSet::new();
    let mut results: Vec<(String, TestStatus)> = Vec::new();
    for event in json_lines(log).filter(is_event) {
        let action = str_field(&event, "Action").unwrap_or_default();
        let Some(package) = str_field(&event, "Package") else {
            report.other_failure_count += usize::from(action == "build-fail");
            continue;
        };
        let ends = packages.entry(package.to_owned()).or_default();
        let Some(test) = str_field(&event, "Test") else {
            *ends = final_status(action).or(*ends);
            continue;
        };
        let id = format!("{package}::{test}");
        if action == "run" {
            started.insert(id);
        } else if let Some(status) = final_status(action) {
            results.push((id, status));
        }
    }
    let is_traced = !started.is_empty();
    for (id, status) in results {
        // If a test prints a line such as `--- PASS: TestX`, Go reports a result for a test that
        // never ran. Ignore it.
        if status != TestStatus::Passed || !is_traced || started.contains(&id) {
            report.add(id, status);
        }
    }
    // In a failed package, a test without a result panicked or its process died.
    for id in &started {
        let package = id.rsplit_once("::").map_or("", |(package, _)| package);
        let failed = packages.get(package) == Some(&Some(TestStatus::Failed));
        if failed && !report.tests.contains_key(id) {
            report.add(id.clone(), TestStatus::Failed);
        }
    }
    for (package, ends) in &packages {
        let prefix = format!("{package}::");
        let has_failed = |(id, status): (&String, &TestStatus)| {
            id.starts_with(&prefix) && *status == TestStatus::Failed
        };
        if *ends == Some(TestStatus::Failed) && !report.tests.iter().any(has_failed) {
            report.other_failure_count += 1;
        }
    }
    report.is_complete = !packages.is_empty() && packages.values().all(Option::is_some);
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(action: &str, package: &str, test: &str) -> String {
        let test = if test.is_empty() { String::new() } else { format!(",\"Test\":\"{test}\"") };
        format!("{{\"Time\":\"x\",\"Action\":\"{action}\",\"Package\":\"{package}\"{test}}}\n")
    }

    #[test]
    fn read_assigns_statuses_from_a_real_go_run() {
        let report = read(include_str!("../../../tests/reports/go.json"));
        use TestStatus::{Failed, Passed, Skipped};
        for (id, status) in [
            ("example.com/calc::TestAdd", Some(Failed)),
            ("example.com/calc::TestAdd/case_one", Some(Passed)),
            ("example.com/calc::TestAdd/bad", Some(Failed)),
            ("example.com/calc::TestSkip", Some(Skipped)),
            ("example.com/calc::TestGood", Some(Passed)),
            ("example.com/calc/sub::TestPanic", Some(Failed)),
            // A test printed this result. The test that it names does not exist.
            ("example.com/calc::TestFake", None),
        ] {
            assert_eq!(report.tests.get(id).copied(), status, "{id}");
        }
        assert!(report.is_complete && report.doubts.is_empty());
    }

    #[test]
    fn unfinished_package_means_an_incomplete_report() {
        let open = [event("run", "p", "T"), event("pass", "p", "T")].concat();
        assert!(!read(&open).is_complete);
        let closed = format!("{open}{}", event("pass", "p", ""));
        assert!(read(&closed).is_complete && read(&closed).failure_count() == 0);
        let broken = format!("{closed}{}", event("fail", "q", ""));
        assert_eq!((read(&broken).is_complete, read(&broken).failure_count()), (true, 1));
        // The process ended inside a test.
        let died = [event("run", "p", "T"), event("fail", "p", "")].concat();
        assert_eq!(read(&died).tests["p::T"], TestStatus::Failed);
    }

    #[test]
    fn result_without_start_event_is_counted() {
        assert_eq!(read(&event("pass", "p", "T")).tests["p::T"], TestStatus::Passed);
    }
}
