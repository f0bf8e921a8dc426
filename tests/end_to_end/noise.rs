//! Tests that a trial's record, outcome and report show how limits and waits affected the trial
//! (`docs/concepts/noise.md`).

use std::fs;

use fake_llm::FakeLlm;
use serde_json::Value;

use crate::{
    scripted_trial::script,
    stage::{Stage, events, find_files, has_docker},
};

/// A command that needs more memory than a sandbox with a limit of 256 MiB has.
const MEMORY_HOG: &str = "python3 -c 'x = b\"x\" * (1 << 30)'; true";

/// A command that tries to use a whole CPU for six seconds.
const CPU_HOG: &str = "timeout 6 sh -c 'while :; do :; done'; true";

/// Runs one trial of a command under these limits. Returns the resource counts, the outcome and the
/// report of the trial, and the output of the run.
fn run_trial(kind: &str, limits: &str, command: &str) -> (Value, Value, Value, String) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fake = runtime.block_on(FakeLlm::start(script(&[command.to_owned()]))).unwrap();
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
    let journal = find_files(&out.join("trials"), "trajectory.jsonl").remove(0);
    let measured = events(&journal, "sandbox_measured");
    assert_eq!(measured.len(), 1, "once, before the sandbox is closed");
    let outcome = fs::read(&find_files(&out, "outcome.json")[0]).unwrap();
    let outcome: Value = serde_json::from_slice(&outcome).unwrap();
    assert_eq!(outcome["noise"]["sandbox"], measured[0]["counts"], "{outcome:#}");
    let run: Value = serde_json::from_slice(&fs::read(out.join("run.json")).unwrap()).unwrap();
    assert!(run["host"]["kernel"].is_string() && run["host"]["cpus"].is_number(), "{run:#}");
    assert_eq!(run["host"]["docker"].is_string(), kind == "docker", "{}", run["host"]);
    let shown = stage.run(["report", out.to_str().unwrap(), "--noise"], 0).stdout;
    let report = stage.report(&out);
    assert_eq!(report["tasks"][0]["noise"], outcome["noise"]);
    (outcome["noise"].clone(), report, run, String::from_utf8(shown).unwrap())
}

/// Returns whether the limit was observed. A limit is never observed if the machine has no cgroup
/// controller for it.
fn is_observed(noise: &Value, value: &str, kind: &str) -> bool {
    let told = !noise.pointer(value).unwrap_or(&Value::Null).is_null();
    assert!(told || kind == "native", "an engine always reports it: {noise:#}");
    told
}

fn check_memory(kind: &str) {
    let (noise, report, _, shown) = run_trial(kind, "memory_mb = 256\ndisk_mb = 64", MEMORY_HOG);
    if !is_observed(&noise, "/sandbox/memory/peak_bytes", kind) {
        return crate::not_run::not_run("noise: memory", "ROOT", "no memory cgroup");
    }
    assert!(noise["touched"].as_array().unwrap().contains(&"memory".into()), "{noise:#}");
    assert!(noise["sandbox"]["memory"]["oom_kills"].as_u64().unwrap() >= 1, "{noise:#}");
    let arm = &report["arms"][0];
    assert_eq!(arm["noise"]["touched"]["memory"], 1.0, "{arm:#}");
    assert_eq!(arm["noise"]["bound"], 1.0);
    assert_eq!(arm["limit_bound"], serde_json::json!({}), "no limit ended it");
    assert!(shown.contains("hit a sandbox limit (1 at memory"), "{shown}");
    assert!(shown.contains("ended at a limit or hit one"), "{shown}");
    assert!(shown.contains("memory peak"), "{shown}");
}

fn check_throttled(kind: &str) {
    // The limit is so low that it is reached even on a machine where ten busy programs get a tenth
    // of the CPU each.
    let (noise, report, _, shown) = run_trial(kind, "cpus = 0.1", CPU_HOG);
    if !is_observed(&noise, "/sandbox/cpu/periods", kind) {
        return crate::not_run::not_run("noise: cpus", "ROOT", "no CPU cgroup");
    }
    assert_eq!(noise["touched"], serde_json::json!(["cpus"]), "{noise:#}");
    assert!(noise["sandbox"]["cpu"]["throttled_seconds"].as_f64().unwrap() >= 1.0, "{noise:#}");
    assert_eq!(report["arms"][0]["noise"]["touched"]["cpus"], 1.0);
    assert!(shown.contains("1 at cpus"), "{shown}");
}

fn check_no_noise(kind: &str) {
    let (noise, report, _, shown) = run_trial(kind, "cpus = 2.0", "echo quiet");
    assert_eq!(noise["touched"], serde_json::json!([]), "{noise:#}");
    assert_eq!(noise["sandbox"]["commands_timed_out"], 0, "{noise:#}");
    assert_eq!(report["arms"][0]["noise"]["bound"], 0.0);
    assert!(!shown.contains("touched a limit") && !shown.contains("warning"), "{shown}");
}

#[test]
fn memory_limit_hit_is_reported() {
    check_memory("native");
}

#[test]
fn docker_memory_limit_hit_is_reported() {
    if has_docker("docker_memory_limit_hit_is_reported") {
        check_memory("docker");
    }
}

/// Tests may run out of memory for reasons unrelated to the patch, so the report mentions that
/// grading reached the limit.
#[test]
fn memory_limit_hit_during_grading_is_reported() {
    let hungry = "echo 'data = b\"x\" * (600 << 20)' >> numerals/__init__.py";
    let (noise, report, _, shown) = run_trial("native", "memory_mb = 256", hungry);
    if !is_observed(&noise, "/sandbox/memory/peak_bytes", "native") {
        return crate::not_run::not_run("noise: a grading", "ROOT", "no memory cgroup");
    }
    let task = &report["tasks"][0];
    assert_eq!(task["grading_touched"], serde_json::json!(["memory"]), "{task:#}");
    assert!(!noise["touched"].as_array().unwrap().contains(&"memory".into()), "{noise:#}");
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "grading hit a sandbox limit in 1 trial of 1 (1 at memory)";
    assert!(shown.contains(told), "{shown}");
}

#[test]
fn throttled_trial_is_reported() {
    check_throttled("native");
}

#[test]
fn docker_throttled_trial_is_reported() {
    if has_docker("docker_throttled_trial_is_reported") {
        check_throttled("docker");
    }
}

#[test]
fn trial_without_noise_is_not_marked() {
    check_no_noise("native");
}

#[test]
fn docker_trial_without_noise_is_not_marked() {
    if has_docker("docker_trial_without_noise_is_not_marked") {
        check_no_noise("docker");
    }
}

#[test]
fn report_shows_commands_that_hit_their_time_limit() {
    let (noise, _, _, shown) = run_trial("native", "[budget]\ncommand_seconds = 1", "sleep 20");
    assert_eq!(noise["touched"], serde_json::json!(["command_seconds"]), "{noise:#}");
    assert!(shown.contains("1 at command_seconds"), "{shown}");
}
