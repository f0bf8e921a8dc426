//! Tests that the report includes the cost of every token, including the tokens of discarded tries.

use std::{path::Path, process::Stdio};

use fake_llm::{FakeLlm, Script};
use serde_json::Value;

use crate::{
    resume::wait_for,
    stage::{Stage, events, find_arm, find_files},
};

/// Each response has 100 input tokens (40 of them cached) and 50 output tokens. The command in the
/// first response is slow. If the runtime is killed during that command, no request is in flight.
const SCRIPT: &str = r#"
[[conversation]]
[[conversation.turn]]
usage = { input = 100, output = 50, cached = 40 }
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "echo one > one.txt; sleep 2" }
[[conversation.turn]]
usage = { input = 100, output = 50, cached = 40 }
FAULT
[[conversation.turn.tool_calls]]
name = "submit"
arguments = {}
"#;

/// The price of one response in US dollars: 60 uncached and 40 cached input tokens, and 50 output
/// tokens.
const RESPONSE_USD: f64 = (60.0 * 50.0 + 40.0 * 12.5 + 50.0 * 240.0) / 1e6;

fn script(fault_lines: &str) -> Script {
    toml::from_str(&SCRIPT.replace("FAULT", fault_lines)).unwrap()
}

fn config_text(fake: &FakeLlm, budget: &str) -> String {
    format!(
        "tasks = [\"configs/tasks/demo.jsonl\"]\n{budget}\n\
         [[arms]]\nname = \"asks\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
         [models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n\
         price = {{ input = 50.0, output = 240.0, cached = 12.5 }}\n",
        fake.base_url()
    )
}

/// Returns the number of successful responses according to the server's log. Rejected requests are
/// logged as `place: fault`.
fn count_billed_responses(fake: &FakeLlm) -> u64 {
    fake.requests().iter().filter(|seen| !seen.answered.contains(": ")).count() as u64
}

/// Checks the report's numbers. There were `responses` responses in total, `earlier_responses` of
/// them in discarded tries.
fn assert_costs(stage: &Stage, out: &Path, responses: u64, earlier_responses: u64) {
    let report = stage.report(out);
    let (arm, task) = (find_arm(&report, "asks"), &report["tasks"][0]);
    let near = |found: &Value, answers: u64| {
        let (found, expected) = (found.as_f64().unwrap(), RESPONSE_USD * answers as f64);
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}\n{arm:#}");
    };
    assert_eq!(arm["paid"]["input"], responses * 100, "{arm:#}");
    assert_eq!(arm["paid"]["output"], responses * 50);
    near(&arm["paid"]["cost_usd"], responses);
    near(&task["paid_usd"], responses);
    assert_eq!(arm["earlier_tries"]["input"], earlier_responses * 100);
    assert_eq!(arm["earlier_tries"]["steps"], earlier_responses);
    near(&arm["earlier_tries"]["cost_usd"], earlier_responses);
    // Comparisons of arms use only the tries that count.
    let counted = responses - earlier_responses;
    assert_eq!(arm["tokens"]["input"]["total"], counted * 100);
    near(&arm["cost_usd"], counted);
    let said = stage.run(["report", out.to_str().unwrap()], 0);
    let said = String::from_utf8(said.stdout).unwrap();
    let total = format!("${:.4}", RESPONSE_USD * responses as f64);
    let before =
        format!("asks: 1 discarded try: ${:.4} (", RESPONSE_USD * earlier_responses as f64);
    assert!(said.contains(&total), "{total}\n{said}");
    assert_eq!(said.contains(&before), earlier_responses > 0, "{before}\n{said}");
}

#[test]
fn killed_try_is_resumed_and_paid_once() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fake = runtime.block_on(FakeLlm::start(script(""))).unwrap();
    let stage = Stage::new();
    // The shared limit allows exactly two responses, because it counts the same costs as the
    // report.
    let budget = format!("[budget.run]\ncost_usd = {}", RESPONSE_USD * 1.5);
    let config = stage.write_file("run.toml", &config_text(&fake, &budget));
    let out = stage.path("run");
    let mut command =
        stage.proctor(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the first answer's tool", || {
        let journal = find_files(&out.join("trials"), "trajectory.jsonl").pop()?;
        let text = std::fs::read_to_string(journal).unwrap();
        text.contains("\"kind\":\"tool_called\"").then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(count_billed_responses(&fake), 1);
    let said = stage.run(["report", out.to_str().unwrap()], 0);
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.starts_with("incomplete: 0 of 1 trial has a verdict\n"), "{said}");
    assert!(
        said.contains(&format!("${RESPONSE_USD:.4}")),
        "the cost of an unfinished trial is shown: {said}"
    );

    // The run continues with the second response. The first one is neither requested nor paid for
    // again.
    stage.run(["resume", out.to_str().unwrap()], 0);
    assert_eq!(count_billed_responses(&fake), 2);
    assert_costs(&stage, &out, 2, 0);
}

