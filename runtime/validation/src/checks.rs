//! Checks a dataset, using a run with gold and noop arms.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use proctor_datasets::lint_folder;
use proctor_grade::harbor::find_verifier_defect;
use proctor_record::{Blobs, GradingFailure, RunDir, Tree, TrialDir, read_journal};
use proctor_report::{Report, TaskReport};
use proctor_run::{IN_PLACE_NOTE, LEAK_NOTE, PlannedTask};
use proctor_sandbox_api::{Backend, Base, wire::RawPath};
use proctor_setup::sandbox_base;
use proctor_types::{
    Event, Task, TaskId, TestStatus, TrialId, Verdict, count_with_noun, file_from_test_id,
    join_first_few,
};

use crate::quality::readable_tests;

/// Returns the reasons why gold verdicts are `unverified`, one line per reason with its tasks.
/// Checks only tasks whose test command reports its own results.
pub fn unverified_gold_notes(
    report: &Report,
    run: &RunDir,
    planned_tasks: &[PlannedTask],
) -> Vec<String> {
    let gold = report.arms.iter().find(|arm| arm.name == "gold").map(|arm| &arm.arm);
    let Some(gold) = gold else { return Vec::new() };
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for planned in
        planned_tasks.iter().filter(|planned| planned.task.command_test_results().is_some())
    {
        let task = &planned.task.id;
        let id = TrialId { task: task.clone(), arm: gold.clone(), attempt: 1 };
        let Some(verdict) = run.check_trial(&id).verdict else { continue };
        for evidence in verdict.unverified_evidence() {
            by_reason.entry(evidence.what.clone()).or_default().push(task.to_string());
        }
    }
    let line = |(why, ids): (String, Vec<String>)| {
        let count = count_with_noun(ids.len(), "task");
        let ids = join_first_few(ids);
        format!("{count} graded with integrity `unverified`: {why}: {ids}")
    };
    by_reason.into_iter().map(line).collect()
}

/// Runs Harbor's lint rules on the folders of Harbor tasks. Returns one line per rule with
/// findings.
pub fn lint_notes(planned_tasks: &[PlannedTask]) -> Vec<String> {
    let mut by_rule: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    let mut notes = Vec::new();
    for planned in planned_tasks.iter().filter(|planned| planned.task.harbor.is_some()) {
        match lint_folder(&planned.base_dir) {
            Ok(findings) => {
                for finding in findings {
                    let line = finding.line.map_or(String::new(), |line| format!(":{line}"));
                    let detail = finding.detail.map_or(String::new(), |it| format!(": {it}"));
                    let place = format!("{} ({}{line}{detail})", planned.task.id, finding.path);
                    let (_, places) = by_rule
                        .entry(finding.rule)
                        .or_insert_with(|| (finding.message, Vec::new()));
                    places.push(place);
                }
            }
            Err(why) => {
                notes.push(format!("{}: Harbor's lint rules did not run: {why}", planned.task.id))
            }
        }
    }
    let line = |(rule, (what, places)): (String, (String, Vec<String>))| {
        let count = count_with_noun(places.len(), "finding");
        format!("Harbor's lint rule `{rule}`: {count}: {what}: {}", join_first_few(places))
    };
    notes.extend(by_rule.into_iter().map(line));
    notes
}

/// Returns the tasks that gold must not resolve.
pub fn impossible_tasks(planned_tasks: &[PlannedTask]) -> BTreeSet<&TaskId> {
    let tasks = planned_tasks.iter().filter(|planned| planned.task.impossible.is_some());
    tasks.map(|planned| &planned.task.id).collect()
}

/// Returns the file that best explains how a trial ended. This is the log of its last grading. If
/// that grading failed without output, its reason is in the grading journal. A trial that was not
/// graded has only its trajectory, which ends with the fault.
fn find_log(trial: &TrialDir, failure: Option<&GradingFailure>) -> Option<PathBuf> {
    let of_grading = match failure {
        Some(GradingFailure { log_file: Some(name), .. }) => trial.grading_dir().join(name),
        Some(_) => trial.gradings_path(),
        None => trial.grading_dir().join("log.txt"),
    };
    [of_grading, trial.trajectory_path()].into_iter().find(|log| log.exists())
}

