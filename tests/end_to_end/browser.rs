//! Tests the viewer and the report in a real Chromium. `tests/browser/walk.mjs` visits the pages,
//! and this file creates the runs.

#[expect(dead_code, reason = "the gateway's tests use the other helpers")]
#[path = "../../runtime/gateway/tests/all/clients/install.rs"]
mod install;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use proctor_record::{GradingFiles, Journal, RunDir};
use proctor_types::{
    Arm, ArmId, Budget, CONFIG_VERSION, Ending, Event, LeakCheckSpec, ModelResponse, NetworkPolicy,
    Outcome, RULES_VERSION, RUN_SCHEMA_VERSION, RunRecord, RunTask, SandboxSpec, Spending, Task,
    ToolCall, TrialId, Usage, Verdict,
};
use serde_json::{Value, json};

use crate::stage::{Stage, repository_root};

/// Malicious text that could come from a sandbox: markup, a script, terminal escapes, and
/// bidirectional control characters.
const HOSTILE_TEXT: &str = "</pre></script><img src=x onerror=globalThis.pwned=1><script>globalThis.pwned=1</script>\
                     <base href=http://192.0.2.1/><form action=http://192.0.2.1/>\u{1b}[2J\u{1b}]0;x\u{7}\
                     \u{202e}gnp.exe\u{2066}\u{0} javascript:alert(1) {{ 7*7 }}";
const STEPS: u64 = 4;

fn arm(name: &str) -> Arm {
    let budget = Budget { steps: Some(5), wall_seconds: Some(100.0), ..Budget::default() };
    let arm = Arm {
        control: false,
        forked_from: None,
        id: ArmId::new(""),
        name: name.into(),
        scaffold: "tools".into(),
        model: None,
        budget,
        sandbox: SandboxSpec::default(),
        network: NetworkPolicy::default(),
        leak_check: LeakCheckSpec::default(),
        prompts: Value::Null,
        settings: json!({ "of": name }),
        statement: Default::default(),
    };
    arm.with_computed_id()
}

/// Creates a run with two arms and two tasks, in which every text is malicious. The first task is
/// resolved; the second is not.
fn write_hostile_run(path: &Path) {
    let run = RunDir::create(path).unwrap();
    let task = |name: &str| -> Task {
        serde_json::from_value(json!({
            "schema_version": 1, "id": format!("{name}{HOSTILE_TEXT}"), "statement": HOSTILE_TEXT,
            "environment": {"base": "host"}, "fail_to_pass": [format!("t.py::test_a[{HOSTILE_TEXT}]")],
            "test_command": ["pytest"], "gold": HOSTILE_TEXT
        }))
        .unwrap()
    };
    let (tasks, arms) = (
        [task("done"), task("failed")],
        [arm(&format!("hostile/a{HOSTILE_TEXT}")), arm("hostile/b")],
    );
    let planned = |task: &Task| RunTask {
        digest: task.digest(),
        task: task.clone(),
        base_dir: PathBuf::from("/"),
        source: None,
        host_bound: false,
    };
    run.write_run(&RunRecord {
        schema_version: RUN_SCHEMA_VERSION,
        rules: RULES_VERSION,
        proctor: env!("CARGO_PKG_VERSION").into(),
        created: 1,
        attempts: 1,
        jobs: 1,
        arms: arms.to_vec(),
        tasks: tasks.iter().map(planned).collect(),
        config_version: CONFIG_VERSION,
        config: serde_json::from_value(json!({ "said": HOSTILE_TEXT })).unwrap(),
        host: json!({ "said": HOSTILE_TEXT }),
        agent: String::new(),
        certificate: None,
        flaky: Default::default(),
        absent: std::collections::BTreeSet::new(),
        changes: Vec::new(),
        selection: None,
    })
    .unwrap();
    for (task, resolved) in tasks.iter().zip([true, false]) {
        for (arm, other) in arms.iter().zip([false, true]) {
            let id = TrialId { task: task.id.clone(), arm: arm.id.clone(), attempt: 1 };
            write_trial(&run, &id, &task.fail_to_pass[0], resolved, other);
        }
    }
}

