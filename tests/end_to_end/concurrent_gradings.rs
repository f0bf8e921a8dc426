//! Tests that if many patches are graded at once, as many sandboxes run in parallel as the CPU and
//! memory budgets allow.

use std::fs;

use serde_json::json;

use crate::{
    sample::sample,
    stage::{Stage, find_arm, find_files, has_docker},
};

const PATCH_COUNT: usize = 5;

/// Writes a task whose test prints the times at which it started and ended. All sandboxes have the
/// same clock.
fn write_nap_task(stage: &Stage) -> String {
    let source = stage.path("nap");
    fs::create_dir_all(source.join("tests")).unwrap();
    fs::write(source.join("nap.py"), "def seconds():\n    return 2\n").unwrap();
    let test = "import time\nimport nap\n\n\ndef test_nap():\n    print('from', time.monotonic())\n    \
                time.sleep(nap.seconds())\n    print('to', time.monotonic())\n";
    fs::write(source.join("tests/test_nap.py"), test).unwrap();
    let row = json!({
        "schema_version": 1, "id": "nap-1", "statement": "Write seconds().",
        "environment": {"base": "host",
            "setup": ["python3 -m venv /venv", "/venv/bin/pip install --quiet pytest==8.4.2"]},
        "source": {"path": source},
        "mask": "diff --git a/nap.py b/nap.py\n--- a/nap.py\n+++ b/nap.py\n\
                 @@ -1,2 +1,2 @@\n def seconds():\n-    return 2\n+    raise NotImplementedError\n",
        "fail_to_pass": ["tests/test_nap.py::test_nap"], "pass_to_pass": [],
        "test_command": ["/venv/bin/python", "-m", "pytest", "-q", "-s"]
    });
    stage.write_file("nap.jsonl", &row.to_string()).to_str().unwrap().to_owned()
}

/// Writes correct patches that are all different, also from those of other runs, so that no cached
/// verdict applies.
fn write_predictions(stage: &Stage, run: &str) -> String {
    let one = |number: usize| {
        let patch = format!(
            "diff --git a/nap.py b/nap.py\n--- a/nap.py\n+++ b/nap.py\n@@ -1,2 +1,2 @@\n \
             def seconds():\n-    raise NotImplementedError\n+    return 2.0 + {number} * 0  # {run}\n"
        );
        json!({"instance_id": "nap-1", "model_name_or_path": format!("m{number}"),
               "model_patch": patch})
        .to_string()
    };
    let lines: Vec<String> = (0..PATCH_COUNT).map(one).collect();
    stage.write_file(&format!("{run}.jsonl"), &lines.join("\n")).to_str().unwrap().to_owned()
}

/// Returns the maximum number of tests that ran at the same time, according to the grading logs.
fn max_concurrent_tests(stage: &Stage, out: &str) -> usize {
    let mut edges: Vec<(f64, i32)> = Vec::new();
    let logs = find_files(&stage.path(out), "log.txt");
    assert_eq!(logs.len(), PATCH_COUNT);
    for log in logs {
        let text = fs::read_to_string(log).unwrap();
        let at = |word: &str| -> f64 {
            let line = text.lines().find_map(|line| line.split_once(word)).unwrap().1;
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        edges.extend([(at("from "), 1), (at("to "), -1)]);
    }
    edges.sort_by(|one, other| one.partial_cmp(other).unwrap());
    let mut open = 0;
    let counts = edges.iter().map(|(_, change)| {
        open += change;
        open
    });
    counts.max().unwrap() as usize
}

/// Maximum number of attempts to see two grading sandboxes overlap. On a loaded machine, the tests
/// in two sandboxes may not overlap, although each takes 2 s.
const MAX_ATTEMPTS: usize = 3;

/// Grades all patches in a separate run. Returns the maximum number of tests that ran at the same
/// time.
fn grade_all_patches(stage: &Stage, grade_args: &[&str], run: &str) -> usize {
    let (folder, patches) = (stage.path(run), write_predictions(stage, run));
    let place = ["--predictions", &patches, "--out", folder.to_str().unwrap()];
    stage.run([grade_args, &place].concat(), 0);
    let report = stage.report(&folder);
    for number in 0..PATCH_COUNT {
        assert_eq!(find_arm(&report, &format!("m{number}"))["resolved"], 1, "{report:#}");
    }
    max_concurrent_tests(stage, run)
}

/// Tests the CPU budget and the memory budget. In the core tier, Docker has only the CPU budget,
/// because the code that shares budgets does not depend on the back end.
fn check_shared_budget(kind: &str) {
    let stage = Stage::new();
    let tasks = write_nap_task(&stage);
    // By default, a sandbox needs one CPU and 2048 MiB, so each of these budgets is enough for two
    // sandboxes.
    let budgets = [("cpus", ["--cpus", "2.5"]), ("memory", ["--memory-mb", "4100"])];
    let interval = if kind == "docker" { 2 } else { 1 };
    for (name, budget) in sample(budgets, interval) {
        let start = ["grade", "--jobs", "5", "--tasks", &tasks, "--sandbox", kind];
        // When the memory budget is tested, the CPUs of a small machine must not be the limit.
        let rest = if name == "memory" { ["--cpus", "64"].as_slice() } else { &[] };
        let start = [start.as_slice(), &budget, rest].concat();
        // In no attempt may more than two grading sandboxes run at once. If the budget allowed only
        // one, no attempt would reach two.
        let came_to_two = (1..=MAX_ATTEMPTS).any(|go| {
            let most = grade_all_patches(&stage, &start, &format!("{name}-{go}"));
            assert!(most <= 2, "{name}, go {go}: {most} at once");
            most == 2
        });
        assert!(came_to_two, "{name}: no two sandboxes overlapped in {MAX_ATTEMPTS} attempts");
    }
}

#[test]
fn many_gradings_share_one_budget_in_native_sandboxes() {
    check_shared_budget("native");
}

#[test]
fn many_gradings_share_one_budget_on_docker() {
    if has_docker("many_gradings_share_one_budget_on_docker") {
        check_shared_budget("docker");
    }
}