/// Returns why a Harbor task's verifier can't judge any solution, according to its run on the
/// reference solution: for example, it has no network, but tries to download its tools.
pub fn verifier_defect(run: &RunDir, gold: &TrialId, task: &Task) -> Option<String> {
    task.harbor.as_ref()?;
    let log = run.trial_dir(gold).read_log();
    // The rules were parsed when the tasks were loaded.
    find_verifier_defect(task, &String::from_utf8_lossy(&log)).ok().flatten()
}

/// A problem with a task's `hidden` paths or fail-to-pass tests.
pub struct Exposure {
    pub description: String,
    /// Whether the problem is a fail-to-pass test that the agent can read.
    pub is_readable_test: bool,
}

/// Returns the problems with each task's `hidden` paths and fail-to-pass ids, according to the
/// trials.
pub fn find_task_exposures<'a>(
    report: &Report,
    run: &RunDir,
    planned_tasks: &'a [PlannedTask],
) -> Vec<(&'a PlannedTask, Vec<Exposure>)> {
    let arm = |name: &str| report.arms.iter().find(|arm| arm.name == name).map(|arm| &arm.arm);
    let id = |planned: &PlannedTask, name: &str| {
        Some(TrialId { task: planned.task.id.clone(), arm: arm(name)?.clone(), attempt: 1 })
    };
    let of_task = |planned: &'a PlannedTask| {
        let mut found = Vec::new();
        let start = id(planned, "noop").and_then(|id| InitialState::load(run, &id));
        if let Some(start) = &start {
            found.extend(start.find_exposures(&planned.task));
        }
        let verdict = id(planned, "gold").and_then(|id| run.check_trial(&id).verdict);
        found.extend(
            verdict.and_then(|verdict| find_unknown_ids(&planned.task, &verdict, start.as_ref())),
        );
        (planned, found)
    };
    planned_tasks.iter().map(of_task).collect()
}

/// The agent's initial work directory in a trial.
struct InitialState {
    tree: Tree,
    blobs: Blobs,
    /// Paths in `hidden` that match nothing.
    unmatched_paths: Vec<String>,
}

impl InitialState {
    /// Reads the initial state from a trial's journal. Returns `None` if the journal does not
    /// contain that state, for example after a fault.
    fn load(run: &RunDir, id: &TrialId) -> Option<Self> {
        let dir = run.trial_dir(id);
        let blobs = run.trial_blobs(&dir);
        let (mut base, mut unmatched) = (None, Vec::new());
        for envelope in read_journal(dir.trajectory_path()).ok()?.events {
            match envelope.event {
                Event::SetupFinished { base_snapshot, .. } => base = Some(base_snapshot),
                Event::Noted { note } => {
                    let paths = note.get(LEAK_NOTE).and_then(|note| note["unmatched"].as_array());
                    let paths = paths.into_iter().flatten().filter_map(|path| path.as_str());
                    unmatched.extend(paths.map(str::to_owned));
                }
                _ => {}
            }
        }
        let tree = Tree::load(&blobs, &base?).ok()?;
        Some(Self { tree, blobs, unmatched_paths: unmatched })
    }

    fn read_file(&self, path: &str) -> Option<String> {
        let hash = self.tree.entries.get(&RawPath::from(path))?.hash.as_ref()?;
        Some(String::from_utf8_lossy(&self.blobs.get(hash).ok()?).into_owned())
    }

    fn find_exposures(&self, task: &Task) -> Vec<Exposure> {
        let mut found = Vec::new();
        if !self.unmatched_paths.is_empty() {
            let paths = join_first_few(self.unmatched_paths.clone());
            let what = format!("`hidden` matches nothing: {paths}");
            found.push(Exposure { description: what, is_readable_test: false });
        }
        let tests = readable_tests(task, &|path| self.read_file(path));
        if !tests.is_empty() {
            let what = format!(
                "the agent can read fail-to-pass tests: {} (add their files to `hidden`, or \
                 validate with --visible-tests)",
                join_first_few(tests)
            );
            found.push(Exposure { description: what, is_readable_test: true });
        }
        found
    }
}

