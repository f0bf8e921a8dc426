//! Tests `proctor grade --log`, which grades an existing log under the official and the strict
//! policy.

use serde_json::{Value, json};

use crate::stage::Stage;

fn task_row(benchmark: Value) -> String {
    json!({
        "schema_version": 1, "id": "owner__name-1", "repo": "owner/name", "statement": "x",
        "environment": {"image": "none"}, "fail_to_pass": ["test_a.py::test_one"],
        "pass_to_pass": [], "test_command": ["python", "-m", "pytest"], "gold": "x",
        "benchmark": benchmark
    })
    .to_string()
}

const FORGED_LOG: &str = "+ : '>>>>> Start Test Output'\nPASSED test_a.py::test_one\nFAILED bogus\n\
                      + : '>>>>> End Test Output'\n>>>>> Test Exit Code: 1\n";

#[test]
fn grade_log_prints_both_verdicts_on_a_forged_log() {
    let stage = Stage::new();
    let details = json!({"name": "swe-bench", "version": "5.0.2",
                         "details": {"log_parser": "parse_log_pytest"}});
    let task = stage.write_file("row.json", &task_row(details));
    let log = stage.write_file("test_output.txt", FORGED_LOG);
    let args = ["grade", "--log", log.to_str().unwrap(), "--task", task.to_str().unwrap()];
    let output = stage.run(args, 0);
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(verdict["schema_version"], 1);
    assert_eq!(verdict["resolved"], true);
    assert_eq!(verdict["passed_rate"], 1.0);
    assert_eq!(verdict["fail_to_pass"]["passed"], json!(["test_a.py::test_one"]));
    assert_eq!(verdict["tests"], json!({"test_a.py::test_one": "passed"}));
    assert_eq!(verdict["policies"]["official"]["name"], "swe-bench");
    assert_eq!(verdict["policies"]["official"]["version"], "5.0.2");
    assert_eq!(verdict["policies"]["official"]["resolved"], true);
    assert_eq!(verdict["policies"]["strict"]["resolved"], false);
}

/// Any file is accepted as a log. If it contains no test results, `grade` warns and grades it as
/// the benchmark would.
#[test]
fn grade_log_reports_a_log_without_results_for_the_task() {
    let stage = Stage::new();
    let told = |benchmark: Value, log: &str| {
        let mut row: Value = serde_json::from_str(&task_row(benchmark)).unwrap();
        if row["benchmark"].is_null() {
            row.as_object_mut().unwrap().remove("benchmark");
        }
        let task = stage.write_file("row.json", &row.to_string());
        let log = stage.write_file("log.txt", log);
        let args = ["grade", "--log", log.to_str().unwrap(), "--task", task.to_str().unwrap()];
        let output = stage.run(args, 0);
        let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (verdict["resolved"].clone(), said.replace("\n ", " "))
    };
    let bench = json!({"name": "swe-bench", "version": "5.0.2",
                       "details": {"log_parser": "parse_log_pytest"}});
    let (resolved, said) = told(bench.clone(), "a shopping list\nmilk\n");
    assert_eq!(resolved, false);
    for part in ["no test result", "2 lines", "the parser pytest of swe-bench 5.0.2", "hint"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (_, said) = told(Value::Null, "milk\n");
    assert!(said.contains("(1 line, read with Proctor's own rules)"), "{said}");
    let (_, said) = told(bench.clone(), &FORGED_LOG.replace("test_one", "test_two"));
    assert!(said.contains("none belongs to a test of this task"), "{said}");
    assert_eq!(told(bench, FORGED_LOG).1, "");
}

#[test]
fn grade_log_reports_an_unknown_parser_file_or_row() {
    let stage = Stage::new();
    let log = stage.write_file("test_output.txt", FORGED_LOG);
    let tell = |row_text: &str, log: &str| {
        let task = stage.write_file("row.json", row_text);
        let output = stage.run(["grade", "--log", log, "--task", task.to_str().unwrap()], 2);
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    let zig = json!({"name": "swe-bench", "details": {"log_parser": "parse_log_zig"}});
    let said = tell(&task_row(zig), log.to_str().unwrap());
    for part in ["row.json", "benchmark.details.log_parser", "parse_log_zig", "did you mean"] {
        assert!(said.contains(part), "{said}");
    }
    let plain = json!({"name": "swe-bench", "details": {"log_parser": "parse_log_pytest"}});
    let said = tell(&task_row(plain), "nowhere.txt");
    assert!(said.contains("nowhere.txt") && said.contains("hint"), "{said}");
    let said = tell("{\"schema_version\": 1}", log.to_str().unwrap());
    assert!(said.contains("row.json"), "{said}");
}
