//! Tests that a limit of N steps allows N responses, and that the work up to then is graded.

use std::path::PathBuf;

use fake_llm::{FakeLlm, Script};

use crate::{
    scripted_trial::script,
    stage::{Stage, events, find_files, has_docker},
};

/// A script that never submits, and appends one line to a file in each step.
const NEVER_SUBMITS: &str = r#"
[default]
[[default.tool_calls]]
name = "shell"
arguments = { command = "echo step >> steps.txt" }
"#;

/// Runs the scripted model on the demo's own task. Expects exit status 0. `top_lines` is added to
/// the configuration. Returns the run directory.
fn run(stage: &Stage, fake: &FakeLlm, top_lines: &str) -> PathBuf {
    let config = stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\n{top_lines}\
             [[arms]]\nname = \"scripted\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
             [models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n",
            fake.base_url()
        ),
    );
    let out = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 0);
    out
}

fn check_step_limit(limit: u64) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script: Script = toml::from_str(NEVER_SUBMITS).unwrap();
    let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
    let stage = Stage::new();
    let out = run(&stage, &fake, &format!("[budget]\nsteps = {limit}\n"));

    assert_eq!(fake.requests().len() as u64, limit, "requests that reached the endpoint");
    let journals = find_files(&out.join("trials"), "trajectory.jsonl");
    assert_eq!(journals.len(), 1);
    assert_eq!(events(&journals[0], "model_answered").len() as u64, limit);
    let last = events(&journals[0], "trial_ended").remove(0);
    assert_eq!(last["outcome"]["kind"], "budget");
    assert_eq!(last["outcome"]["budget"], "steps");
    let patch = std::fs::read_to_string(&find_files(&out, "patch.diff")[0]).unwrap();
    let lines = patch.lines().filter(|line| *line == "+step").count() as u64;
    assert_eq!(lines, limit, "the last step's tools ran and their work is in the patch:\n{patch}");
    let report = stage.report(&out);
    assert_eq!(report["tasks"][0]["outcome"], "budget_steps");
    assert_eq!(report["tasks"][0]["resolved"], false, "graded, and not solved");
    assert_eq!(report["tasks"][0]["steps"], limit);
}

#[test]
fn limit_of_one_step_allows_one_response() {
    check_step_limit(1);
}

#[test]
fn limit_of_two_steps_allows_two_responses() {
    check_step_limit(2);
}

#[test]
fn limit_of_seven_steps_allows_seven_responses() {
    check_step_limit(7);
}

/// A script that does some work and then creates more paths than a snapshot may contain: names of
/// 48 MiB in total.
const PATH_FLOOD: &str = r#"
[[conversation]]
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "echo kept > kept.txt" }
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "d=$(printf 'x%.0s' $(seq 200)); p=$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d; mkdir -p $p && cd $p && seq 15000 | xargs touch && ls | wc -l" }
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "submit"
arguments = {}
"#;

#[test]
fn oversized_tree_still_gets_a_verdict() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script: Script = toml::from_str(PATH_FLOOD).unwrap();
    let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
    let stage = Stage::new();
    let out = run(&stage, &fake, "");
    let journal = &find_files(&out.join("trials"), "trajectory.jsonl")[0];
    let flooded = &events(journal, "tool_returned")[1];
    assert!(flooded["shown"].as_str().unwrap().contains("15000"), "{flooded}");
    let refused = events(journal, "noted");
    assert!(
        !refused.iter().any(|event| event["note"]["snapshot_refused"].is_string()),
        "{refused:?}"
    );
    let left_out = std::fs::read_to_string(&find_files(&out, "outcome.json")[0]).unwrap();
    assert!(left_out.contains("too large to scan completely"), "{left_out:.2000}");
    let patch = std::fs::read_to_string(&find_files(&out, "patch.diff")[0]).unwrap();
    assert!(patch.contains("+kept") && !patch.contains("xxx"), "{patch}");
    let report = stage.report(&out);
    assert_eq!(report["tasks"][0]["outcome"], "submitted");
    assert_eq!(report["tasks"][0]["resolved"], false);
}

/// Checks that a trial is scored even if its model deletes its work or the programs in the sandbox.
fn check_lost_work(kind: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let commands = [
        "rm -rf /testbed; ln -s /etc /testbed",
        "cd / && rm -rf /testbed",
        "rm -rf --no-preserve-root / 2>/dev/null; true",
        "echo still there",
    ];
    let commands: Vec<_> = commands.iter().map(|line| (*line).to_owned()).collect();
    let fake = runtime.block_on(FakeLlm::start(script(&commands))).unwrap();
    let stage = Stage::new();
    let out = run(&stage, &fake, &format!("[sandbox]\nkind = \"{kind}\"\n"));
    let patch = std::fs::read_to_string(&find_files(&out, "patch.diff")[0]).unwrap();
    assert!(patch.contains("deleted file mode") && !patch.contains("+++ b/"), "{patch}");
    let report = stage.report(&out);
    let task = &report["tasks"][0];
    assert_eq!((&task["outcome"], &task["resolved"]), (&"submitted".into(), &false.into()));
}

#[test]
fn deleted_work_directory_gets_a_verdict() {
    check_lost_work("native");
}

#[test]
fn docker_deleted_work_directory_gets_a_verdict() {
    if has_docker("docker_deleted_work_directory_gets_a_verdict") {
        check_lost_work("docker");
    }
}