/// Finds fail-to-pass ids that match no test. An id matches no test if gold's run has results for
/// other tests but not for that id, or if the test's file does not exist and no patch creates it.
fn find_unknown_ids(
    task: &Task,
    verdict: &Verdict,
    initial_state: Option<&InitialState>,
) -> Option<Exposure> {
    let is_missing = |status: &TestStatus| *status == TestStatus::Missing;
    let has_results = !verdict.tests.values().all(is_missing);
    let patches: Vec<_> =
        [&task.mask, &task.gold, &task.test_patch].into_iter().flatten().collect();
    let is_unknown = |id: &&String| {
        let file = file_from_test_id(id);
        match verdict.tests.get(*id) {
            Some(status) if is_missing(status) => has_results,
            Some(TestStatus::Error) if task.test_ids_start_with_file() => {
                let is_hidden = task.hidden.iter().any(|path| file.starts_with(path.as_str()));
                let is_patched = patches.iter().any(|patch| patch.contains(file));
                let is_there = initial_state.is_none_or(|start| start.read_file(file).is_some());
                !is_hidden && !is_patched && !is_there
            }
            _ => false,
        }
    };
    let ids: Vec<String> = task.fail_to_pass.iter().filter(is_unknown).cloned().collect();
    let what = format!("fail-to-pass ids that match no test: {}", join_first_few(ids.clone()));
    (!ids.is_empty()).then_some(Exposure { description: what, is_readable_test: false })
}

/// Returns the gold and noop trials with an unexpected verdict. Ignores runs with reduced
/// resources, because they check the tests and not the task.
pub fn invalid_trial_notes(
    report: &Report,
    run: &RunDir,
    planned_tasks: &[PlannedTask],
) -> Vec<String> {
    let impossible_ids = impossible_tasks(planned_tasks);
    let mut invalid = Vec::new();
    for trial in &report.tasks {
        let name = report.arms.iter().find(|arm| arm.arm == trial.arm).map(|arm| arm.name.as_str());
        let is_gold = match name {
            Some("gold") => true,
            Some("noop") => false,
            _ => continue,
        };
        let wanted = is_gold && !impossible_ids.contains(&trial.task);
        if trial.resolved != Some(wanted) {
            let arm = if is_gold { "gold" } else { "noop" };
            let found = match trial.resolved {
                Some(true) if is_gold => "resolves the task, but no honest solution can",
                Some(true) => "resolves it",
                Some(false) => "does not resolve it",
                None => "has no verdict",
            };
            let id = TrialId {
                task: trial.task.clone(),
                arm: trial.arm.clone(),
                attempt: trial.attempt,
            };
            let checked = run.check_trial(&id);
            let failure = checked.grading_failure;
            let reason = failure.as_ref().map(|failed| format!(": {}", failed.fault));
            let reason = reason.unwrap_or_default();
            let task = planned_tasks.iter().find(|planned| planned.task.id == trial.task);
            let defect = task
                .filter(|_| is_gold && trial.resolved == Some(false))
                .and_then(|planned| verifier_defect(run, &id, &planned.task));
            let defect = defect.map_or(String::new(), |defect| format!("; {defect}"));
            let tests = checked.verdict.map_or(String::new(), |it| {
                match (is_gold, it.rewards.is_empty()) {
                    (_, false) => format_rewards(&it),
                    (true, true) => format_failed_tests(&it),
                    (false, true) => format_passed_tests(&it),
                }
            });
            let server =
                if is_gold && is_resolved_in_place(&run.trial_dir(&id)) { SERVER_NOTE } else { "" };
            let log = find_log(&run.trial_dir(&id), failure.as_ref());
            let log = log.map_or(String::new(), |log| format!("; log: {}", log.display()));
            invalid.push(format!(
                "{}, attempt {}: {arm} {found}{reason}{tests}{defect}{server}{log}",
                trial.task, trial.attempt
            ));
        }
    }
    invalid
}

/// Note about a gold solution that resolves its task only in the container in which it ran.
const SERVER_NOTE: &str = "; gold resolves the task only while the processes it started keep \
                           running: grade such tasks with `grading.harbor_shared = true`";

