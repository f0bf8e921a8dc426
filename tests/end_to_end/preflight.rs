//! Tests the preflight: one request to each model before the first trial.

use std::{fs, path::PathBuf};

use fake_llm::{FakeLlm, Script};
use serde_json::Value;

use crate::stage::{Stage, find_arm, find_files, has_docker, repository_root};

const SUBMIT: &str = "tool_calls = [{ name = \"submit\", arguments = {} }]";

struct Fixture {
    stage: Stage,
    fake: FakeLlm,
    _runtime: tokio::runtime::Runtime,
}

impl Fixture {
    fn new(script: &str) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let script: Script = toml::from_str(script).unwrap();
        let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
        Self { stage: Stage::new(), fake, _runtime: runtime }
    }

    /// Writes a configuration with `attempts` attempts of each arm. The preflight sends a request
    /// only if there are at least ten.
    fn write_config(&self, url: &str, attempts: u32, arms: &str) -> PathBuf {
        let text = format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\nattempts = {attempts}\n{arms}\
             [models.m]\nbase_url = \"{url}\"\nname = \"m\"\nkey_env = \"FIRST_KEY\"\n\
             price = {{ input = 1, output = 1 }}\n"
        );
        self.stage.write_file("run.toml", &text)
    }

    fn run(
        &self,
        config: &std::path::Path,
        name: &str,
        args: &[&str],
        status: i32,
    ) -> (PathBuf, String) {
        let out = self.stage.path(name);
        let all = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let mut command = self.stage.proctor(all.iter().chain(args));
        let done = command.env("FIRST_KEY", "sk-first-key").output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(status), "{said}");
        (out, said.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

const TOOLS_ARM: &str = "[[arms]]\nname = \"t\"\nscaffold = \"tools\"\nmodel = \"m\"\n";

#[test]
fn preflight_sends_one_request_outside_the_trials() {
    let bench = Fixture::new(&format!("[default]\n{SUBMIT}\n"));
    let config = bench.write_config(&bench.fake.base_url(), 10, TOOLS_ARM);
    let (out, said) = bench.run(&config, "run", &[], 0);
    assert_eq!(bench.fake.requests().len(), 10 + 1);
    assert!(
        said.contains("preflight: `m` responds; ") && said.contains("not part of the trials' cost"),
        "{said}"
    );
    let report = bench.stage.report(&out);
    let found = find_arm(&report, "t");
    assert_eq!((&found["steps"]["mean"], &found["trials"]), (&1.0.into(), &10.into()));
    let responders = serde_json::json!([{"model": "m", "responses": 10}]);
    assert_eq!(found["responders"], responders, "the preflight belongs to no trial");
    let kept = fs::read_to_string(out.join("preflight.jsonl")).unwrap();
    let kinds: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(kinds.iter().any(|line| line["event"]["kind"] == "model_answered"), "{kept}");
    assert!(!kept.contains("sk-first"), "{kept}");

    let asked = bench.fake.requests().len();
    let (out, said) = bench.run(&config, "none", &["--no-preflight"], 0);
    assert_eq!(bench.fake.requests().len() - asked, 10);
    assert!(!said.contains("preflight") && !out.join("preflight.jsonl").exists(), "{said}");
    let config = bench.write_config(&bench.fake.base_url(), 9, TOOLS_ARM);
    bench.run(&config, "few", &[], 0);
    assert_eq!(bench.fake.requests().len() - asked, 10 + 9, "nine trials need no preflight");
}

#[test]
fn preflight_rejects_a_key_before_any_sandbox_opens() {
    let script = format!(
        "[[rule]]\nwhen = \"check of the connection\"\nanswer = {{ fault = [{{ kind = \"status\", status = 401, times = 0 }}] }}\n\
         [default]\n{SUBMIT}\n"
    );
    let bench = Fixture::new(&script);
    let config = bench.write_config(&bench.fake.base_url(), 10, TOOLS_ARM);
    let (out, said) = bench.run(&config, "run", &[], 3);
    assert_eq!(bench.fake.requests().len(), 1);
    for part in
        ["preflight: `m`: model fault", "FIRST_KEY", "10 trials not started", "proctor resume"]
    {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    assert_eq!(find_files(&out.join("trials"), "trajectory.jsonl"), Vec::<PathBuf>::new());
    // Now the key works again. The rejection must not have a lasting effect.
    let mut command = bench.stage.proctor(["resume", out.to_str().unwrap()]);
    let done = command.env("FIRST_KEY", "sk-first-key").output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(bench.fake.requests().len(), 1 + 10);
}

/// The preflight tests tools only for arms that offer tools. An arm that uses the same model
/// without tools continues.
#[test]
fn preflight_suggests_a_scaffold_for_a_model_without_tools() {
    let words = "the model does not support tools";
    let script = format!(
        "[[conversation]]\nmodel = \"m\"\nrepeat_last = true\n[[conversation.turn]]\ncontent = \"x\"\n\
         fault = [{{ kind = \"status\", status = 400, times = 1, body = '{{\"error\":{{\"message\":\"{words}\"}}}}' }}]\n"
    );
    let bench = Fixture::new(&script);
    let config = bench.write_config(&bench.fake.base_url(), 10, TOOLS_ARM);
    let (out, said) = bench.run(&config, "run", &[], 3);
    for part in ["does not support tools", "scaffold = \"bash\"", "10 trials not started"] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    assert_eq!(bench.fake.requests().len(), 1, "{said}");
    assert_eq!(find_files(&out.join("trials"), "trajectory.jsonl"), Vec::<PathBuf>::new());
}

/// A server without a parser for tool calls returns calls as text. No trial is scored because of
/// that.
#[test]
fn tool_calls_as_text_halt_the_arm_and_name_the_parser() {
    let call = |tool: &str| {
        format!("content = '<tool_call>{{\"name\": \"{tool}\", \"arguments\": {{}}}}</tool_call>'")
    };
    let script = format!(
        "[[rule]]\nwhen = \"check of the connection\"\nanswer = {{ {} }}\n[default]\n{}\n",
        call("ready"),
        call("submit")
    );
    let bench = Fixture::new(&script);
    let config = bench.write_config(&bench.fake.base_url(), 10, TOOLS_ARM);
    let (_, said) = bench.run(&config, "run", &[], 3);
    let parts = ["--tool-call-parser hermes", "scaffold = \"bash\"", "10 trials not started"];
    for part in parts.into_iter().chain(["tool `ready` as text"]) {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    assert_eq!(bench.fake.requests().len(), 1);
    // Without the preflight, the first response in a trial reveals the problem.
    let (out, said) = bench.run(&config, "none", &["--no-preflight"], 3);
    assert!(said.contains("tool `submit` as text"), "{said}");
    assert_eq!(find_files(&out.join("trials"), "verdict.json"), Vec::<PathBuf>::new());
}

#[test]
fn unreachable_endpoint_is_tried_once_per_run() {
    let bench = Fixture::new(&format!("[default]\n{SUBMIT}\n"));
    let config = bench.write_config("http://127.0.0.1:9", 10, TOOLS_ARM);
    let begun = std::time::Instant::now();
    let (out, said) = bench.run(&config, "run", &[], 3);
    assert!(said.contains("preflight: `m`: ") && said.contains("10 trials not started"), "{said}");
    assert_eq!(find_files(&out.join("trials"), "trajectory.jsonl"), Vec::<PathBuf>::new());
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

/// A rejection of only the preflight request says nothing about the model.
#[test]
fn rejected_preflight_request_does_not_stop_the_run() {
    let script = format!(
        "[[rule]]\nwhen = \"check of the connection\"\nanswer = {{ fault = [{{ kind = \"status\", status = 422, times = 0 }}] }}\n\
         [default]\n{SUBMIT}\n"
    );
    let bench = Fixture::new(&script);
    let config = bench.write_config(&bench.fake.base_url(), 10, TOOLS_ARM);
    let (_, said) = bench.run(&config, "run", &[], 0);
    assert!(!said.contains("preflight:"), "{said}");
    // The server gets the preflight request three times, and the requests of ten trials.
    assert_eq!(bench.fake.requests().len(), 13);
}

/// Runs `noop` on the demo's own task in this image on Docker. Returns the output.
fn run_in_image(stage: &Stage, image: &str, args: &[&str], status: i32) -> String {
    let demo = fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    task["environment"] = serde_json::json!({ "image": image });
    task.as_object_mut().unwrap().remove("source");
    stage.write_file("image.jsonl", &format!("{task}\n"));
    let config = stage.write_file(
        "image.toml",
        &format!(
            "tasks = [\"{}\"]\n[sandbox]\nkind = \"docker\"\n[[arms]]\nname = \"n\"\nscaffold = \"noop\"\n",
            stage.path("image.jsonl").display()
        ),
    );
    let out = stage.path(&format!("run{}", args.len()));
    let all = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let said = stage.run(all.iter().chain(args), status).stderr;
    String::from_utf8_lossy(&said).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn docker_unavailable_image_is_reported_before_the_first_trial() {
    if !has_docker("docker_unavailable_image_is_reported_before_the_first_trial") {
        return;
    }
    let stage = Stage::new();
    let said = run_in_image(&stage, "127.0.0.1:1/none:1", &[], 3);
    let told = said
        .find("preflight: 1 task: environment fault: image 127.0.0.1:1/none:1 is not available");
    assert!(told.is_some() && told < said.find("started"), "{said}");
    assert!(said.contains("load it into the engine"), "{said}");
    let said = run_in_image(&stage, "127.0.0.1:1/none:1", &["--no-preflight"], 3);
    assert!(!said.contains("preflight"), "{said}");
}