#[test]
fn faulted_trial_is_resumed_and_paid_once() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // During the trial, the endpoint rejects the key. Earlier responses must still be paid for.
    let fault = "fault = [{ kind = \"status\", status = 401, times = 2 }]";
    let fake = runtime.block_on(FakeLlm::start(script(fault))).unwrap();
    let stage = Stage::new();
    let config = stage.write_file("run.toml", &config_text(&fake, ""));
    let out = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 3);
    assert_eq!(count_billed_responses(&fake), 1);
    // The faulted try is the trial's only one, so the trial's outcome includes its cost.
    assert_costs(&stage, &out, 1, 0);

    stage.run(["resume", out.to_str().unwrap()], 0);
    assert_eq!(count_billed_responses(&fake), 2);
    assert_costs(&stage, &out, 2, 0);
    let said = stage.run(["report", out.to_str().unwrap(), "--verify"], 0);
    assert!(!String::from_utf8_lossy(&said.stderr).contains("damage"));
}

#[test]
fn discarded_try_is_included_in_the_cost() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // During the trial, the endpoint rejects the key. Then the part of the record that is needed to
    // continue the try is lost.
    let fault = "fault = [{ kind = \"status\", status = 401, times = 2 }]";
    let fake = runtime.block_on(FakeLlm::start(script(fault))).unwrap();
    let stage = Stage::new();
    let config = stage.write_file("run.toml", &config_text(&fake, ""));
    let out = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 3);
    std::fs::remove_file(find_files(&out.join("trials"), "blobs.pack").remove(0)).unwrap();
    stage.run(["resume", out.to_str().unwrap()], 0);
    assert_eq!(count_billed_responses(&fake), 3);
    assert_costs(&stage, &out, 3, 1);
    let journals = find_files(&out.join("trials"), "trajectory.jsonl");
    let answers: usize =
        journals.iter().map(|journal| events(journal, "model_answered").len()).sum();
    assert_eq!(answers, 3);
}

/// Runs that were made before the model had a price have no recorded cost, so the estimate uses the
/// current price.
#[test]
fn estimate_uses_current_prices() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fake = runtime.block_on(FakeLlm::start(script(""))).unwrap();
    let stage = Stage::new();
    let priced = config_text(&fake, "");
    let unpriced: Vec<&str> = priced.lines().filter(|line| !line.starts_with("price")).collect();
    let old = stage.write_file("old.toml", &unpriced.join("\n"));
    let new = stage.write_file("new.toml", &priced);
    let out = stage.path("run");
    stage.run(["run", old.to_str().unwrap(), "--out", out.to_str().unwrap()], 0);
    let report = stage.report(&out);
    assert_eq!(find_arm(&report, "asks")["cost_known"], false);
    assert_eq!(report["tasks"][0]["cost_usd"], Value::Null);
    let said = stage.run(["report", out.to_str().unwrap()], 0);
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("unknown") && !said.contains("$0.00"), "{said}");

    let next = stage.path("next");
    let plan = |config: &Path| {
        let args = ["run", config.to_str().unwrap(), "--out", next.to_str().unwrap(), "--dry-run"];
        let said = String::from_utf8(stage.run(args, 0).stdout).unwrap();
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = plan(&old);
    assert!(
        said.contains("estimate from 1 earlier trial") && said.contains("cost unknown"),
        "{said}"
    );
    assert!(!said.contains("$0.00"), "{said}");
    let said = plan(&new);
    assert!(said.contains(&format!("about ${:.2}", RESPONSE_USD * 2.0)), "{said}");
}
