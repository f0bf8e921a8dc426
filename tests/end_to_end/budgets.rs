//! Tests each kind of limit, set as a user would set it, with each built-in scaffold. A trial never
//! spends more than the limit plus the last response, and amounts that are counted separately are
//! shown separately.

use std::{collections::BTreeMap, fs, path::Path, time::Instant};

use fake_llm::{FakeLlm, Script};
use serde_json::Value;

use crate::stage::{Stage, events, find_arm, find_files};

/// A script that never submits. Each response has 100 input tokens (40 of them cached) and 50
/// output tokens, so it costs 0.0155 dollars with the prices below.
const NEVER_SUBMITS: &str = r#"
[[rule]]
model = "calls"
[rule.answer]
usage = { input = 100, output = 50, cached = 40 }
[[rule.answer.tool_calls]]
name = "shell"
arguments = { command = "echo step >> steps.txt" }

[[rule]]
model = "writes"
[rule.answer]
content = "```bash\necho step >> steps.txt\n```"
usage = { input = 100, output = 50, cached = 40 }

[[rule]]
model = "sleeps"
[rule.answer]
usage = { input = 100, output = 50, cached = 40 }
[[rule.answer.tool_calls]]
name = "shell"
arguments = { command = "sleep 1" }
"#;

/// The price of one response in US dollars: 60 uncached and 40 cached input tokens, and 50 output
/// tokens.
const RESPONSE_USD: f64 = (60.0 * 50.0 + 40.0 * 12.5 + 50.0 * 240.0) / 1e6;

struct Fixture {
    stage: Stage,
    fake: FakeLlm,
    /// Dropping the runtime would stop the server.
    _runtime: tokio::runtime::Runtime,
}

impl Fixture {
    fn new() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let script: Script = toml::from_str(NEVER_SUBMITS).unwrap();
        let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
        Self { stage: Stage::new(), fake, _runtime: runtime }
    }

    /// Writes a configuration that contains the three models with prices.
    fn write_config(&self, top_lines: &str, arms: &str) -> std::path::PathBuf {
        let mut text = format!("tasks = [\"configs/tasks/demo.jsonl\"]\n{top_lines}\n{arms}");
        for model in ["calls", "writes", "sleeps"] {
            text.push_str(&format!(
                "[models.{model}]\nbase_url = \"{}\"\nname = \"{model}\"\n\
                 price = {{ input = 50.0, output = 240.0, cached = 12.5 }}\n",
                self.fake.base_url()
            ));
        }
        self.stage.write_file("run.toml", &text)
    }

    fn run(&self, config: &Path, status: i32) -> std::path::PathBuf {
        let out = self.stage.path("run");
        self.stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], status);
        out
    }
}

/// Returns the configuration of an arm that has its own limits. `scaffold` is `tools` or `bash`.
fn arm_config(name: &str, scaffold: &str, model: &str, budget: &str) -> String {
    format!(
        "[[arms]]\nname = \"{name}\"\nscaffold = \"{scaffold}\"\nmodel = \"{model}\"\n\
         budget = {{ {budget} }}\n"
    )
}

fn outcomes(out: &Path) -> BTreeMap<String, Value> {
    let run: Value = serde_json::from_slice(&fs::read(out.join("run.json")).unwrap()).unwrap();
    let arms = run["arms"].as_array().unwrap().iter();
    arms.map(|arm| {
        let folder = out.join("trials").join(&arm["id"].as_str().unwrap()[..12]);
        let path = find_files(&folder, "outcome.json").remove(0);
        let outcome = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        (arm["name"].as_str().unwrap().to_owned(), outcome)
    })
    .collect()
}

