//! Tests FeatureBench rows of both levels. The rows are made from real libraries and graded on
//! Docker in images like the benchmark's.

mod harness;
mod image;
mod rows;

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    single_shot::check_one_response_resolves,
    stage::{Stage, find_arm, has_docker},
};
use image::{BOLTONS, MISTUNE};
use rows::SolvedRow;

fn write_dataset(stage: &Stage, solved_rows: &[SolvedRow]) -> String {
    let lines: Vec<String> = solved_rows.iter().map(|made| made.row.to_string()).collect();
    stage.write_file("rows.jsonl", &lines.join("\n")).display().to_string()
}

/// Runs `proctor grade` on predictions. Returns the report.
fn grade(stage: &Stage, predictions: &str, tasks: &str, sandbox: &str) -> Value {
    let name = Path::new(predictions).file_stem().unwrap().to_str().unwrap();
    let out = stage.path(&format!("graded-{name}"));
    let out = out.to_str().unwrap();
    let args = ["--predictions", predictions, "--tasks", tasks, "--out", out, "--sandbox"];
    stage.run(["grade"].into_iter().chain(args).chain([sandbox]), 0);
    stage.report(Path::new(out))
}

/// Returns a line for FeatureBench's `output.jsonl`.
fn output_line(solved_row: &SolvedRow, agent: &str, attempt: usize, patch: &str) -> String {
    json!({
        "instance_id": solved_row.id(), "n_attempt": attempt, "model_patch": patch, "agent": agent,
        "model": "m", "task_metadata": solved_row.row, "success": true, "error": null
    })
    .to_string()
}

fn resolved_counts(report: &Value, name: &str) -> (u64, u64, Value) {
    let arm = find_arm(report, name);
    let count = |key: &str| arm[key].as_u64().unwrap();
    assert_eq!(arm["infrastructure_faults"], 0, "{report:#}");
    (count("resolved"), count("graded"), arm["passed_rate"].clone())
}

#[test]
fn featurebench_gold_resolves_and_noop_does_not_on_docker() {
    let name = "featurebench_gold_resolves_and_noop_does_not_on_docker";
    if !has_docker(name) {
        return;
    }
    [BOLTONS, MISTUNE].iter().for_each(|library| library.build_image());
    let stage = Stage::new();
    let made: Vec<SolvedRow> =
        rows::level_1_rows().into_iter().chain(rows::level_2_rows()).collect();
    let of = made.len() as u64;
    let tasks = write_dataset(&stage, &made);

    let gold = grade(&stage, "gold", &tasks, "docker");
    assert_eq!(resolved_counts(&gold, "gold"), (of, of, json!(1.0)), "{gold:#}");
    assert_eq!(find_arm(&gold, "gold")["resolved_clean"], of, "{gold:#}");
    let noop = grade(&stage, "noop", &tasks, "docker");
    assert_eq!(resolved_counts(&noop, "noop"), (0, of, json!(0.0)), "{noop:#}");
    for report in [&gold, &noop] {
        for task in report["tasks"].as_array().unwrap() {
            assert_eq!(task.get("policies_differ"), None, "{task:#}");
        }
    }

    // Run the scaffolds in closed sandboxes too, and grade the files that they leave.
    let config = format!(
        "tasks = [{tasks:?}]\njobs = 2\n[sandbox]\nkind = \"docker\"\n\
         [[arms]]\nname = \"gold\"\nscaffold = \"gold\"\n\
         [[arms]]\nname = \"noop\"\nscaffold = \"noop\"\n"
    );
    let config = stage.write_file("run.toml", &config);
    let out = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 0);
    let report = stage.report(&out);
    assert_eq!(resolved_counts(&report, "gold"), (of, of, json!(1.0)), "{report:#}");
    assert_eq!(find_arm(&report, "gold")["resolved_clean"], of, "{report:#}");
    assert_eq!(resolved_counts(&report, "noop"), (0, of, json!(0.0)), "{report:#}");
}

/// Grades the same rows without a Docker engine. Setup commands build the environments.
#[test]
fn featurebench_rows_are_graded_in_native_sandboxes() {
    let stage = Stage::new();
    let setup = format!(
        "python3 -m venv /venv\n\
         /venv/bin/pip install -q pytest==8.4.2 pytest-timeout==2.4.0 setuptools==80.9.0 wheel==0.45.1 flit-core==3.12.0\n\
         /venv/bin/pip download -q --no-deps --no-build-isolation --no-binary :all: -d /tmp/sdist {name}=={version}\n\
         tar -xzf /tmp/sdist/*.tar.gz -C /testbed --strip-components 1 && rm -rf /tmp/sdist\n\
         /venv/bin/pip install -q --no-deps --no-build-isolation -e /testbed\n",
        name = BOLTONS.name,
        version = BOLTONS.version
    );
    let setup = stage.write_file("setup.sh", &setup);
    let made: Vec<SolvedRow> =
        rows::level_1_rows().into_iter().chain(rows::level_2_rows()).collect();
    let made: Vec<SolvedRow> =
        made.into_iter().filter(|made| made.row["repo"] == BOLTONS.repo).collect();
    let of = made.len() as u64;
    let tasks = format!(
        "{}#base=host&bin=/venv/bin&setup={}",
        write_dataset(&stage, &made),
        setup.display()
    );
    for (predictions, expected) in [("gold", (of, of, json!(1.0))), ("noop", (0, of, json!(0.0)))] {
        let report = grade(&stage, predictions, &tasks, "native");
        assert_eq!(resolved_counts(&report, predictions), expected, "{report:#}");
    }
    let tricks = made
        .iter()
        .filter_map(|made| Some(output_line(made, "sly", 1, made.shortcut_patch.as_ref()?)));
    let output = stage.write_file("output.jsonl", &tricks.collect::<Vec<_>>().join("\n"));
    let report = grade(&stage, output.to_str().unwrap(), &tasks, "native");
    for trial in
        report["tasks"].as_array().unwrap().iter().filter(|trial| trial["resolved"] == true)
    {
        let why = trial["policies_differ"]["strict"].as_str().unwrap();
        assert!(why.contains("original_used"), "{why}");
    }
    assert_eq!(find_arm(&report, "sly/m")["resolved"], of - 1, "level 1 has no trick: {report:#}");
    let one = tasks.replace("rows.jsonl", "one.jsonl");
    stage.write_file("one.jsonl", &made[0].row.to_string());
    check_one_response_resolves(&stage, &one, &made[0].solution);
}

