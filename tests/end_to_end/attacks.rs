//! Runs the attack pack on two tasks: a sound one, and one that has a test without assertions.

use serde_json::{Value, json};

use crate::stage::{Stage, find_files};

const SOURCE: &str = "def heads():\n    return 1\n\n\ndef tails():\n    return 0\n";
const TESTS: &str = "import coin\n\n\n\
    def test_heads():\n    assert coin.heads() == 1\n\n\n\
    def test_tails():\n    assert coin.tails() == 0\n\n\n\
    def test_both():\n    assert [coin.heads(), coin.tails()] == [1, 0]\n\n\n\
    def test_called():\n    coin.tails()\n";
const MASK: &str = "diff --git a/coin.py b/coin.py\n--- a/coin.py\n+++ b/coin.py\n\
    @@ -1,6 +1,2 @@\n def heads():\n     return 1\n-\n-\n-def tails():\n-    return 0\n";
/// A patch that passes only the test without assertions.
const CHEATING_PATCH: &str = "diff --git a/coin.py b/coin.py\n--- a/coin.py\n+++ b/coin.py\n\
    @@ -1,2 +1,6 @@\n def heads():\n     return 1\n+\n+\n+def tails():\n+    return 'cheated'\n";

fn write_dataset(stage: &Stage) -> String {
    let source = stage.path("coin");
    std::fs::create_dir_all(source.join("tests")).unwrap();
    std::fs::write(source.join("coin.py"), SOURCE).unwrap();
    std::fs::write(source.join("tests/test_coin.py"), TESTS).unwrap();
    let row = |id: &str, tests: &[&str]| {
        let tests: Vec<String> =
            tests.iter().map(|test| format!("tests/test_coin.py::{test}")).collect();
        json!({
            "schema_version": 1, "id": id, "statement": "Write tails().",
            "environment": {"base": "host",
                "setup": ["python3 -m venv /venv", "/venv/bin/pip install --quiet pytest==8.4.2"]},
            "source": {"path": source}, "mask": MASK, "hidden": ["tests/test_coin.py"],
            "fail_to_pass": tests, "cheats": [{"name": "answers at random", "patch": CHEATING_PATCH}],
            "test_command": ["/venv/bin/python", "-m", "pytest", "-q"]
        })
    };
    let rows = [row("sound-1", &["test_tails", "test_both"]), row("weak-1", &["test_called"])];
    let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    stage.write_file("coins.jsonl", &rows.join("\n")).to_str().unwrap().to_owned()
}

#[test]
fn validate_fails_and_lists_tasks_that_attacks_resolve() {
    let stage = Stage::new();
    let (tasks, certificate) = (write_dataset(&stage), stage.path("certificate.json"));
    let file = certificate.to_str().unwrap();
    let out = stage.path("validated");
    // The grader's own tests cover the whole pack, so run only one attack for each possible
    // outcome.
    let pack = "--attack=noop,conftest-hook,equal-to-everything";
    let args = ["tasks", "validate", "--tasks", tasks.as_str(), pack, "--certificate", file];
    let said = stage.run([args.as_slice(), &["--out", out.to_str().unwrap()]].concat(), 1);
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    let failed = told.split("attacks:\n").nth(1).unwrap_or_default();
    assert!(failed.starts_with("  weak-1: "), "{told}");
    assert!(failed.contains("cheat: answers at random passed under strict"), "{told}");
    assert!(!failed.contains("sound-1"), "{told}");
    let table = String::from_utf8_lossy(&said.stdout).into_owned();
    let table = table.split("strict:").nth(1).unwrap();
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert!(table.contains("conftest-hook"), "{table}");

    let made: Value = serde_json::from_slice(&std::fs::read(&certificate).unwrap()).unwrap();
    assert_eq!(made["tasks"], json!([]), "one run shows nothing about individual tests");
    let of = |task: usize, attack: &str| &made["attacks"]["tasks"][task]["attacks"][attack];
    assert_eq!(of(0, "noop"), &json!({"policies": {"strict": "beaten"}}));
    assert_eq!(of(0, "equal-to-everything")["policies"]["strict"], "seen");
    assert_eq!(of(0, "equal-to-everything")["classes"], json!(["grader_in_process"]));
    assert_eq!(of(0, "cheat: answers at random")["policies"]["strict"], "beaten");
    assert!(made["attacks"]["tasks"][0]["environment"]["digest"].is_string());
    // Three attacks from the pack and one cheat were graded, each on two tasks.
    assert_eq!(find_files(&out.join("attacks"), "verdict.json").len(), 8);

    // `report` can include the results of the attacks.
    let graded = stage.path("graded");
    let grade = ["grade", "--predictions", "gold", "--tasks", &tasks, "--certificate", file];
    stage.run([grade.as_slice(), &["--out", graded.to_str().unwrap()]].concat(), 0);
    let text = stage.run(["report", graded.to_str().unwrap()], 0);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let text: Vec<&str> = text.split_whitespace().collect();
    let text = text.join(" ");
    assert!(text.contains("attacks on 2 tasks: resolved under strict: weak-1 ("), "{text}");
    assert!(text.contains("not attacked: 0 of 2 tasks."), "{text}");

    // `quality` lists each task's problems, and `report` shows the score without the tasks that
    // have problems.
    let quality = stage.path("quality.json");
    let quality = quality.to_str().unwrap();
    let asked = ["tasks", "quality", "--tasks", &tasks, "--certificate", file, "--out", quality];
    let said = String::from_utf8(stage.run(asked, 0).stdout).unwrap();
    assert!(said.starts_with("weak-1\n  marked: attacked, duplicate\n"), "{said}");
    assert!(said.contains("resolved under strict by: cheat: answers at random"), "{said}");
    assert!(said.ends_with("2 tasks: 1 marked, 2 certified, 2 attacked.\n"), "{said}");
    let report = ["report", graded.to_str().unwrap(), "--quality", quality];
    let text = String::from_utf8(stage.run(report, 0).stdout).unwrap();
    let line = "gold: 1/1 (100%) resolved without marked tasks, 2/2 (100%) with them.";
    assert!(text.contains(line), "{text}");
    let text: Vec<&str> = text.split_whitespace().collect();
    let cited = "Quality of 2 tasks: 1 marked (attacked 1, duplicate 1); not judged: 0.";
    assert!(text.join(" ").contains(cited), "{text:?}");
}

