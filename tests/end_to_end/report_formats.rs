//! Tests tasks whose tests don't use pytest. Their results come from the report of another test
//! runner.

use serde_json::{Value, json};

use crate::stage::Stage;

const SOLVED: &str = "add() { echo $(($1 + $2)); }\n";
const MASK: &str = "diff --git a/calc.sh b/calc.sh\n--- a/calc.sh\n+++ b/calc.sh\n@@ -1,1 +1,1 @@\n\
                    -add() { echo $(($1 + $2)); }\n+add() { echo 0; }\n";
const TESTS: &str = ". ./calc.sh\necho 1..2\nif [ \"$(add 1 2)\" = 3 ]; then echo 'ok 1 - adds'; \
                     else echo 'not ok 1 - adds'; fi\necho 'ok 2 - zero'\n";

fn task_row(stage: &Stage, results: Value) -> Value {
    let source = stage.path("calc");
    std::fs::create_dir_all(source.join("tests")).unwrap();
    std::fs::write(source.join("calc.sh"), SOLVED).unwrap();
    std::fs::write(source.join("tests/run.sh"), TESTS).unwrap();
    json!({
        "schema_version": 1, "id": "calc-1", "statement": "Write add().", "environment": {"base": "host"},
        "source": {"path": source}, "mask": MASK, "hidden": ["tests"],
        "fail_to_pass": ["adds"], "pass_to_pass": ["zero"],
        "test_command": ["sh", "tests/run.sh"], "test_results": results
    })
}

#[test]
fn validate_warns_that_report_verdicts_are_never_clean() {
    let stage = Stage::new();
    let row = task_row(&stage, json!({"format": "tap"}));
    let tasks = stage.write_file("calc.jsonl", &row.to_string());
    let done = stage.run(["tasks", "validate", "--tasks", tasks.to_str().unwrap()], 0);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains(
            "note: 1 task graded with integrity `unverified`: \
             the process that runs the graded code writes the tap results"
        ),
        "{said}"
    );
    assert!(said.contains("valid: gold resolves every task"), "{said}");
}

#[test]
fn reports_of_every_format_are_graded_by_task_ids() {
    let stage = Stage::new();
    let row = task_row(&stage, json!({"format": "junit", "path": "report.xml"}));
    let task = stage.write_file("calc.json", &row.to_string());
    let junit =
        "<testsuite><testcase classname='Calc' name='adds'/><testcase name='zero'/></testsuite>";
    let ctrf = json!({"results": {"tests": [
        {"name": "adds", "suite": "calc", "status": "passed"}, {"name": "zero", "status": "failed"}]}});
    let go = "{\"Action\":\"run\",\"Package\":\"p\",\"Test\":\"adds\"}\n{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"adds\"}\n";
    for (name, log, adds, zero, resolved) in [
        ("junit.xml", junit.to_owned(), "passed", "passed", true),
        ("tap.txt", "1..2\nok 1 - adds\nok 2 - zero\n".to_owned(), "passed", "passed", true),
        ("ctrf.json", ctrf.to_string(), "passed", "failed", false),
        // In this report, the package has no final event.
        ("go.json", go.to_owned(), "passed", "missing", false),
        ("empty.txt", String::new(), "missing", "missing", false),
    ] {
        let log = stage.write_file(name, &log);
        let args = ["grade", "--log", log.to_str().unwrap(), "--task", task.to_str().unwrap()];
        let verdict: Value = serde_json::from_slice(&stage.run(args, 0).stdout).unwrap();
        let tests = &verdict["tests"];
        assert_eq!((&tests["adds"], &tests["zero"]), (&json!(adds), &json!(zero)), "{name}");
        assert_eq!(verdict["resolved"], resolved, "{name}: {verdict}");
        assert_eq!(verdict["integrity"], "unverified", "{name}");
    }
}
