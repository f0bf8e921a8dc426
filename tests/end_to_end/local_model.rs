//! Tests a real model on a real server: SmolLM2-135M on llama.cpp, with the packages in
//! `tests/real-model`.
//!
//! A scripted model can't test a real server's token counts, stream framing, chat template and
//! errors. The model is far too small to solve a task, so the tests check only whether the end of a
//! trial is attributed correctly.
//!
//! The tests whose names start with `local_model` run only in the full tier (`PROCTOR_TIER=full`,
//! or `PROCTOR_REQUIRE_MODEL=1`). `PROCTOR_MODEL_PYTHON` is the path of a Python interpreter with
//! the packages in `tests/real-model/requirements.txt`. The other tests use recorded responses of
//! that server and always run.

use std::{
    env,
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use fake_llm::{FakeLlm, Script};
use serde_json::Value;

use crate::{
    not_run::not_run,
    stage::{Stage, events, find_arm, find_files, repository_root},
};

/// The environment variable with the path of the Python interpreter.
const PYTHON_VAR: &str = "PROCTOR_MODEL_PYTHON";

/// Allows only one server at a time. With two cores, two servers would slow down each other and the
/// sandboxes too much.
static SERVER_LOCK: Mutex<()> = Mutex::new(());

/// A running server, and the stage of the test that uses it.
struct RunningServer {
    stage: Stage,
    url: String,
    server: Child,
    _server_lock: MutexGuard<'static, ()>,
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Starts the server with these options. Returns `None` if the test is not selected or cannot run.
fn start_server(test_name: &str, options: &[&str]) -> Option<RunningServer> {
    let full = env::var("PROCTOR_TIER").is_ok_and(|tier| tier == "full");
    if !full && env::var_os("PROCTOR_REQUIRE_MODEL").is_none() {
        return None;
    }
    let Some(python) = env::var_os(PYTHON_VAR) else {
        not_run(test_name, "MODEL", format!("{PYTHON_VAR} is not set"));
        return None;
    };
    let turn = SERVER_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new();
    let log = stage.path("server.log");
    let mut server = Command::new(python)
        .arg(repository_root().join("tests/real-model/serve.py"))
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
    Some(RunningServer { stage, url, server, _server_lock: turn })
}

/// Returns the configuration of one arm for each scaffold. The arms use the model `m` and are named
/// after their scaffolds.
fn arm_configs(scaffolds: &[&str]) -> String {
    let arm = |name: &&str| {
        format!("[[arms]]\nname = \"{name}\"\nscaffold = \"{name}\"\nmodel = \"m\"\n")
    };
    scaffolds.iter().map(arm).collect()
}

/// Returns the table `[models.NAME]` for the server at this address.
fn model_config(name: &str, url: &str, extra_lines: &str) -> String {
    format!(
        "[models.{name}]\nbase_url = \"{url}\"\nname = \"smollm2-135m\"\ntemperature = 0.0\n\
         price = {{ input = 0, output = 0 }}\n{extra_lines}\n"
    )
}

/// Runs arms and models on the demo task. Returns the run directory and the output.
fn run(stage: &Stage, name: &str, text: &str, status: i32) -> (PathBuf, String) {
    let text = format!("tasks = [\"configs/tasks/demo.jsonl\"]\njobs = 1\n{text}");
    let config = stage.write_file(&format!("{name}.toml"), &text);
    let out = stage.path(name);
    let args = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let done = stage.run(args, status);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    (out, said.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the journals of the trials of an arm, sorted by path.
fn journals(report: &Value, out: &Path, name: &str) -> Vec<PathBuf> {
    let id = find_arm(report, name)["arm"].as_str().unwrap();
    find_files(&out.join("trials").join(&id[..12]), "trajectory.jsonl")
}

/// Returns the responses in the first trial of an arm.
fn arm_responses(report: &Value, out: &Path, name: &str) -> Vec<Value> {
    let journal = &journals(report, out, name)[0];
    events(journal, "model_answered").iter().map(|event| event["answer"].clone()).collect()
}

/// Returns how many requests were sent to the server in all trials of the run.
fn request_count(out: &Path) -> usize {
    let journals = find_files(&out.join("trials"), "trajectory.jsonl");
    journals.iter().map(|journal| events(journal, "model_attempted").len()).sum()
}

/// Asserts that every trial of the arm has a verdict and no fault.
fn assert_scored(report: &Value, name: &str) {
    let found = find_arm(report, name);
    let seen = (&found["complete"], &found["infrastructure_faults"]);
    assert_eq!(seen, (&true.into(), &0.into()), "{name}: {report:#}");
}

/// Asserts that no trial of the arm has a verdict.
fn assert_not_scored(report: &Value, name: &str) {
    let found = find_arm(report, name);
    let seen = (&found["complete"], &found["graded"], &found["resolved"]);
    assert_eq!(seen, (&false.into(), &0.into(), &0.into()), "{name}: {report:#}");
}

/// With the shipped configuration, both arms are scored, and the record contains the server's own
/// token counts.
#[test]
fn local_model_runs_the_shipped_configuration() {
    let Some(served) = start_server("local_model_runs_the_shipped_configuration", &[]) else {
        return;
    };
    let out = served.stage.path("run");
    let url = format!("models.local.base_url={}", served.url);
    let config = repository_root().join("configs/local-model.toml");
    let args =
        ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap(), "--set", url.as_str()];
    served.stage.run(args, 0);
    let report = served.stage.report(&out);
    assert_eq!(find_arm(&report, "gold")["resolved_rate"], 1.0, "{report:#}");
    for name in ["bash", "single-shot"] {
        assert_scored(&report, name);
        let journal = &journals(&report, &out, name)[0];
        for attempt in events(journal, "model_attempted") {
            assert_eq!((&attempt["status"], &attempt["error"]), (&200.into(), &Value::Null));
        }
        let answers = arm_responses(&report, &out, name);
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
    // Messages are only appended to the conversation, so the server finds everything except the
    // first prompt in its cache.
    let answers = arm_responses(&report, &out, "bash");
    for pair in answers.windows(2) {
        let (before, cached) = (&pair[0]["usage"]["input"], &pair[1]["usage"]["cached"]);
        let (before, cached) = (before.as_u64().unwrap(), cached.as_u64().unwrap());
        assert!(cached * 10 >= before * 9, "{cached} of {before} tokens came from the cache");
    }
}

/// The server supports three wire formats. A prompt must have the same number of tokens in each of
/// them.
#[test]
fn local_model_counts_a_prompt_equally_in_three_formats() {
    let Some(served) = start_server("local_model_counts_a_prompt_equally_in_three_formats", &[])
    else {
        return;
    };
    let formats = ["chat", "responses", "messages"];
    let mut text = "[budget]\nsteps = 1\n".to_owned();
    for name in formats {
        text += &format!("[[arms]]\nname = \"{name}\"\nscaffold = \"bash\"\nmodel = \"{name}\"\n");
    }
    for name in formats {
        text +=
            &model_config(name, &served.url, &format!("api = \"{name}\"\nmax_output_tokens = 16"));
    }
    let (out, _) = run(&served.stage, "formats", &text, 0);
    let report = served.stage.report(&out);
    let mut counts = Vec::new();
    for name in formats {
        assert_scored(&report, name);
        let answers = arm_responses(&report, &out, name);
        assert_eq!(answers.len(), 1, "{name}: {report:#}");
        let usage = &answers[0]["usage"];
        assert_eq!((&usage["output"], &usage["estimated"]), (&16.into(), &false.into()), "{name}");
        assert!(!answers[0]["content"].as_str().unwrap().is_empty(), "{name}: {answers:#?}");
        counts.push(usage["input"].as_u64().unwrap());
    }
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
}

/// The model's own template ignores tools. The first request reveals this, so no trial is scored.
#[test]
fn local_model_that_drops_tools_halts_the_arm() {
    let Some(served) = start_server("local_model_that_drops_tools_halts_the_arm", &[]) else {
        return;
    };
    // If there are two trials, the first trial's request reveals the problem. If there are ten, the
    // preflight request does.
    for attempts in [2, 10] {
        let text = format!(
            "attempts = {attempts}\n{}{}",
            arm_configs(&["tools"]),
            model_config("m", &served.url, "context_window = 8192\nmax_output_tokens = 64")
        );
        let (out, said) = run(&served.stage, &format!("drops{attempts}"), &text, 3);
        assert!(said.contains("tools") && said.contains("scaffold = \"bash\""), "{said}");
        assert!(request_count(&out) <= 1, "{} requests: {said}", request_count(&out));
        assert_not_scored(&served.stage.report(&out), "tools");
    }
}

/// With a template that shows the tools to the model, nothing is halted, and a built-in loop runs
/// the model's calls.
#[test]
fn local_model_with_a_template_for_tools_is_scored() {
    let test = "local_model_with_a_template_for_tools_is_scored";
    let Some(served) = start_server(test, &["--template", "tools.jinja"]) else { return };
    let names = ["tools", "mini-swe-agent"];
    let text = format!(
        "[budget]\nsteps = 2\nwall_seconds = 1200\n{}{}",
        arm_configs(&names),
        model_config("m", &served.url, "context_window = 8192\nmax_output_tokens = 160")
    );
    let (out, said) = run(&served.stage, "template", &text, 0);
    assert!(!said.contains("halted"), "{said}");
    let report = served.stage.report(&out);
    for name in names {
        assert_scored(&report, name);
        let answers = arm_responses(&report, &out, name);
        assert!(!answers.is_empty(), "{name}: {report:#}");
        assert!(answers.iter().all(|answer| answer["usage"]["estimated"] == false), "{name}");
    }
    let journal = &journals(&report, &out, "tools")[0];
    let done = events(journal, "tool_returned");
    assert!(done.iter().any(|event| event["exit_status"] == 0), "no call ran: {done:#?}");
}

/// The output limit truncates a tool call. From then on, llama.cpp responds with 500, because the
/// history contains that call. The failure must count as the model's result and not as an outage.
#[test]
fn local_model_with_a_truncated_call_is_scored() {
    let test = "local_model_with_a_truncated_call_is_scored";
    let Some(served) = start_server(test, &["--template", "tools.jinja"]) else { return };
    let text = format!(
        "[budget]\nsteps = 2\nwall_seconds = 60\n{}{}",
        arm_configs(&["tools"]),
        model_config("m", &served.url, "max_output_tokens = 24")
    );
    let (out, _) = run(&served.stage, "cut", &text, 0);
    let report = served.stage.report(&out);
    assert_scored(&report, "tools");
    let answers = arm_responses(&report, &out, "tools");
    assert_eq!(answers.len(), 2, "{report:#}");
    let arguments = answers[0]["tool_calls"][0]["arguments"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(arguments).is_err(), "the call is whole: {arguments}");
}

/// A grammar on the server turns every response into a command. Every command is run, until exactly
/// the step limit is reached.
#[test]
fn local_model_runs_commands_up_to_its_limit() {
    let Some(served) = start_server("local_model_runs_commands_up_to_its_limit", &[]) else {
        return;
    };
    let grammar = r#"root ::= "```bash\n" ("ls" | "cat numerals/roman.py" | "grep -rn def numerals") "\n```""#;
    let more = format!("max_output_tokens = 64\nextra_body = {{ grammar = '''{grammar}''' }}");
    let limit = "[budget]\nsteps = 4\n";
    let text =
        format!("{limit}{}{}", arm_configs(&["bash"]), model_config("m", &served.url, &more));
    let (out, _) = run(&served.stage, "commands", &text, 0);
    let report = served.stage.report(&out);
    assert_scored(&report, "bash");
    let outcomes = &find_arm(&report, "bash")["outcomes"];
    assert_eq!(outcomes, &serde_json::json!({"budget_steps": 1}), "{report:#}");
    let done = events(&journals(&report, &out, "bash")[0], "tool_returned");
    assert_eq!(done.len(), 4, "{done:#?}");
    assert!(done.iter().all(|event| event["exit_status"] == 0), "{done:#?}");
}

/// If the prompt grows beyond the server's window, the model has caused the end of the trial, which
/// is scored.
#[test]
fn local_model_that_fills_its_window_is_scored() {
    let test = "local_model_that_fills_its_window_is_scored";
    let Some(served) = start_server(test, &["--context", "1280"]) else { return };
    // The model never stops by itself, so every response has the maximum length. Proctor does not
    // know the size of the window.
    let more = "max_output_tokens = 300\nextra_body = { ignore_eos = true }";
    let text = format!("{}{}", arm_configs(&["bash"]), model_config("m", &served.url, more));
    let (out, _) = run(&served.stage, "fills", &text, 0);
    let report = served.stage.report(&out);
    assert_scored(&report, "bash");
    assert_eq!(find_arm(&report, "bash")["outcomes"], serde_json::json!({"model_refused": 1}));
    let journal = &journals(&report, &out, "bash")[0];
    let last = events(journal, "model_attempted").pop().unwrap();
    assert_eq!(last["status"], 400, "{last:#}");
}

/// If the first prompt does not fit in the window, the configuration is wrong, and no trial is
/// scored.
#[test]
fn local_model_with_a_window_too_small_for_the_task_is_not_scored() {
    let test = "local_model_with_a_window_too_small_for_the_task_is_not_scored";
    let Some(served) = start_server(test, &["--context", "256"]) else { return };
    let text =
        format!("attempts = 2\n{}{}", arm_configs(&["bash"]), model_config("m", &served.url, ""));
    let (out, said) = run(&served.stage, "small", &text, 3);
    assert!(said.contains("exceeds the available context size (256 tokens)"), "{said}");
    let report = served.stage.report(&out);
    assert_not_scored(&report, "bash");
    // The server would reject the same request again, so the gateway sends it at most twice.
    assert!(request_count(&out) <= 2, "{} requests: {said}", request_count(&out));
}

/// Returns the status and the body of a response that is recorded in `tests/real-model/recorded`.
fn recorded_response(name: &str) -> (u16, String) {
    let file = repository_root().join(format!("tests/real-model/recorded/{name}.http"));
    let text = fs::read_to_string(file).unwrap();
    let (head, body) = text.split_once("\n\n").unwrap();
    let status = head.lines().next().unwrap().strip_prefix("HTTP/1.1 ").unwrap();
    (status.parse().unwrap(), body.to_owned())
}

/// If the configuration states the server's small window, llama.cpp's message about a full window
/// counts as the model's own end. Otherwise, it means that the server's window is too small.
#[test]
fn recorded_overflow_is_scored_if_the_window_is_known() {
    let (code, body) = recorded_response("overflow");
    assert_eq!(code, 400, "{body}");
    // By Proctor's own count, both requests fit: they have 527 and 534 tokens.
    let body = body.replace("512", "560");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (turn, window, status) in [(0, "", 3), (1, "", 3), (1, "context_window = 560\n", 0)] {
        let script = format!(
            "[[rule]]\nturn = {turn}\nanswer = {{ fault = [{{ kind = \"status\", status = {code}, times = 0, \
             body = '''{body}''' }}] }}\n[default]\ncontent = \"```bash\\nls\\n```\"\n"
        );
        let script: Script = toml::from_str(&script).unwrap();
        let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
        let stage = Stage::new();
        let text =
            format!("{}{}", arm_configs(&["bash"]), model_config("m", &fake.base_url(), window));
        let (out, said) = run(&stage, &format!("turn{turn}-{status}"), &text, status);
        let report = stage.report(&out);
        if window.is_empty() {
            assert!(said.contains("exceeds the available context size (560 tokens)"), "{said}");
            assert_not_scored(&report, "bash");
        } else {
            assert_scored(&report, "bash");
            let outcomes = &find_arm(&report, "bash")["outcomes"];
            assert_eq!(outcomes, &serde_json::json!({"model_refused": 1}), "{report:#}");
        }
        // An overflow that the model did not cause may come from one of several servers, so the gateway
        // repeats the request.
        let attempts = if window.is_empty() { 3 } else { 1 };
        assert_eq!(fake.requests().len(), turn + attempts, "{said}");
    }
}