/// Writes a trial in which step 2 ends with an error, step 3 edits a file, and step 4 runs tests.
/// With `is_different`, the trial is different from step 3 on.
fn write_trial(run: &RunDir, id: &TrialId, test_id: &str, is_resolved: bool, is_different: bool) {
    let dir = run.create_trial_dir(id).unwrap();
    let mut journal = Journal::create(dir.trajectory_path(), 1).unwrap();
    let mut append = |step, event| {
        journal.append(step, event).unwrap();
    };
    let (task, arm) = (id.task.clone(), id.arm.to_string());
    append(0, Event::TrialStarted { task, arm, attempt: id.attempt });
    for step in 1..=STEPS {
        let line = match step {
            3 => format!("echo {is_different} > a.py {HOSTILE_TEXT}"),
            4 => "python -m pytest -q".to_owned(),
            _ => format!("cat {step} {HOSTILE_TEXT}"),
        };
        let (call_id, name) = (format!("call_{step}"), "shell".to_owned());
        let call = ToolCall {
            id: call_id.clone(),
            name: name.clone(),
            arguments: json!({ "command": line }).to_string(),
        };
        let extra = json!({ "reasoning": HOSTILE_TEXT }).as_object().unwrap().clone();
        let answer = ModelResponse {
            content: HOSTILE_TEXT.into(),
            tool_calls: vec![call],
            extra,
            native: None,
            finish_reason: None,
            refused: false,
            usage: Usage { input: 900, output: 60, ..Usage::default() },
            cost_usd: Some(0.01),
        };
        append(step, Event::ModelAnswered { answer });
        let needle = if step == 1 && !is_resolved { "a needle in the output\n" } else { "" };
        let shown = format!("{needle}{HOSTILE_TEXT}\n").repeat(40);
        let exit_status = Some(i32::from(step == 2));
        let (full, edited) = (None, None);
        let returned = Event::ToolReturned {
            call_id,
            name,
            shown,
            full,
            exit_status,
            seconds: 0.5,
            malformed: false,
            edited,
        };
        append(step, returned);
        if step == 3 {
            // The tree is missing. The page must say so and show the rest of the trial.
            let snapshot = empty_blake3();
            append(
                step,
                Event::SnapshotTaken {
                    snapshot,
                    changed: 1,
                    removed: 0,
                    bytes: 1,
                    ms: 1.0,
                    outside: None,
                },
            );
        }
    }
    let patch = format!("diff --git a/a.py b/a.py\n+{HOSTILE_TEXT}\n").into_bytes();
    let blobs = run.trial_blobs(&dir);
    let hash = blobs.put(&patch).unwrap();
    let packed = blobs.pack_size();
    append(STEPS, Event::PatchCollected { bytes: patch.len() as u64, files: 1, hash });
    dir.write_patch(&patch).unwrap();
    let mut outcome = Outcome::from_ending(1, Ending::Submitted);
    outcome.spent = Spending { steps: STEPS, ..Spending::default() };
    append(STEPS, Event::TrialEnded { outcome: Box::new(outcome.clone()), packed });
    dir.write_outcome(&outcome).unwrap();
    let (passed, failed) =
        if is_resolved { (vec![test_id], vec![]) } else { (vec![], vec![test_id]) };
    let verdict: Verdict = serde_json::from_value(json!({
        "schema_version": 1, "task": id.task, "resolved": is_resolved,
        "passed_rate": f64::from(u8::from(is_resolved)),
        "fail_to_pass": {"passed": passed, "failed": failed},
        "pass_to_pass": {"passed": [], "failed": []},
        "tests": {test_id: if is_resolved { "passed" } else { "failed" }},
        "policies": {"strict": {"resolved": is_resolved, "why": HOSTILE_TEXT}},
        "integrity": "suspect",
        "evidence": [{"kind": "special_cased", "what": HOSTILE_TEXT, "steps": [2]}],
        "reason": if is_resolved { Value::Null } else { json!("assertion") }
    }))
    .unwrap();
    let log = format!("____ test_a[{HOSTILE_TEXT}] ____\nE  assert 1 == 2 {HOSTILE_TEXT}\n");
    let grading =
        GradingFiles { patch: &patch, verdict: &verdict, log: log.as_bytes(), results: b"" };
    dir.store_grading(id, grading).unwrap();
}

