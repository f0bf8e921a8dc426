//! Tests that a task's clock sets the date for the agent and the tests in every kind of sandbox,
//! and that neither sees proxy variables.

use fake_llm::{FakeLlm, Script};
use serde_json::{Value, json};

use crate::stage::{Stage, find_files, has_docker};

const TESTS: &str = "import datetime, os, subprocess, sys, time\n\nimport almanac\n\n\n\
    def test_today():\n    assert almanac.today() == '2024-05-01'\n\n\n\
    def test_child():\n    ask = [sys.executable, '-c', 'import datetime; print(datetime.datetime.now(datetime.timezone.utc).year)']\n    \
    assert subprocess.check_output(ask, text=True).strip() == '2024'\n\n\n\
    def test_time_passes():\n    began, measured = time.time(), time.monotonic()\n    time.sleep(0.05)\n    \
    assert time.time() - began >= 0.05 and time.monotonic() - measured < 30\n\n\n\
    def test_no_proxy():\n    assert [name for name in os.environ if name.lower().endswith('_proxy')] == []\n";
const MASK: &str = "diff --git a/almanac.py b/almanac.py\n--- a/almanac.py\n+++ b/almanac.py\n\
    @@ -1,5 +1 @@\n import datetime\n-\n-\n-def today():\n-    return str(datetime.datetime.now(datetime.timezone.utc).date())\n";
const SOURCE: &str = "import datetime\n\n\ndef today():\n    return str(datetime.datetime.now(datetime.timezone.utc).date())\n";

fn write_dataset(stage: &Stage, clock: Option<&str>) -> String {
    let source = stage.path("almanac");
    std::fs::create_dir_all(source.join("tests")).unwrap();
    std::fs::write(source.join("almanac.py"), SOURCE).unwrap();
    std::fs::write(source.join("tests/test_almanac.py"), TESTS).unwrap();
    let of = |names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("tests/test_almanac.py::{name}")).collect()
    };
    let mut row = json!({
        "schema_version": 1, "id": "almanac-1", "statement": "Write today().",
        "environment": {"base": "host",
            "setup": ["python3 -m venv /venv", "/venv/bin/pip install --quiet pytest==8.4.2"]},
        "source": {"path": "almanac"}, "mask": MASK, "hidden": ["tests/test_almanac.py"],
        "fail_to_pass": of(&["test_today", "test_child", "test_time_passes", "test_no_proxy"]),
        "test_command": ["/venv/bin/python", "-m", "pytest", "-q"]
    });
    if let Some(clock) = clock {
        row["clock"] = clock.into();
    }
    stage.write_file("almanac.jsonl", &row.to_string()).to_str().unwrap().to_owned()
}

const TASK_CLOCK: &str = "2024-05-01T12:00:00+02:00";

fn check_validation(kind: &str) {
    let stage = Stage::new();
    let tasks = write_dataset(&stage, Some(TASK_CLOCK));
    stage.run(["tasks", "validate", "--tasks", &tasks, "--sandbox", kind], 0);
}

#[test]
fn tests_see_the_date_of_their_task() {
    check_validation("native");
    let stage = Stage::new();
    // Without the clock, the gold patch does not resolve the task, so the task is invalid.
    let tasks = write_dataset(&stage, None);
    let said = stage.run(["tasks", "validate", "--tasks", &tasks], 1);
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(told.contains("fail-to-pass failed: tests/test_almanac.py::test_"), "{told}");
    let tasks = write_dataset(&stage, Some("May 2024"));
    let said = stage.run(["tasks", "validate", "--tasks", &tasks], 2);
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(told.contains("\"May 2024\" is not a time"), "{told}");
}

#[test]
fn tests_in_containers_see_the_date_of_their_task() {
    if has_docker("tests_in_containers_see_the_date_of_their_task") {
        check_validation("docker");
    }
}

/// An arm's clock applies to both its agent and the grading. The agent sees no proxy variables.
#[test]
fn agent_sees_the_date_of_its_arm() {
    let call = |name: &str, arguments: Value| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let line = "env | grep -ic '_proxy=' > seen.txt; date -u +%FT%H >> seen.txt\n\
        printf '\\n\\ndef today():\\n    return \"2024-05-01\"\\n' >> almanac.py";
    let script: Script = serde_json::from_value(json!({"conversation": [{"model": "m", "turn": [
        call("shell", json!({"command": line})), call("submit", json!({}))]}]}))
    .unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
    let stage = Stage::new();
    write_dataset(&stage, None);
    let config = |clock: &str| {
        format!(
            "tasks = [\"almanac.jsonl\"]\n[sandbox]\nclock = \"{clock}\"\n[[arms]]\nname = \"a\"\n\
             scaffold = \"tools\"\nmodel = \"m\"\n[models.m]\nbase_url = \"{}\"\nname = \"m\"\n",
            fake.base_url()
        )
    };
    let file = stage.write_file("run.toml", &config(TASK_CLOCK));
    let out = stage.path("run");
    stage.run(["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()], 0);
    let patch = std::fs::read_to_string(find_files(&out, "patch.diff").pop().unwrap()).unwrap();
    assert!(patch.contains("+0\n+2024-05-01T10\n"), "{patch}");
    let verdict =
        std::fs::read(find_files(&out.join("trials"), "verdict.json").pop().unwrap()).unwrap();
    let verdict: Value = serde_json::from_slice(&verdict).unwrap();
    assert_eq!(verdict["resolved"], true, "{verdict:#}");

    let file = stage.write_file("wrong.toml", &config("yesterday"));
    let said = stage.run(["run", file.to_str().unwrap(), "--dry-run"], 2);
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(told.contains("sandbox.clock") && told.contains("is not a time"), "{told}");
}
