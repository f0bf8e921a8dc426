//! Tests that repetition finds a test with random results, that a certificate lists the test, and
//! that verdicts exclude it.

use serde_json::{Value, json};

use crate::stage::{Stage, find_arm, find_files};

/// Writes a task with a reliable test and a random test, which passes with a probability of 3/8. If
/// the random test fails and its canary passes by chance, the grader runs the test again. Per
/// grading run, the test therefore passes with a probability of 3/8 to 5/8, and repetition finds it
/// in either case.
fn write_coin_task(stage: &Stage) -> String {
    let source = stage.path("coin");
    std::fs::create_dir_all(source.join("tests")).unwrap();
    std::fs::write(source.join("coin.py"), "def sides():\n    return 2\n").unwrap();
    std::fs::write(
        source.join("tests/test_coin.py"),
        "import os\nimport coin\n\n\
         def test_sides():\n    assert coin.sides() == 2\n\n\
         def test_toss():\n    assert os.urandom(1)[0] % 8 < 3\n",
    )
    .unwrap();
    let row = json!({
        "schema_version": 1, "id": "coin-1", "statement": "Write sides().",
        "environment": {"base": "host",
            "setup": ["python3 -m venv /venv", "/venv/bin/pip install --quiet pytest==8.4.2"]},
        "source": {"path": source},
        "mask": "diff --git a/coin.py b/coin.py\n--- a/coin.py\n+++ b/coin.py\n\
                 @@ -1,2 +1,2 @@\n def sides():\n-    return 2\n+    raise NotImplementedError\n",
        "fail_to_pass": ["tests/test_coin.py::test_sides"],
        "pass_to_pass": ["tests/test_coin.py::test_toss"],
        "test_command": ["/venv/bin/python", "-m", "pytest", "-q"]
    });
    stage.write_file("coin.jsonl", &row.to_string()).to_str().unwrap().to_owned()
}

#[test]
fn flaky_test_is_certified_and_quarantined() {
    let stage = Stage::new();
    let (tasks, certificate) = (write_coin_task(&stage), stage.path("certificate.json"));
    let file = certificate.to_str().unwrap();
    // The probability that all twelve runs of gold agree and all twelve runs of noop agree is below
    // 1 in 50,000.
    let flags = ["--repeat", "12", "--certificate", file];
    let args = [["tasks", "validate", "--tasks", tasks.as_str()].as_slice(), &flags].concat();
    let said = stage.proctor(args).output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("flaky: coin-1: tests/test_coin.py::test_toss:"), "{said}");

    let made: Value = serde_json::from_slice(&std::fs::read(&certificate).unwrap()).unwrap();
    let task = &made["tasks"][0];
    let flaky: Vec<&String> = task["flaky"].as_object().unwrap().keys().collect();
    assert_eq!(flaky, ["tests/test_coin.py::test_toss"]);
    assert_eq!(task["noop_resolved"], 0);
    // A second run cannot confirm the result of a flaky test. A passing canary of such a test
    // proves nothing and is not suspicious.
    let integrity = task["gold_integrity"].as_object().unwrap();
    let sum: u64 = integrity.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(sum, 12, "{integrity:?}");
    assert!(integrity.keys().all(|kind| kind == "clean" || kind == "unverified"), "{integrity:?}");
    assert_eq!(task["gold_seconds"].as_array().unwrap().len(), 12);
    assert!(task["peak_memory_mb"].as_f64().unwrap() > 1.0, "{task}");

    let out = stage.path("graded");
    let out_text = out.to_str().unwrap();
    let grade = ["grade", "--predictions", "gold", "--tasks", &tasks, "--out", out_text];
    stage.run([grade.as_slice(), &["--certificate", file]].concat(), 0);
    assert_eq!(find_arm(&stage.report(&out), "gold")["resolved"], 1);
    let verdict = std::fs::read(&find_files(&out, "verdict.json")[0]).unwrap();
    let verdict: Value = serde_json::from_slice(&verdict).unwrap();
    // There may also be other evidence, because the random test may have been run again or its
    // canary may have been inconclusive.
    let kinds: Vec<&Value> =
        verdict["evidence"].as_array().unwrap().iter().map(|one| &one["kind"]).collect();
    assert!(kinds.iter().any(|kind| *kind == "quarantined"), "{kinds:?}");
    assert!(
        verdict["tests"]["tests/test_coin.py::test_toss"].is_string(),
        "quarantined tests are still shown"
    );
    let text = stage.run(["report", out_text], 0);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains(
            "with a flake certificate from 12 runs on native: 1 unreliable test, quarantined"
        ),
        "{text}"
    );
}

#[test]
fn invalid_certificate_is_reported() {
    let stage = Stage::new();
    let bad = stage.write_file("bad.json", "{}");
    let out = stage.path("out");
    let args = ["grade", "--predictions", "gold", "--tasks", "configs/tasks/demo.jsonl"];
    let more = ["--out", out.to_str().unwrap(), "--certificate", bad.to_str().unwrap()];
    let said = stage.run([args.as_slice(), &more].concat(), 2);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("bad.json is not a certificate"), "{said}");
    assert!(!out.exists());
    // A dry run also reports it.
    let set = format!("grading.certificate={}", bad.display());
    let said = stage.run(["run", "demo", "--dry-run", "--set", &set].to_vec(), 2);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("bad.json is not a certificate"), "{said}");
}
