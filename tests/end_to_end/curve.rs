//! Tests `proctor curve`, which computes results under smaller limits from one run, and compares
//! them with real runs.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use crate::{
    open_files::run_with_file_limit,
    resume::interrupt_twice,
    stage::{DEMO_SOLUTION, Stage, find_files, repository_root},
};

/// A run in which the model solves task A at step 12 and task B at step 60, submits in the step
/// after that, and never solves task C. The model creates a file at step 5 and removes it at step
/// 6, so that trees change without an edit.
struct CurveFixture {
    stage: Stage,
    config: PathBuf,
}

impl CurveFixture {
    fn new() -> Self {
        let stage = Stage::new();
        let demo = fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
        let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
        task["source"]["path"] =
            repository_root().join("configs/tasks/numerals").to_str().unwrap().into();
        let statement = task["statement"].as_str().unwrap().to_owned();
        // Use a unique statement, because verdicts are cached by the statement, and an earlier run
        // of this test may have left some in the cache.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let mut lines = String::new();
        let mut script = String::from("model = \"s\"\n");
        for (name, solved) in [("A", Some(12)), ("B", Some(60)), ("C", None)] {
            task["id"] = format!("curve-{name}").into();
            task["statement"] = format!("TASK-{name} {now}\n{statement}").into();
            lines.push_str(&format!("{task}\n"));
            script.push_str(&conversation(name, solved));
        }
        stage.write_file("tasks.jsonl", &lines);
        stage.write_file("script.toml", &script);
        let config = stage.write_file(
            "c.toml",
            &format!(
                "tasks = [\"{}\"]\n[budget]\nsteps = 100\n[[arms]]\nname = \"t\"\nscaffold = \"tools\"\n\
                 model = \"s\"\n[models.s]\nbase_url = \"script:{}\"\nname = \"s\"\n\
                 price = {{ input = 10.0, output = 20.0 }}\n",
                stage.path("tasks.jsonl").display(),
                stage.path("script.toml").display(),
            ),
        );
        Self { stage, config }
    }

    /// Runs with additional settings. Returns the run directory.
    fn run(&self, name: &str, settings: &[&str]) -> PathBuf {
        let out = self.stage.path(name);
        let mut args = vec!["run", self.config.to_str().unwrap(), "--out", out.to_str().unwrap()];
        for set in settings {
            args.extend(["--set", set]);
        }
        self.stage.run(args, 0);
        out
    }

    fn curve_report(&self, run: &Path, args: &[&str]) -> Value {
        let all = ["curve", run.to_str().unwrap(), "--format", "json"];
        let output = self.stage.run(all.iter().chain(args), 0);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn assert_rejected(&self, run: &Path, args: &[&str], message: &str) {
        let output = self.stage.run(["curve", run.to_str().unwrap()].iter().chain(args), 2);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(message) && error.contains("hint: "), "{error}");
    }
}

fn conversation(task: &str, solved_step: Option<usize>) -> String {
    let call = |name: &str, arguments: &str| {
        format!(
            "[[conversation.turn]]\nusage = {{ input = 100, output = 50 }}\n\
             [[conversation.turn.tool_calls]]\nname = \"{name}\"\narguments = {arguments}\n"
        )
    };
    let shell = |line: &str| {
        let line = serde_json::to_string(line).unwrap();
        call("shell", &format!("{{ command = {line} }}"))
    };
    let mut text = format!("[[conversation]]\nwhen = \"TASK-{task}\"\nrepeat_last = true\n");
    for step in 1..solved_step.unwrap_or(100) {
        text.push_str(&shell(match step {
            5 => "touch notes.txt",
            6 => "rm notes.txt",
            _ => "ls",
        }));
    }
    if solved_step.is_some() {
        text.push_str(&shell(DEMO_SOLUTION));
        text.push_str(&call("submit", "{}"));
    }
    text
}

fn resolved_count(report: &Value) -> u64 {
    report["arms"][0]["resolved"].as_u64().unwrap()
}

fn total_steps(report: &Value) -> u64 {
    let tasks = report["tasks"].as_array().unwrap();
    tasks.iter().map(|trial| trial["steps"].as_u64().unwrap()).sum()
}

/// Returns the values of a key for each task, from a report or from a curve.
fn values_of_key<'a>(list: &'a Value, key: &str) -> Vec<&'a Value> {
    list.as_array().unwrap().iter().map(|one| &one[key]).collect()
}