#[test]
fn every_limit_ends_every_scaffold_after_its_last_response() {
    let bench = Fixture::new();
    // For each limit, the number of responses that it allows, including the one that reaches the
    // limit.
    let kinds = [
        ("steps", "3".to_owned(), 3),
        ("main_steps", "3".to_owned(), 3),
        ("input_tokens", "201".to_owned(), 3),
        ("output_tokens", "100".to_owned(), 2),
        ("total_tokens", "301".to_owned(), 3),
        ("uncached_input_tokens", "119".to_owned(), 2),
        ("cost_usd", format!("{}", RESPONSE_USD * 2.5), 3),
    ];
    let mut arms = String::new();
    for (kind, limit, _) in &kinds {
        for (scaffold, model) in [("tools", "calls"), ("bash", "writes")] {
            let (name, budget) = (format!("{scaffold}/{kind}"), format!("{kind} = {limit}"));
            arms.push_str(&arm_config(&name, scaffold, model, &budget));
        }
    }
    let out = bench.run(&bench.write_config("jobs = 4", &arms), 0);
    let outcomes = outcomes(&out);
    for (kind, _, answers) in &kinds {
        for scaffold in ["tools", "bash"] {
            let outcome = &outcomes[&format!("{scaffold}/{kind}")];
            let named = kind.trim_end_matches("_usd");
            assert_eq!(outcome["kind"], "budget", "{scaffold} {kind}: {outcome}");
            assert_eq!(outcome["budget"], named);
            let spent = &outcome["spent"];
            assert_eq!(spent["steps"], *answers, "{scaffold} {kind}");
            assert_eq!(spent["input_tokens"], answers * 100, "{scaffold} {kind}");
            assert_eq!(spent["output_tokens"], answers * 50, "{scaffold} {kind}");
            let cost = spent["cost_usd"].as_f64().unwrap();
            assert!(
                (cost - RESPONSE_USD * *answers as f64).abs() < 1e-9,
                "{scaffold} {kind}: {cost}"
            );
        }
    }
    // Whichever limit ended the trial, the tools of every step ran, and the patch contains their
    // changes.
    for patch in find_files(&out, "patch.diff") {
        let text = fs::read_to_string(&patch).unwrap();
        let lines = text.lines().filter(|line| *line == "+step").count();
        assert!((2..=3).contains(&lines), "{}:\n{text}", patch.display());
    }
    let report = bench.stage.report(&out);
    assert_eq!(find_arm(&report, "tools/steps")["tokens"]["uncached_input"]["total"], 180);

    // Replay a recorded trajectory with limits on steps. A replayed step must count like any other.
    let run =
        out.join("trials").join(&find_arm(&report, "tools/steps")["arm"].as_str().unwrap()[..12]);
    let recorded = find_files(&run, "trajectory.jsonl").remove(0);
    let arms: String = [1, 2].map(|steps| format!(
        "[[arms]]\nname = \"replay/{steps}\"\nscaffold = \"replay\"\nreplay = {recorded:?}\n\
         budget = {{ steps = {steps} }}\n"
    )).concat();
    fs::rename(&out, bench.stage.path("first")).unwrap();
    let arms = arms.replace("/run/", "/first/");
    let again = bench.run(&bench.write_config("", &arms), 0);
    for (name, steps) in [("replay/1", 1), ("replay/2", 2)] {
        let outcome = &self::outcomes(&again)[name];
        assert_eq!(outcome["spent"]["steps"], steps);
        assert_eq!((&outcome["kind"], &outcome["budget"]), (&"budget".into(), &"steps".into()));
    }
}

#[test]
fn grace_is_an_extra_response_and_not_a_step() {
    let bench = Fixture::new();
    let grace = "steps = 2, ending = 'grace', disclosure = 'countdown'";
    let arms = [
        arm_config("tools", "tools", "calls", grace),
        arm_config("bash", "bash", "writes", grace),
        // After a time limit, there is no last response.
        arm_config("time", "tools", "sleeps", "tool_seconds = 1.5, ending = 'grace'"),
    ];
    let out = bench.run(&bench.write_config("", &arms.concat()), 0);
    let report = bench.stage.report(&out);
    let all = outcomes(&out);
    for name in ["tools", "bash"] {
        let (spent, arm) = (&all[name]["spent"], find_arm(&report, name));
        assert_eq!((&all[name]["kind"], &spent["steps"]), (&"budget".into(), &2.into()));
        assert_eq!(
            (&spent["input_tokens"], &spent["grace_input_tokens"]),
            (&200.into(), &100.into())
        );
        assert_eq!(arm["grace"]["answers"], 1);
        assert_eq!(arm["tokens"]["output"]["total"], 100, "grace is counted separately");
        let folder = out.join("trials").join(&arm["arm"].as_str().unwrap()[..12]);
        let journal = find_files(&folder, "trajectory.jsonl").remove(0);
        assert_eq!(events(&journal, "model_answered").len(), 2);
        assert_eq!(events(&journal, "grace_answered").len(), 1);
        assert_eq!(events(&journal, "budget_reached").len(), 1);
        let patch = fs::read_to_string(&find_files(&folder, "patch.diff")[0]).unwrap();
        assert_eq!(patch.matches("+step").count(), 2, "no tool ran after the limit:\n{patch}");
    }
    assert_eq!(find_arm(&report, "time")["grace"]["answers"], 0);
    // Only the last message of each request says how much is left of the budget. In the last
    // request, this message announces that only one response is left.
    let requests = bench.fake.requests();
    for model in ["calls", "writes"] {
        let asked: Vec<Vec<String>> = requests
            .iter()
            .filter(|request| request.body["model"] == model)
            .map(|request| {
                let messages = request.body["messages"].as_array().unwrap().iter();
                messages.map(|one| one["content"].as_str().unwrap_or_default().to_owned()).collect()
            })
            .collect();
        let told = ["2 of 2 responses", "1 of 2 responses", "This is your last response"];
        assert_eq!(asked.len(), told.len());
        for (messages, told) in asked.iter().zip(told) {
            let (last, before) = messages.split_last().unwrap();
            assert!(last.contains(told), "{told}: {last}");
            assert!(!before.concat().contains("Remaining: "), "{before:?}");
        }
    }
}