#[test]
fn featurebench_output_that_imports_the_original_is_reported_on_docker() {
    let name = "featurebench_output_that_imports_the_original_is_reported_on_docker";
    if !has_docker(name) {
        return;
    }
    [BOLTONS, MISTUNE].iter().for_each(|library| library.build_image());
    let stage = Stage::new();
    let made: Vec<SolvedRow> =
        rows::level_1_rows().into_iter().chain(rows::level_2_rows()).collect();
    let tasks = write_dataset(&stage, &made);
    let lines = made.iter().map(|made| {
        let honest = output_line(made, "honest", 1, &made.solution);
        let patch = made.shortcut_patch.as_deref().unwrap_or(&made.solution);
        format!("{honest}\n{}\n", output_line(made, "sly", 1, patch))
    });
    let output = stage.write_file("output.jsonl", &lines.collect::<String>());
    let report = grade(&stage, output.to_str().unwrap(), &tasks, "docker");
    let of = made.len() as u64;
    for agent in ["honest/m", "sly/m"] {
        // The benchmark's own rates are the same, because its procedure does not detect the trick.
        assert_eq!(resolved_counts(&report, agent), (of, of, json!(1.0)), "{report:#}");
    }
    let of_arm = |agent: &str, id: &str| {
        let arm = &find_arm(&report, agent)["arm"];
        let mut trials = report["tasks"].as_array().unwrap().iter();
        trials.find(|trial| trial["arm"] == *arm && trial["task"] == id).unwrap().clone()
    };
    for made in &made {
        let (honest, sly) = (of_arm("honest/m", made.id()), of_arm("sly/m", made.id()));
        assert_eq!(honest.get("policies_differ"), None, "{honest:#}");
        if made.shortcut_patch.is_none() {
            continue;
        }
        assert_eq!(sly["resolved"], true, "{sly:#}");
        let why = sly["policies_differ"]["strict"].as_str().unwrap();
        let asked = if made.row["repo"] == MISTUNE.repo {
            "add_toc_hook, render_toc_ul of mistune.toc"
        } else if made.id().contains("mathutils") {
            "clamp, ceil, floor, Bits of boltons.mathutils"
        } else {
            "parse_int_list, format_int_list of boltons.strutils"
        };
        assert!(why.contains("original_used") && why.contains(asked), "{why}");
    }
}

/// Compares Proctor's verdicts with the harness's on the same patches in the same images. The
/// patches solve the task, solve part of it, or cheat.
#[test]
fn featurebench_harness_agrees_on_docker() {
    let name = "featurebench_harness_agrees_on_docker";
    if !has_docker(name) {
        return;
    }
    [BOLTONS, MISTUNE].iter().for_each(|library| library.build_image());
    let stage = Stage::new();
    let (first, second) = (rows::level_1_rows(), rows::level_2_rows());
    let (lists, numbers, toc) = (&second[0], &second[1], &second[2]);
    let cases: Vec<(&SolvedRow, String)> = vec![
        (&first[0], first[0].solution.clone()),
        (&first[1], rows::conftest_patch(true)),
        (&first[1], rows::conftest_patch(false)),
        (lists, lists.shortcut_patch.clone().unwrap()),
        (lists, lists.solution.clone()),
        // Either the installation fails, or there is nothing to install. The harness continues in
        // both cases.
        (lists, lists.solution.replace("+setup(\n", "+raise SystemExit(1)\n")),
        (numbers, rows::without_file(&numbers.solution, "setup.py")),
        (toc, toc.solution.replace("+def add_toc_hook(", "+def add_no_hook(")),
    ];
    let Some(said) = harness::harness_verdicts(name, &stage, &cases) else { return };
    let solved: Vec<bool> = said.iter().map(|(resolved, _)| *resolved).collect();
    assert_eq!(solved, [true, true, false, true, true, false, false, false]);

    let rows: Vec<SolvedRow> =
        rows::level_1_rows().into_iter().chain(rows::level_2_rows()).collect();
    let tasks = write_dataset(&stage, &rows);
    // Several responses to the same task count as attempts.
    let attempt = |at: usize| {
        let before = cases[..at].iter().filter(|(made, _)| made.id() == cases[at].0.id());
        before.count() + 1
    };
    let lines = cases.iter().enumerate();
    let lines = lines.map(|(at, (made, patch))| output_line(made, "case", attempt(at), patch));
    let output = stage.write_file("output.jsonl", &lines.collect::<Vec<_>>().join("\n"));
    let report = grade(&stage, output.to_str().unwrap(), &tasks, "docker");
    for (at, ((made, _), (official, seconds))) in cases.iter().zip(&said).enumerate() {
        let mut trials = report["tasks"].as_array().unwrap().iter();
        let is_it = |trial: &&Value| trial["attempt"] == attempt(at) && trial["task"] == made.id();
        let trial = trials.find(is_it).unwrap();
        assert_eq!(trial["resolved"], *official, "case {at}: {trial:#}");
        println!("case {at}, {}: the harness took {seconds} s", made.id());
    }
}