#[test]
fn curve_matches_real_runs_with_smaller_limits() {
    let scripted = CurveFixture::new();
    let run = scripted.run("run", &[]);
    // Compute the curve first, so that it cannot use the verdicts of the real runs.
    let curve = scripted.curve_report(&run, &["--at", "steps=10,50,100"]);
    let points = curve["points"].as_array().unwrap();
    let (mut real, mut calls) = (Vec::new(), 0);
    for limit in [10, 50, 100] {
        let set = format!("budget.steps={limit}");
        let out = scripted.run(&format!("real-{limit}"), &[&set]);
        let report = scripted.stage.report(&out);
        calls += total_steps(&report);
        real.push((
            limit,
            resolved_count(&report),
            report["arms"][0]["passed_rate"].as_f64().unwrap(),
        ));
    }
    let found: Vec<_> = points
        .iter()
        .map(|point| {
            let passed = (point["passed_rate"].as_f64().unwrap() * 1e4).round() / 1e4;
            (point["at"].as_u64().unwrap(), point["resolved"].as_u64().unwrap(), passed)
        })
        .collect();
    assert_eq!(found, real);
    assert_eq!(real.iter().map(|(_, resolved, _)| *resolved).collect::<Vec<_>>(), [0, 1, 2]);
    let report = scripted.stage.report(&run);
    // Only two trees still need grading: those of A and B without an edit. C's tree was already
    // graded.
    assert_eq!((&curve["cost"]["model_calls"], &curve["cost"]["gradings"]), (&0.into(), &2.into()));
    println!(
        "three real runs: {calls} model calls, 9 graded trees; one run and its curve: {} model calls, {} graded trees",
        total_steps(&report),
        3 + curve["cost"]["gradings"].as_u64().unwrap()
    );
    let again = scripted.curve_report(&run, &["--at", "steps=100,10,50"]);
    assert_eq!((&again["points"], &again["cost"]["gradings"]), (&curve["points"], &0.into()));
    let last = &points[2];
    assert_eq!(
        (&last["name"], &last["budget"], &last["trials"]),
        (&"t".into(), &"steps".into(), &3.into())
    );
    assert_eq!((&last["truncated"], &last["resolved_rate"]), (&false.into(), &(2.0 / 3.0).into()));
    assert_eq!(values_of_key(&curve["points"], "bound"), [3, 2, 1]);

    // For every kind of limit, the results include the response that crosses the limit. Each
    // response has 150 tokens and costs $0.002.
    for (at, set, wanted) in [
        ("tokens=1799", "budget.total_tokens=1799", 1),
        ("tokens=1650", "budget.total_tokens=1650", 0),
        ("cost=0.023", "budget.cost_usd=0.023", 1),
    ] {
        let point = &scripted.curve_report(&run, &["--at", at])["points"][0];
        let out = scripted.run(&at.replace('=', "-"), &[set]);
        assert_eq!(point["resolved"], resolved_count(&scripted.stage.report(&out)), "{at}");
        assert_eq!(point["resolved"], wanted, "{at}");
    }
    let seconds = scripted.curve_report(&run, &["--at", "seconds=100000"]);
    assert_eq!(seconds["points"][0]["resolved"], 2);

    let every = scripted.curve_report(&run, &["--every"]);
    assert_eq!(
        values_of_key(&every["first_resolved"], "step"),
        [&12.into(), &60.into(), &Value::Null]
    );

    let check = scripted.curve_report(&run, &["--at", "steps=10,50", "--check", "2"]);
    let one = &check["checks"][0];
    assert_eq!((&one["at"], &one["tasks"], &one["gap"]), (&10.into(), &2.into(), &0.0.into()));
    assert_eq!(check["cost"]["model_calls"], 20);
    let check = scripted.curve_report(&run, &["--at", "steps=10", "--check", "3"]);
    assert_eq!(check["cost"]["model_calls"], 10, "existing responses are not requested again");
    assert_eq!(check["checks"][0]["tasks"], 3);

    scripted.assert_rejected(&run, &["--at", "steps=10,101"], "ran with a limit of 100");
    scripted.assert_rejected(&run, &["--at", "stepps=10"], "unknown budget kind `stepps`");
    scripted.assert_rejected(&run, &["--at", "steps=0"], "not a number above 0");
    scripted.assert_rejected(&run, &[], "nothing to compute");

    let compared = [run.to_str().unwrap(), scripted.stage.path("real-10").to_str().unwrap()]
        .map(str::to_owned);
    let args = ["compare", &compared[0], &compared[1], "--format", "json", "--why"];
    let json: Value = serde_json::from_slice(&scripted.stage.run(args, 0).stdout).unwrap();
    let pair = &json["pairs"][0];
    assert_eq!(
        (&pair["a_only"], &pair["b_only"], &pair["p_value"]),
        (&2.into(), &0.into(), &0.5.into())
    );
    assert_eq!(json["why"][0]["factors"][0]["factor"], "budget.steps");
    let args = ["compare", &compared[0], &compared[1], "--why"];
    let text = String::from_utf8(scripted.stage.run(args, 0).stdout).unwrap();
    assert!(
        text.contains("66.7 points more than") && text.contains("budget.steps: 100 vs 10"),
        "{text}"
    );
    scripted.stage.run(["compare", &compared[0]], 2);

    let trial = &report["tasks"][2];
    assert_eq!(
        (&trial["reason"], &trial["limit"], &trial["score_valid"]),
        (&"out_of_budget".into(), &"steps".into(), &true.into())
    );
    assert_eq!(report["arms"][0]["limit_bound"]["steps"], 0.3333);
    assert!(report["arms"][0]["intervals"]["resolved_rate"][0].is_f64());
}