#[test]
fn tool_time_limit_interrupts_a_command() {
    let bench = Fixture::new();
    let arms = arm_config("sleeps", "tools", "sleeps", "tool_seconds = 2.5");
    let begun = Instant::now();
    let out = bench.run(&bench.write_config("", &arms), 0);
    let outcome = &outcomes(&out)["sleeps"];
    assert_eq!(outcome["budget"], "tools", "{outcome}");
    assert_eq!(outcome["spent"]["steps"], 3, "the third call is cut off");
    let seconds = outcome["tool_seconds"].as_f64().unwrap();
    assert!((2.5..3.0).contains(&seconds), "{seconds} after {:?}", begun.elapsed());
}

#[test]
fn run_stops_at_its_budget_and_resumes_with_a_larger_one() {
    let bench = Fixture::new();
    let arms = arm_config("tools", "tools", "calls", "steps = 4");
    let top = format!("attempts = 3\njobs = 1\n[budget.run]\ncost_usd = {}", RESPONSE_USD * 5.5);
    let out = bench.run(&bench.write_config(&top, &arms), 3);
    // The first trial gets four responses, the second gets two, and the third gets none.
    assert_eq!(bench.fake.requests().len(), 6);
    let report = bench.stage.report(&out);
    let arm_now = find_arm(&report, "tools");
    assert_eq!(arm_now["outcomes"]["budget_steps"], 1);
    assert_eq!(arm_now["outcomes"]["budget_run_cost"], 1);
    assert_eq!((&arm_now["unfinished"], &arm_now["graded"]), (&1.into(), &1.into()));
    assert_eq!(
        report["tasks"][1]["resolved"],
        Value::Null,
        "counts neither as resolved nor as failed"
    );

    // The budget is used up: `resume` sends no request and says how to raise the limit.
    let said = bench.stage.run(["resume", out.to_str().unwrap()], 3);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("--set budget.run"), "{said}");
    assert_eq!(bench.fake.requests().len(), 6);

    // Earlier spending still counts. After the limit is raised, the second trial continues from its
    // second response.
    let set = format!("budget.run.cost_usd={}", RESPONSE_USD * 100.0);
    let other = "budget.steps=9";
    for (wrong, says) in [
        (other, "is part of the plan, which cannot be changed"),
        ("budget.run.cost_usd=many", "--set budget.run.cost_usd: expected a number, found text"),
        ("budget.run.cost_usd=-1", "-1 is out of range"),
        ("budget.arm.wall_seconds=5", "it belongs to [budget]; known keys: steps"),
    ] {
        let said = bench.stage.run(["resume", out.to_str().unwrap(), "--set", wrong], 2);
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.contains(says) && said.contains(" hint: "), "{says}: {said}");
    }
    bench.stage.run(["resume", out.to_str().unwrap(), "--set", &set], 0);
    assert_eq!(bench.fake.requests().len(), 6 + 2 + 4);
    let report = bench.stage.report(&out);
    assert_eq!(find_arm(&report, "tools")["outcomes"]["budget_steps"], 3);
    assert_eq!(find_arm(&report, "tools")["complete"], true);
}

#[test]
fn cost_limit_requires_a_price() {
    let bench = Fixture::new();
    for limit in
        ["[budget]\ncost_usd = 1", "[budget.arm]\ncost_usd = 1", "[budget.run]\ncost_usd = 1"]
    {
        let config = bench.write_config(limit, &arm_config("tools", "tools", "calls", ""));
        let text = fs::read_to_string(&config).unwrap();
        let unpriced: Vec<&str> = text.lines().filter(|line| !line.starts_with("price")).collect();
        fs::write(&config, unpriced.join("\n")).unwrap();
        let out = bench.stage.path("never");
        let args = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let said = String::from_utf8_lossy(&bench.stage.run(args, 2).stderr).into_owned();
        for part in ["cost_usd`", "no price is configured", "add `price = {"] {
            assert!(said.contains(part), "{limit}: {part:?} is missing in {said}");
        }
        assert!(!out.exists(), "{limit}: the run was created");
    }
}
