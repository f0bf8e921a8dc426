//! A real model behind a real server: SmolLM2-135M on llama.cpp, from the packages of `tests/real-model`.
//!
//! A scripted model can't check a server's own token counts, stream framing, chat template and errors. The model is far
//! too small to solve a task, so no test expects it to: each one checks who a trial's end is attributed to.
//!
//! The tests run in the full tier only (`PROCTOR_TIER=full`, or `PROCTOR_REQUIRE_MODEL=1`). `PROCTOR_MODEL_PYTHON` names a
//! Python interpreter that has the packages of `tests/real-model/requirements.txt`.

use std::{
    env,
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

use crate::{
    not_run::not_run,
    stage::{Stage, arm, events, find, root},
};

/// The variable that names the Python interpreter.
const PYTHON: &str = "PROCTOR_MODEL_PYTHON";

/// One server at a time: on two cores, two of them would starve each other and the sandboxes.
static TURN: Mutex<()> = Mutex::new(());

/// A running server and the stage of the test that uses it.
struct Served {
    stage: Stage,
    url: String,
    server: Child,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Starts the server with these options. Returns `None` where the test isn't asked for or can't run.
fn serve(test: &str, options: &[&str]) -> Option<Served> {
    let full = env::var("PROCTOR_TIER").is_ok_and(|tier| tier == "full");
    if !full && env::var_os("PROCTOR_REQUIRE_MODEL").is_none() {
        return None;
    }
    let Some(python) = env::var_os(PYTHON) else {
        not_run(test, "MODEL", format!("{PYTHON} is not set"));
        return None;
    };
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new();
    let log = stage.path("server.log");
    let mut server = Command::new(python)
        .arg(root().join("tests/real-model/serve.py"))
        .arg("--until-eof")
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let url = url.trim().to_owned();
    let said = fs::read_to_string(&log).unwrap_or_default();
    assert!(url.starts_with("http://127.0.0.1:"), "the server did not start: {url}\n{said}");
    Some(Served { stage, url, server, _turn: turn })
}

/// Arms of one scaffold each, by name, all on the model `m`.
fn arms(scaffolds: &[&str]) -> String {
    let arm = |name: &&str| {
        format!("[[arms]]\nname = \"{name}\"\nscaffold = \"{name}\"\nmodel = \"m\"\n")
    };
    scaffolds.iter().map(arm).collect()
}

impl Served {
    /// `[models.NAME]` for this server.
    fn model(&self, name: &str, more: &str) -> String {
        let url = &self.url;
        format!(
            "[models.{name}]\nbase_url = \"{url}\"\nname = \"smollm2-135m\"\ntemperature = 0.0\n\
             price = {{ input = 0, output = 0 }}\n{more}\n"
        )
    }

    /// Runs arms and models on the demo task; the run directory and what was printed.
    fn run(&self, name: &str, text: &str, status: i32) -> (PathBuf, String) {
        let text = format!("tasks = [\"configs/tasks/demo.jsonl\"]\njobs = 1\n{text}");
        let config = self.stage.file(&format!("{name}.toml"), &text);
        let out = self.stage.path(name);
        let args = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let done = self.stage.run(args, status);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        (out, said.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

/// The journals of an arm's trials, in the order of their paths.
fn journals(report: &Value, out: &Path, name: &str) -> Vec<PathBuf> {
    let id = arm(report, name)["arm"].as_str().unwrap();
    find(&out.join("trials").join(&id[..12]), "trajectory.jsonl")
}

/// The answers of an arm's first trial.
fn answers(report: &Value, out: &Path, name: &str) -> Vec<Value> {
    let journal = &journals(report, out, name)[0];
    events(journal, "model_answered").iter().map(|event| event["answer"].clone()).collect()
}

/// Requests that left for the server, over all trials of the run.
fn requests(out: &Path) -> usize {
    let journals = find(&out.join("trials"), "trajectory.jsonl");
    journals.iter().map(|journal| events(journal, "model_attempted").len()).sum()
}

/// Every trial of the arm has a verdict and no fault.
fn assert_scored(report: &Value, name: &str) {
    let found = arm(report, name);
    let seen = (&found["complete"], &found["infrastructure_faults"]);
    assert_eq!(seen, (&true.into(), &0.into()), "{name}: {report:#}");
}

/// No trial of the arm has a verdict.
fn assert_not_scored(report: &Value, name: &str) {
    let found = arm(report, name);
    let seen = (&found["complete"], &found["graded"], &found["resolved"]);
    assert_eq!(seen, (&false.into(), &0.into(), &0.into()), "{name}: {report:#}");
}

/// The shipped configuration: both arms are scored, and the server's own token counts are recorded.
#[test]
fn local_model_runs_the_shipped_configuration() {
    let Some(served) = serve("local_model_runs_the_shipped_configuration", &[]) else { return };
    let out = served.stage.path("run");
    let url = format!("models.local.base_url={}", served.url);
    let config = root().join("configs/local-model.toml");
    let args = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap(), "--set", &url];
    served.stage.run(args, 0);
    let report = served.stage.report(&out);
    assert_eq!(arm(&report, "gold")["resolved_rate"], 1.0, "{report:#}");
    for name in ["bash", "single-shot"] {
        assert_scored(&report, name);
        let journal = &journals(&report, &out, name)[0];
        for attempt in events(journal, "model_attempted") {
            assert_eq!((&attempt["status"], &attempt["error"]), (&200.into(), &Value::Null));
        }
        let answers = answers(&report, &out, name);
        assert!(!answers.is_empty(), "{name}: {report:#}");
        for answer in &answers {
            let usage = &answer["usage"];
            assert_eq!(usage["estimated"], false, "{answer:#}");
            let (input, output) = (usage["input"].as_u64(), usage["output"].as_u64());
            assert!(input.unwrap() > 100 && (1..=512).contains(&output.unwrap()), "{answer:#}");
            let reason = answer["finish_reason"].as_str().unwrap();
            assert!(["stop", "length"].contains(&reason), "{answer:#}");
        }
    }
    // The conversation only grows at its end, so the server reads each prompt but the first from its cache.
    let answers = answers(&report, &out, "bash");
    for pair in answers.windows(2) {
        let (before, cached) = (&pair[0]["usage"]["input"], &pair[1]["usage"]["cached"]);
        let (before, cached) = (before.as_u64().unwrap(), cached.as_u64().unwrap());
        assert!(cached * 10 >= before * 9, "{cached} of {before} tokens came from the cache");
    }
}

/// The server speaks three wire formats, and one prompt has one length in all of them.
#[test]
fn local_model_counts_a_prompt_alike_in_three_formats() {
    let Some(served) = serve("local_model_counts_a_prompt_alike_in_three_formats", &[]) else {
        return;
    };
    let formats = ["chat", "responses", "messages"];
    let mut text = "[budget]\nsteps = 1\n".to_owned();
    for name in formats {
        text += &format!("[[arms]]\nname = \"{name}\"\nscaffold = \"bash\"\nmodel = \"{name}\"\n");
    }
    for name in formats {
        text += &served.model(name, &format!("api = \"{name}\"\nmax_output_tokens = 16"));
    }
    let (out, _) = served.run("formats", &text, 0);
    let report = served.stage.report(&out);
    let mut counts = Vec::new();
    for name in formats {
        assert_scored(&report, name);
        let answers = answers(&report, &out, name);
        assert_eq!(answers.len(), 1, "{name}: {report:#}");
        let usage = &answers[0]["usage"];
        assert_eq!((&usage["output"], &usage["estimated"]), (&16.into(), &false.into()), "{name}");
        assert!(!answers[0]["content"].as_str().unwrap().is_empty(), "{name}: {answers:#?}");
        counts.push(usage["input"].as_u64().unwrap());
    }
    let [chat, responses, messages] = counts[..] else { panic!("{counts:?}") };
    // A role of another name (`developer`) may be another token.
    assert!(chat == messages && chat.abs_diff(responses) <= 2, "{counts:?}");
}

/// The model's own template ignores tools: one request shows it, and no trial is scored.
#[test]
fn local_model_that_drops_tools_halts_the_arm() {
    let Some(served) = serve("local_model_that_drops_tools_halts_the_arm", &[]) else { return };
    // Two trials find it out by their first request, ten by the preflight's.
    for attempts in [2, 10] {
        let text = format!(
            "attempts = {attempts}\n{}{}",
            arms(&["tools"]),
            served.model("m", "context_window = 8192\nmax_output_tokens = 64")
        );
        let (out, said) = served.run(&format!("drops{attempts}"), &text, 3);
        assert!(said.contains("tools") && said.contains("scaffold = \"bash\""), "{said}");
        assert!(requests(&out) <= 1, "{} requests: {said}", requests(&out));
        assert_not_scored(&served.stage.report(&out), "tools");
    }
}

/// With a template that shows them, the tools count as part of the prompt and nothing is halted.
#[test]
fn local_model_with_a_template_for_tools_is_scored() {
    let test = "local_model_with_a_template_for_tools_is_scored";
    let Some(served) = serve(test, &["--template", "tools.jinja"]) else { return };
    let names = ["tools", "mini-swe-agent"];
    let text = format!(
        "[budget]\nsteps = 6\nwall_seconds = 1200\n{}{}",
        arms(&names),
        served.model("m", "context_window = 8192\nmax_output_tokens = 128")
    );
    let (out, said) = served.run("template", &text, 0);
    assert!(!said.contains("halted"), "{said}");
    let report = served.stage.report(&out);
    for name in names {
        assert_scored(&report, name);
        let answers = answers(&report, &out, name);
        assert!(!answers.is_empty(), "{name}: {report:#}");
        assert!(answers.iter().all(|answer| answer["usage"]["estimated"] == false), "{name}");
    }
}

/// A prompt that outgrows the server's window ends the trial by the model's doing, and it is scored.
#[test]
fn local_model_that_fills_its_window_is_scored() {
    let test = "local_model_that_fills_its_window_is_scored";
    let Some(served) = serve(test, &["--context", "1280"]) else { return };
    // The model never ends an answer by itself, so that each one is as long as it may be. Proctor isn't told the window.
    let more = "max_output_tokens = 300\nextra_body = { ignore_eos = true }";
    let text = format!("{}{}", arms(&["bash"]), served.model("m", more));
    let (out, _) = served.run("fills", &text, 0);
    let report = served.stage.report(&out);
    assert_scored(&report, "bash");
    assert_eq!(arm(&report, "bash")["outcomes"], serde_json::json!({"model_refused": 1}));
    let journal = &journals(&report, &out, "bash")[0];
    let last = events(journal, "model_attempted").pop().unwrap();
    assert_eq!(last["status"], 400, "{last:#}");
}

/// A window that can't hold the first prompt is a mistake in the configuration: no trial is scored.
#[test]
fn local_model_with_a_window_too_small_for_the_task_is_not_scored() {
    let test = "local_model_with_a_window_too_small_for_the_task_is_not_scored";
    let Some(served) = serve(test, &["--context", "256"]) else { return };
    let text = format!("attempts = 2\n{}{}", arms(&["bash"]), served.model("m", ""));
    let (out, said) = served.run("small", &text, 3);
    assert!(said.contains("exceeds the available context size (256 tokens)"), "{said}");
    let report = served.stage.report(&out);
    assert_not_scored(&report, "bash");
    // The server says so deterministically: a second attempt would hear the same.
    assert!(requests(&out) <= 2, "{} requests: {said}", requests(&out));
}