fn empty_blake3() -> String {
    proctor_record::Blobs::hash(b"not there")
}

/// Returns the folder that contains Chromium and the packages in `package-lock.json`. If they are
/// unavailable, returns the reason.
fn node_modules() -> Result<PathBuf, String> {
    let known = ["chromium", "chromium-browser", "google-chrome"];
    let is_there = |name: &&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    if std::env::var_os("PROCTOR_CHROMIUM").is_none() && !known.iter().any(is_there) {
        return Err("Chromium is not installed (Debian: apt-get install chromium)".into());
    }
    install::install_once("browser-1", |home| {
        fs::create_dir_all(home).map_err(|error| error.to_string())?;
        for file in ["package.json", "package-lock.json"] {
            fs::copy(repository_root().join("tests/browser").join(file), home.join(file))
                .map_err(|error| error.to_string())?;
        }
        let quiet = ["--ignore-scripts", "--no-audit", "--no-fund"];
        install::run_command(install::npm_command()?.arg("ci").args(quiet).current_dir(home))
    })
}

/// Compiles the viewer's script and checks that the result is the file that the viewer serves.
fn check_script(modules: &Path, out: &Path) {
    let viewer = repository_root().join("runtime/viewer");
    let compiled = Command::new("node")
        .arg(modules.join("node_modules/typescript/bin/tsc"))
        .arg("--project")
        .arg(viewer.join("web"))
        .arg("--outDir")
        .arg(out)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stdout));
    let [built, served] = [out, &viewer.join("templates")]
        .map(|folder| fs::read_to_string(folder.join("viewer.js")).unwrap());
    assert!(built == served, "viewer.js is out of date: run runtime/viewer/web/build");
}

#[test]
fn browser_shows_runs_and_reports() {
    let modules = node_modules();
    let Some(modules) = install::installation_or_skip("browser_shows_runs_and_reports", &modules)
    else {
        return;
    };
    let stage = Stage::new();
    check_script(modules, &stage.path("script"));

    let (run, tricks) = (stage.path("run"), stage.path("hostile"));
    write_hostile_run(&tricks);
    let [run, tricks] = [run, tricks].map(|path| path.to_str().unwrap().to_owned());
    let [pages, report] = ["pages", "report.html"].map(|name| stage.path(name));
    stage.run(["view", &tricks, "--static", pages.to_str().unwrap()], 0);
    stage.run(["report", &tricks, "--format", "html", "--out", report.to_str().unwrap()], 0);

    let quiet = || Stdio::null();
    let going_on = ["run", "configs/demo.toml", "--out", &run];
    let mut going_on = stage.proctor(going_on).stdout(quiet()).stderr(quiet()).spawn().unwrap();
    while !Path::new(&run).join("run.json").exists() {
        assert!(going_on.try_wait().unwrap().is_none(), "the run ended before it was planned");
        thread::sleep(Duration::from_millis(5));
    }
    let mut viewer = stage.proctor(["view", &run, &tricks]).stdout(Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(viewer.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let walked = Command::new("node")
        .arg(repository_root().join("tests/browser/walk.mjs"))
        .args([modules.as_path(), Path::new(address.trim()), &pages, &report])
        .output()
        .unwrap();
    viewer.kill().unwrap();
    viewer.wait().unwrap();
    going_on.wait().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(walked.status.success(), "{}{}", said(&walked.stdout), said(&walked.stderr));
}