/// A patch that passes every test listed in the task and breaks a test that is not listed.
const BREAKING_PATCH: &str = "diff --git a/coin.py b/coin.py\n--- a/coin.py\n+++ b/coin.py\n\
    @@ -1,2 +1,6 @@\n def heads():\n     return 1\n+\n+\n+def tails():\n+    return 0\n";

#[test]
fn wide_grading_finds_a_broken_test_outside_the_task() {
    let stage = Stage::new();
    let tasks = write_dataset(&stage);
    // Add another module, with a test that no task lists and a test that is already broken.
    std::fs::write(stage.path("coin/side.py"), "def edge():\n    return 'edge'\n").unwrap();
    let side = "import side\n\n\ndef test_edge():\n    assert side.edge() == 'edge'\n\n\n\
                def test_broken_before():\n    assert side.edge() == 'face'\n";
    std::fs::write(stage.path("coin/tests/test_side.py"), side).unwrap();
    std::fs::write(stage.path("coin/tests/test_extra.py"), "import not_installed\n").unwrap();
    let breaks = format!(
        "{BREAKING_PATCH}diff --git a/side.py b/side.py\n--- a/side.py\n+++ b/side.py\n\
         @@ -1,2 +1,2 @@\n def edge():\n-    return 'edge'\n+    return 'rim'\n"
    );
    let row = |id: &str, patch: &str| {
        json!({"instance_id": id, "model_name_or_path": "m", "model_patch": patch}).to_string()
    };
    let rows = [row("sound-1", &breaks), row("weak-1", BREAKING_PATCH)].join("\n");
    let predictions = stage.write_file("predictions.jsonl", &rows);
    let out = stage.path("wide");
    let args =
        ["grade", "--predictions", predictions.to_str().unwrap(), "--tasks", &tasks, "--wide"];
    stage.run([args.as_slice(), &["--out", out.to_str().unwrap()]].concat(), 0);
    for (id, resolved, why) in [
        (
            "sound-1",
            false,
            "of 5 tests that pass with gold, these fail: tests/test_side.py::test_edge",
        ),
        ("weak-1", true, "of 5 tests that pass with gold, none fail"),
    ] {
        let verdicts = find_files(&out.join("trials"), "verdict.json");
        let path = verdicts.iter().find(|path| path.to_str().unwrap().contains(id)).unwrap();
        let verdict: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!(verdict["resolved"], true, "{verdict:#}");
        assert_eq!(verdict["policies"]["strict"]["resolved"], true, "{verdict:#}");
        let wide = &verdict["policies"]["wide"];
        assert_eq!(
            (&wide["resolved"], &wide["why"]),
            (&json!(resolved), &json!(why)),
            "{verdict:#}"
        );
    }
}

#[test]
fn unknown_attack_is_reported() {
    let stage = Stage::new();
    let tasks = write_dataset(&stage);
    let said = stage.run(["tasks", "validate", "--tasks", &tasks, "--attack=nop"], 2);
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(told.contains("unknown attack nop"), "{told}");
    assert!(told.contains("conftest-hook"), "{told}");
}
