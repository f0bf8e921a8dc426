//! Tests that a trial ends with a patch and a verdict and never with a fault, whatever an agent
//! leaves in its sandbox within the limits.

use std::fs;

use fake_llm::FakeLlm;
use serde_json::Value;

use crate::{
    scripted_trial::script,
    stage::{Stage, find_files, has_docker},
};

/// Runs a trial that does some work and then runs these commands. Returns the patch and the
/// outcome.
fn run_trial(kind: &str, limits: &str, commands: &[&str]) -> (String, Value) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let work = ["echo kept > kept.txt; echo '# kept' >> numerals/roman.py"];
    let commands: Vec<_> = work.iter().chain(commands).map(|line| (*line).to_owned()).collect();
    let fake = runtime.block_on(FakeLlm::start(script(&commands))).unwrap();
    let stage = Stage::new();
    let config = stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\n[sandbox]\nkind = \"{kind}\"\n{limits}\n\
             [[arms]]\nname = \"scripted\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
             [models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n",
            fake.base_url()
        ),
    );
    let out = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 0);
    let report = stage.report(&out);
    let task = &report["tasks"][0];
    assert_eq!(task["outcome"], "submitted", "{task}");
    assert_eq!(task["resolved"], false, "{task}");
    let patch = String::from_utf8_lossy(&fs::read(&find_files(&out, "patch.diff")[0]).unwrap())
        .into_owned();
    assert!(patch.contains("+kept") && patch.contains("+# kept"), "{:.2000}", patch);
    let outcome = fs::read(&find_files(&out, "outcome.json")[0]).unwrap();
    (patch, serde_json::from_slice(&outcome).unwrap())
}

fn left_out_paths(outcome: &Value) -> Vec<&str> {
    outcome["left_out"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
}

const DEEP_TREE: &str = "python3 -c 'import os\nfor n in range(2100): os.mkdir(\"d\"); os.chdir(\"d\")\n\
    open(\"f\", \"w\").write(\"x\")'";

const SPECIAL_FILES: &str = "mkfifo pipe; ln -s loop loop; for n in $(seq 60); do ln -s l$((n + 1)) l$n; done; \
    python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\"; \
    touch -- -rf \"$(printf 'a\\nb')\" \"$(printf '\\377')\"; mkdir closed; touch closed/f; chmod 000 closed; \
    mkdir tests/closed; chmod 000 tests";

/// Starts a program that continues to run after its command and moves folders while they are
/// scanned.
const MOVING_FOLDERS: &str = "python3 - > /dev/null 2>&1 <<'END' &\nimport os\nos.setsid()\n\
    os.makedirs('a/b/c/d/e', exist_ok=True)\n\
    while True:\n    os.rename('a/b/c', 'x')\n    os.rename('x', 'a/b/c')\nEND\nsleep 1";

const EMPTY_FILES: &str = "mkdir heap; python3 -c 'import itertools\n\
    for n in itertools.count(): open(f\"heap/{n}\", \"w\").close()'; true";

const FILL_DISK: &str =
    "cat /dev/zero > full; cat /dev/zero > /dev/shm/full; cat /dev/zero > /tmp/full; true";

fn check_unusual_trees(kind: &str) {
    let (_, outcome) = run_trial(kind, "", &[DEEP_TREE, SPECIAL_FILES, MOVING_FOLDERS]);
    let left_out = left_out_paths(&outcome);
    assert!(left_out.iter().any(|line| line.starts_with("d: path longer than")), "{left_out:?}");
    assert!(left_out.iter().any(|line| line.starts_with("pipe: ")), "{left_out:?}");
}

#[test]
fn unusual_trees_get_a_patch_and_a_verdict() {
    check_unusual_trees("native");
}

#[test]
fn docker_unusual_trees_get_a_patch_and_a_verdict() {
    if has_docker("docker_unusual_trees_get_a_patch_and_a_verdict") {
        check_unusual_trees("docker");
    }
}

#[test]
fn sandbox_without_disk_space_and_inodes_gets_a_verdict() {
    let (patch, outcome) =
        run_trial("native", "memory_mb = 256\ndisk_mb = 160", &[FILL_DISK, EMPTY_FILES]);
    assert!(patch.len() <= 32 << 20, "{} bytes", patch.len());
    let left_out = left_out_paths(&outcome);
    assert!(left_out.iter().any(|line| line.contains("would exceed 5000 files")), "{left_out:?}");
    assert!(left_out.iter().any(|line| line.starts_with("full: ")), "{left_out:?}");
    assert!(left_out.len() <= 1001, "{}", left_out.len());
}

#[test]
fn patch_omits_bulk_data_and_keeps_the_work() {
    let heap = "for n in $(seq 30); do head -c 4194304 /dev/urandom > a$n; done";
    let (patch, outcome) = run_trial("native", "memory_mb = 2048\ndisk_mb = 1024", &[heap]);
    assert!(patch.len() <= 33 << 20, "{} bytes", patch.len());
    let left_out = left_out_paths(&outcome);
    let over = left_out.iter().filter(|line| line.contains("bytes")).count();
    assert!(over >= 20, "{left_out:?}");
}
