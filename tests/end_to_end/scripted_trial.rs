//! Runs a trial with a scripted model in a sandbox with a proxy.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use fake_llm::{FakeLlm, Script};
use serde_json::{Value, json};

use crate::stage::{Stage, events, find_files, repository_root};

/// A trial that runs these commands, one in each step. The task is about the package `widget` in
/// the repository `acme/widget`.
pub struct ScriptedTrial {
    pub stage: Stage,
    pub fake: FakeLlm,
    pub commands: Vec<String>,
    /// Lines for `[network]` in the configuration.
    pub network_lines: String,
    /// Lines for the model in the configuration.
    pub model_lines: String,
    /// Setup commands of the environment, in addition to the task's own.
    pub setup_lines: Vec<String>,
    /// The folder that contains the package.
    pub source: PathBuf,
}

impl ScriptedTrial {
    /// Runs the trial. Returns the output of each step's command, and the ledger.
    pub fn run(&self, runtime: &tokio::runtime::Runtime, kind: &str) -> (Vec<String>, Ledger) {
        let _inside = runtime.enter();
        let demo = fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
        let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
        task["repo"] = "acme/widget".into();
        task["source"]["path"] = self.source.to_str().unwrap().into();
        task["blocked_urls"] = json!(["https://docs.test/widget/**"]);
        let setup = task["environment"]["setup"].as_array_mut().unwrap();
        setup.extend(self.setup_lines.iter().map(|line| line.as_str().into()));
        self.stage.write_file("task.jsonl", &format!("{task}\n"));
        let config = self.stage.write_file(
            "run.toml",
            &format!(
                "tasks = [\"{}\"]\n[sandbox]\nkind = \"{kind}\"\n[network]\n{}\n\
                 [[arms]]\nname = \"scripted\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
                 [models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n{}\n",
                self.stage.path("task.jsonl").display(),
                self.network_lines,
                self.fake.base_url(),
                self.model_lines,
            ),
        );
        let out = self.stage.path("run");
        let args = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let output = self
            .stage
            .proctor(args)
            .env("PROCTOR_LOG", "debug")
            .env("PLANTED_KEY", planted_key())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        self.stage.write_file("stderr", &said);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let journal = find_files(&out.join("trials"), "trajectory.jsonl").remove(0);
        let shown: Vec<_> = events(&journal, "tool_returned")
            .iter()
            .filter(|event| event["name"] == "shell")
            .map(|event| event["shown"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(shown.len(), self.commands.len(), "{shown:#?}");
        let mut ledger = Ledger::new();
        for event in events(&journal, "url_requested") {
            ledger.entry(event["step"].as_u64().unwrap()).or_default().push(event);
        }
        self.check_verdict(&out, &ledger);
        (shown, ledger)
    }

    /// Checks that the verdict lists every step in which the proxy blocked a request for the
    /// package that the task is about.
    fn check_verdict(&self, out: &Path, ledger: &Ledger) {
        let blocked =
            |event: &Value| matches!(event["reason"].as_str(), Some("task_blocked" | "task_alias"));
        let steps: Vec<u64> = ledger
            .iter()
            .filter(|(_, events)| events.iter().any(blocked))
            .map(|(step, _)| *step)
            .collect();
        let verdict = fs::read(&find_files(&out.join("trials"), "verdict.json")[0]).unwrap();
        let verdict: Value = serde_json::from_slice(&verdict).unwrap();
        let told: Vec<u64> = verdict["evidence"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["kind"].as_str().unwrap().starts_with("upstream_"))
            .flat_map(|one| one["steps"].as_array().unwrap())
            .map(|step| step.as_u64().unwrap())
            .collect();
        assert!(steps.iter().all(|step| told.contains(step)), "{steps:?}\n{verdict:#}");
        assert!(steps.is_empty() || verdict["integrity"] != "clean", "{verdict:#}");
    }
}

/// The lines of the proxy's ledger, by step.
pub type Ledger = BTreeMap<u64, Vec<Value>>;

/// Returns a script in which the model runs one command in each step and then submits.
pub fn script(commands: &[String]) -> Script {
    let call = |name: &str, arguments: Value| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let mut turns: Vec<_> =
        commands.iter().map(|command| call("shell", json!({"command": command}))).collect();
    turns.push(call("submit", json!({})));
    serde_json::from_value(json!({"conversation": [{"turn": turns}]})).unwrap()
}

/// Returns the key for the model, which contains a marker. The key is split in two here, so that no
/// file in this repository contains it.
pub fn planted_key() -> String {
    ["sk-planted-", "5f0c7d1e93"].concat()
}