#[test]
fn curve_shows_a_disclosed_budget_only_as_truncated() {
    let scripted = CurveFixture::new();
    let run = scripted.run("run", &["budget.steps=14", "budget.disclosure=\"countdown\""]);
    scripted.assert_rejected(&run, &["--at", "steps=10"], "knew its budget");
    let curve = scripted.curve_report(&run, &["--at", "steps=10,14", "--allow-truncated"]);
    assert_eq!(values_of_key(&curve["points"], "truncated"), [true, false]);
    assert_eq!(values_of_key(&curve["points"], "resolved"), [0, 1]);
    let page = [
        "curve",
        run.to_str().unwrap(),
        "--at",
        "steps=10,14",
        "--allow-truncated",
        "--format",
        "html",
    ];
    let page = String::from_utf8(scripted.stage.run(page, 0).stdout).unwrap();
    assert!(page.contains("<svg") && !page.contains("://"), "{page}");
}

#[test]
fn curve_uses_the_largest_arm_of_a_limit_matrix() {
    let scripted = CurveFixture::new();
    let run = scripted.run("run", &[r#"matrix."budget.steps"=[8, 13, 20]"#]);
    // The arms with limits of 8 and 13 steps cannot show results for a limit of 20. They differ
    // from the third arm only in the limit.
    let curve = scripted.curve_report(&run, &["--at", "steps=8,13,20"]);
    assert_eq!(values_of_key(&curve["points"], "name"), ["t/steps=20"; 3]);
    assert_eq!(values_of_key(&curve["points"], "resolved"), [0, 1, 1]);
    // If all arms cover the requested limits, each of them has results.
    let curve = scripted.curve_report(&run, &["--at", "steps=5,8"]);
    assert_eq!(curve["points"].as_array().unwrap().len(), 6);
    let curve =
        scripted.curve_report(&run, &["--at", "steps=10", "--arms", "*=13", "--arms", "*=20"]);
    assert_eq!(values_of_key(&curve["points"], "name"), ["t/steps=13", "t/steps=20"]);
    let every = scripted.curve_report(&run, &["--every", "--arms", "*=13"]);
    assert_eq!(
        values_of_key(&every["first_resolved"], "step"),
        [&12.into(), &Value::Null, &Value::Null]
    );
    scripted.assert_rejected(
        &run,
        &["--at", "steps=20", "--arms", "*=13"],
        "ran with a limit of 13",
    );
    scripted.assert_rejected(
        &run,
        &["--at", "steps=8", "--arms", "*=21"],
        "no arm name in the run matches",
    );
}

/// `--check` computes how many open files its trials need before it starts any of them.
#[test]
fn check_rejects_trials_that_need_more_open_files_than_allowed() {
    let scripted = CurveFixture::new();
    let run = scripted.run("run", &[]);
    let output = run_with_file_limit(&scripted.stage, 64, &check_args(&run));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("need more open files than the limit of 64"), "{said}");
    assert!(!check_folder(&run).exists(), "no trial was started");
}

/// A second Ctrl-C closes the sandboxes of the check. The command exits with the status of an
/// interrupted run.
#[test]
fn interrupted_check_ends_with_status_130() {
    let scripted = CurveFixture::new();
    let run = scripted.run("run", &[]);
    // The script is not part of the arm, so the check can use a model that responds only after this
    // test has ended.
    let slow = "model = \"s\"\n[default]\ndelay_seconds = 600.0\n\
                tool_calls = [{ name = \"submit\", arguments = {} }]\n";
    scripted.stage.write_file("script.toml", slow);
    let asks = |journal: &PathBuf| fs::read_to_string(journal).unwrap().contains("model_asked");
    interrupt_twice(&scripted.stage, &check_args(&run), |_| {
        find_files(&check_folder(&run), "trajectory.jsonl").iter().any(asks)
    });
}

fn check_args(run: &Path) -> [&str; 6] {
    ["curve", run.to_str().unwrap(), "--at", "seconds=100000", "--check", "1"]
}

/// Returns the folder with the trials of `--check`.
fn check_folder(run: &Path) -> PathBuf {
    run.with_file_name("run-check-seconds-100000")
}