/// Whether the verifier considered the trial resolved in the agent's own container.
fn is_resolved_in_place(trial: &TrialDir) -> bool {
    let Ok(reading) = read_journal(trial.trajectory_path()) else { return false };
    let resolved = |note: &serde_json::Map<String, serde_json::Value>| {
        note.get(IN_PLACE_NOTE)?.get("verdict")?.get("resolved")?.as_bool()
    };
    reading.events.iter().any(|envelope| match &envelope.event {
        Event::Noted { note } => resolved(note) == Some(true),
        _ => false,
    })
}

fn format_rewards(verdict: &Verdict) -> String {
    let said: Vec<String> =
        verdict.rewards.iter().map(|(name, reward)| format!("{name} = {reward}")).collect();
    format!("; rewards: {}", said.join(", "))
}

/// Returns a line for each image with an entry point or a command, which sandboxes do not run.
pub async fn unused_entrypoint_notes(
    planned_tasks: &[PlannedTask],
    backend: &dyn Backend,
) -> BTreeSet<String> {
    let mut bases = BTreeMap::new();
    for planned in planned_tasks {
        let Ok(base) = sandbox_base(&planned.task, &planned.base_dir) else { continue };
        let name = match &base {
            Base::Image(image) => format!("image {image}"),
            Base::Archive(file) => format!("image {}", file.display()),
            Base::Dockerfile(folder) => format!("the image of {}", folder.display()),
            Base::Host | Base::Folder(_) => continue,
        };
        bases.insert(name, base);
    }
    let mut lines = BTreeSet::new();
    for (name, base) in bases {
        // Skip unreadable images, because their trials have already failed with a reason.
        let Ok(settings) = backend.image_settings(&base).await else { continue };
        let parts = [("ENTRYPOINT", settings.entrypoint), ("CMD", settings.cmd)];
        let parts = parts.into_iter().filter(|(_, words)| !words.is_empty());
        let parts: Vec<String> =
            parts.map(|(key, words)| format!("{key} `{}`", words.join(" "))).collect();
        if !parts.is_empty() {
            let verb = if parts.len() == 1 { "does" } else { "do" };
            lines.insert(format!("{name}: {} {verb} not run in a sandbox", parts.join(" and ")));
        }
    }
    lines
}

/// Returns a line for each trial in which fail-to-pass tests pass without the gold patch.
pub fn passing_without_gold_notes(report: &Report, run: &RunDir) -> BTreeSet<String> {
    let noop = report.arms.iter().find(|arm| arm.name == "noop").map(|arm| &arm.arm);
    let mut told = BTreeSet::new();
    // If all fail-to-pass tests pass, `invalid_trial_notes` reports the trial instead.
    let partly = |trial: &&TaskReport| Some(&trial.arm) == noop && trial.resolved != Some(true);
    for trial in report.tasks.iter().filter(partly) {
        let id =
            TrialId { task: trial.task.clone(), arm: trial.arm.clone(), attempt: trial.attempt };
        let Some(verdict) = run.check_trial(&id).verdict else {
            continue;
        };
        let passed = &verdict.fail_to_pass.passed;
        if !passed.is_empty() {
            told.insert(format!(
                "{}: {} without the gold patch: {}",
                trial.task,
                match passed.len() {
                    1 => "a fail-to-pass test passes".to_owned(),
                    many => format!("{many} fail-to-pass tests pass"),
                },
                join_first_few(passed.clone())
            ));
        }
    }
    told
}

fn format_failed_tests(verdict: &Verdict) -> String {
    let groups = [("fail-to-pass", &verdict.fail_to_pass), ("pass-to-pass", &verdict.pass_to_pass)];
    let groups = groups.into_iter().filter(|(_, group)| !group.failed.is_empty());
    let said = groups
        .map(|(name, group)| format!("; {name} failed: {}", join_first_few(group.failed.clone())));
    said.collect()
}

/// Formats the fail-to-pass tests that passed.
fn format_passed_tests(verdict: &Verdict) -> String {
    match verdict.fail_to_pass.passed.as_slice() {
        [] => String::new(),
        passed => format!("; fail-to-pass tests that passed: {}", join_first_few(passed.to_vec())),
    }
}
