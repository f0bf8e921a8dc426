//! Tests tasks whose agents could read the fail-to-pass tests, and tasks that list tests that do
//! not exist.

use serde_json::{Value, json};

use crate::stage::Stage;

const SOURCE: &str = "def heads():\n    return 1\n\n\ndef tails():\n    return 0\n";
const TESTS: &str = "import coin\n\n\nclass TestCoin:\n    def test_heads(self):\n        assert coin.heads() == 1\n\n    \
    def test_tails(self):\n        assert coin.tails() == 0\n";
const MASK: &str = "diff --git a/coin.py b/coin.py\n--- a/coin.py\n+++ b/coin.py\n\
    @@ -1,6 +1,2 @@\n def heads():\n     return 1\n-\n-\n-def tails():\n-    return 0\n";
const TEST_PATCH: &str = "diff --git a/tests/test_coin.py b/tests/test_coin.py\n--- a/tests/test_coin.py\n\
    +++ b/tests/test_coin.py\n@@ -8,2 +8,3 @@\n     def test_tails(self):\n\
    \x20        assert coin.tails() == 0\n+        assert [coin.tails(), coin.heads()] == [0, 1]\n";
const TAILS: &str = "tests/test_coin.py::TestCoin::test_tails";

/// Validates one task with these keys. Returns the output.
fn validate(keys: &Value, flags: &[&str], status: i32) -> String {
    let stage = Stage::new();
    let source = stage.path("coin");
    std::fs::create_dir_all(source.join("tests")).unwrap();
    std::fs::write(source.join("coin.py"), SOURCE).unwrap();
    std::fs::write(source.join("tests/test_coin.py"), TESTS).unwrap();
    let mut row = json!({
        "schema_version": 1, "id": "coin-1", "statement": "Write tails().",
        "environment": {"base": "host",
            "setup": ["python3 -m venv /venv", "/venv/bin/pip install --quiet pytest==8.4.2"]},
        "source": {"path": source}, "mask": MASK, "fail_to_pass": [TAILS],
        "test_command": ["/venv/bin/python", "-m", "pytest", "-q"]
    });
    for (key, value) in keys.as_object().unwrap() {
        row[key] = value.clone();
    }
    let tasks = stage.write_file("coin.jsonl", &row.to_string()).to_str().unwrap().to_owned();
    let out = stage.path("out").to_str().unwrap().to_owned();
    let args = ["tasks", "validate", "--tasks", &tasks, "--out", &out];
    let done = stage.run([args.as_slice(), flags].concat(), status);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn hidden_path_without_a_match_is_invalid() {
    let said = validate(&json!({"hidden": ["tests/test_coins.py"]}), &[], 1);
    assert!(said.contains("`hidden` matches nothing: tests/test_coins.py"), "{said}");
    assert!(said.contains(&format!("can read fail-to-pass tests: {TAILS}")), "{said}");
    // The option must not hide a typo.
    let said = validate(&json!({"hidden": ["tests/test_coins.py"]}), &["--visible-tests"], 1);
    assert!(said.contains("matches nothing"), "{said}");
    for hidden in ["tests/test_coin.py", "tests"] {
        validate(&json!({"hidden": [hidden]}), &[], 0);
    }
}

#[test]
fn readable_test_is_invalid_unless_allowed() {
    let said = validate(&json!({}), &[], 1);
    assert!(said.contains(TAILS), "{said}");
    let said = validate(&json!({}), &["--visible-tests"], 0);
    assert!(said.contains("note: coin-1: the agent can read"), "{said}");
    // The agent can read the file, but the file contains an older version of the test.
    validate(&json!({"test_patch": TEST_PATCH}), &[], 0);
}

#[test]
fn unknown_test_ids_are_reported() {
    let ids = ["tests/test_coin.py::TestCoin::test_tail", "tests/test_none.py::test_tails", TAILS];
    let keys = json!({"hidden": ["tests/test_coin.py"], "fail_to_pass": ids});
    let said = validate(&keys, &[], 1);
    let named = format!("fail-to-pass ids that match no test: {}, {}", ids[0], ids[1]);
    assert!(said.contains(&named), "{said}");
}
