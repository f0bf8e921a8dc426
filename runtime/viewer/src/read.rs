//! Reads a trial, for its page and for the terminal.

use std::{
    fs,
    path::{Path, PathBuf},
};

use proctor_patch::Patch;
use proctor_record::{RunDir, TrialDir};
use proctor_report::{Report, TrialResult};
use proctor_types::{RunTask, Spending, TestGroup, Verdict};

use super::{
    JournalIndex, PlannedTrial,
    failure_label::failure_label,
    log::TestLog,
    test_error::{grading_summary, most_frequent_error},
};
use crate::{
    ViewError,
    html::{ChartLimit, ChartLimitKind, ShownLabel, StepRow, TestLine, Trial},
};

/// The file of a trial's `scaffold` folder with the agent's standard error.
const STDERR_FILE: &str = "stderr.log";

/// Maximum number of bytes read from a log. The end of the log is read, because failures are
/// reported there.
const MAX_LOG_BYTES: usize = 16 << 20;
/// Maximum number of lines to show from the end of the agent's standard error, and maximum number of
/// bytes to read for them.
const MAX_STDERR_LINES: usize = 20;
const MAX_STDERR_BYTES: u64 = 16 << 10;
/// Maximum length of a file that the viewer serves, in bytes.
const MAX_SERVED_BYTES: u64 = 64 << 20;
/// Maximum number of failing tests for which the log is searched.
const MAX_LOGS: usize = 500;

/// Reads a trial without the contents of its steps.
pub fn read_trial(
    run: &RunDir,
    name: &str,
    planned_trial: PlannedTrial<'_>,
    result: &TrialResult,
    index: Option<&JournalIndex>,
) -> Result<Trial, ViewError> {
    let dir = run.trial_dir(&planned_trial.id());
    let journal = dir.trajectory_path();
    let (steps, mut damage) =
        index.map(|index| (index.rows.clone(), index.damage.clone())).unwrap_or_default();
    // Skip lines that the check of the whole trial also reports. Its messages say how to fix them.
    damage.retain(|line| !result.damage.iter().any(|one| one.starts_with(line.as_str())));
    damage.extend(result.damage.iter().cloned());
    let side_requests = index.map(|index| index.side_requests.clone()).unwrap_or_default();
    let report = Report::from_results(std::slice::from_ref(result));
    let told = report.tasks.first();
    let (outcome, verdict) = (result.outcome.as_ref(), result.verdict.as_ref());
    // If the trial is still running, add up what its steps have used so far.
    let so_far = |steps: &[StepRow]| Spending {
        input_tokens: steps.iter().map(|step| step.input).sum(),
        output_tokens: steps.iter().map(|step| step.output).sum(),
        cost_usd: steps.iter().filter_map(|step| step.cost_usd).sum(),
        estimated: steps.iter().any(|step| step.estimated),
        unpriced: steps.iter().any(|step| step.number > 0 && step.cost_usd.is_none()),
        ..Spending::default()
    };
    let spent = outcome.map_or_else(|| so_far(&steps), |outcome| outcome.spent);
    let begun = outcome.is_some() || !steps.is_empty();
    let so_far = steps.last().map_or(0.0, |step| step.at + step.seconds);
    let mut files = vec![dir.path().to_owned()];
    files.extend(
        [journal, dir.patch_path(), dir.outcome_path(), dir.verdict_path(), dir.grading_dir()]
            .into_iter()
            .filter(|path| path.exists()),
    );
    let failed = result.grading_failure.as_ref().and_then(|failed| failed.log_file.as_ref());
    files.extend(failed.map(|name| dir.grading_dir().join(name)));
    files.extend(dir.scaffold_files());
    let is_agent_failure = told.is_some_and(|told| told.fault.is_some() || told.cause.is_some());
    let stderr = if is_agent_failure { read_stderr_tail(&dir) } else { Vec::new() };
    let mut why: Vec<String> = told
        .into_iter()
        .flat_map(|told| told.fault.iter().chain(&told.grading_fault).chain(&told.why))
        .cloned()
        .collect();
    if let Some(verdict) = verdict.filter(|verdict| !verdict.resolved) {
        why.extend(verdict.policies.iter().map(|(name, one)| format!("{name}: {}", one.why)));
    }
    let tests =
        verdict.map(|verdict| test_lines(verdict, &read_log_tail(&dir))).unwrap_or_default();
    Ok(Trial {
        labels: read_labels(run, planned_trial, None),
        run: name.to_owned(),
        task: planned_trial.task.task.id.to_string(),
        arm: planned_trial.arm.name.clone(),
        attempt: planned_trial.attempt,
        statement: planned_trial.task.task.statement.clone(),
        outcome: outcome.map(|one| one.ending.name().replace('_', " ")).unwrap_or_default(),
        resolved: verdict.map(|verdict| verdict.resolved),
        reason: told
            .and_then(|told| told.reason)
            .map(|reason| reason.to_string())
            .unwrap_or_default(),
        failure: failure_label(result, told.and_then(|told| told.reason), &steps),
        why,
        interruptions: outcome
            .map(|one| &one.interruptions)
            .filter(|all| !all.is_empty())
            .map(ToString::to_string)
            .unwrap_or_default(),
        integrity: verdict.map(|verdict| verdict.integrity.to_string()).unwrap_or_default(),
        evidence: verdict
            .into_iter()
            .flat_map(|verdict| &verdict.evidence)
            .map(|one| (one.kind.clone(), one.what.clone(), one.steps.clone()))
            .collect(),
        passed_rate: verdict.map(|verdict| verdict.passed_rate),
        steps,
        unanswered: index.and_then(JournalIndex::unanswered_row),
        failed_tries: index.map(|index| index.failed_tries.clone()).unwrap_or_default(),
        side_requests,
        input: spent.input_tokens,
        output: spent.output_tokens,
        cost_usd: (begun && !spent.unpriced).then_some(spent.cost_usd),
        estimated: spent.estimated,
        wall_seconds: outcome.map_or(so_far, |outcome| outcome.wall_seconds),
        limits: format_limits(planned_trial),
        chart_limits: chart_limits(planned_trial),
        beside: String::new(),
        grading: verdict.map(grading_summary).unwrap_or_default(),
        error: most_frequent_error(&tests),
        tests,
        has_patch: result.patch_bytes.is_some(),
        damage,
        agent_logs: index.map(|index| index.agent_logs.clone()).unwrap_or_default(),
        stderr,
        served_files: served_files(&dir).map(|(name, _)| name).collect(),
        files: files.iter().map(|path| path.display().to_string()).collect(),
    })
}

/// Returns the names and paths of those files of a trial that the viewer serves. Files that an agent
/// could have replaced by links to other files are not among them.
pub fn served_files(dir: &TrialDir) -> impl Iterator<Item = (&'static str, PathBuf)> {
    let files = [
        ("trajectory.jsonl", dir.trajectory_path()),
        ("patch.diff", dir.patch_path()),
        ("outcome.json", dir.outcome_path()),
        ("verdict.json", dir.verdict_path()),
    ];
    files.into_iter().filter(|(_, path)| is_served(path))
}

fn is_served(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_SERVED_BYTES)
}

fn format_limits(planned_trial: PlannedTrial<'_>) -> Vec<String> {
    let budget = serde_json::to_value(&planned_trial.arm.budget).unwrap_or_default();
    let fields = budget.as_object().cloned().unwrap_or_default();
    let numbers = fields.into_iter().filter(|(_, value)| value.is_number());
    numbers.map(|(name, value)| format!("{} {value}", name.replace('_', " "))).collect()
}

/// Returns the limits that can be computed from steps.
fn chart_limits(planned_trial: PlannedTrial<'_>) -> Vec<ChartLimit> {
    let budget = &planned_trial.arm.budget;
    let whole = |number: Option<u64>| number.map(|number| number as f64);
    [
        (ChartLimitKind::Steps, whole(budget.steps)),
        (ChartLimitKind::InputTokens, whole(budget.input_tokens)),
        (ChartLimitKind::OutputTokens, whole(budget.output_tokens)),
        (ChartLimitKind::TotalTokens, whole(budget.total_tokens)),
        (ChartLimitKind::Cost, budget.cost_usd),
        (ChartLimitKind::WallSeconds, budget.wall_seconds),
        (ChartLimitKind::WorkingSeconds, budget.working_seconds),
        (ChartLimitKind::ToolSeconds, budget.tool_seconds),
    ]
    .into_iter()
    .filter_map(|(kind, most)| Some(ChartLimit { kind, maximum: most? }))
    .collect()
}

fn read_log_tail(dir: &TrialDir) -> String {
    let bytes = dir.read_log();
    let from = bytes.len().saturating_sub(MAX_LOG_BYTES);
    String::from_utf8_lossy(&bytes[from..]).into_owned()
}

/// Returns the last lines that the agent wrote to standard error.
fn read_stderr_tail(dir: &TrialDir) -> Vec<String> {
    let bytes = dir.read_scaffold_file_tail(STDERR_FILE, MAX_STDERR_BYTES).unwrap_or_default();
    last_lines(&bytes)
}

fn last_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(MAX_STDERR_LINES);
    lines[skipped..].iter().map(|line| (*line).to_owned()).collect()
}

/// Lists failed tests before passed ones. Within each group, tests keep the order in which the task
/// lists them.
fn test_lines(verdict: &Verdict, log: &str) -> Vec<TestLine> {
    let log = TestLog::parse(log);
    let mut lines: Vec<TestLine> = Vec::new();
    let mut take = |kind: &'static str, group: &TestGroup, passed: bool| {
        let ids = if passed { &group.passed } else { &group.failed };
        for id in ids {
            let has_log = !passed && lines.len() < MAX_LOGS;
            lines.push(TestLine {
                kind,
                id: id.clone(),
                status: verdict.tests.get(id).map(ToString::to_string).unwrap_or_default(),
                passed,
                log: if has_log { log.test_section(id) } else { String::new() },
                speaks: String::new(),
            });
        }
    };
    for passed in [false, true] {
        take("F2P", &verdict.fail_to_pass, passed);
        take("P2P", &verdict.pass_to_pass, passed);
    }
    lines
}

/// Returns the labels that people gave a trial and its steps, or only the labels of one step.
/// Invalid labels are skipped.
pub fn read_labels(
    run: &RunDir,
    planned_trial: PlannedTrial<'_>,
    step: Option<u64>,
) -> Vec<ShownLabel> {
    let id = planned_trial.id();
    let mut labels = run.read_labels().entries;
    labels.retain(|label| label.trial == id && (step.is_none() || label.step == step));
    labels.sort_by_key(|label| label.step);
    let shown_labels = labels.into_iter().map(|label| ShownLabel {
        step: label.step,
        label: label.label,
        comment: label.comment.unwrap_or_default(),
    });
    shown_labels.collect()
}

/// Returns a trial's patch as text, or an empty string if there is no patch.
pub fn read_patch(run: &RunDir, planned_trial: PlannedTrial<'_>) -> String {
    let patch = run.trial_dir(&planned_trial.id()).read_patch().ok().flatten().unwrap_or_default();
    String::from_utf8_lossy(&patch).into_owned()
}

/// Returns the patch to compare the trial's patch with: the gold patch, or the reversed mask. Empty
/// if the task has neither.
pub fn reference_patch(task: &RunTask) -> String {
    let mask = || Patch::parse(task.task.mask.as_deref()?.as_bytes()).reverse().ok();
    match &task.task.gold {
        Some(gold) => gold.clone(),
        None => mask()
            .map(|gold| String::from_utf8_lossy(&gold.to_bytes()).into_owned())
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use proctor_report::read_trial_result;
    use proctor_types::{Fault, FaultLayer};

    use super::*;
    use crate::{
        planned_trials,
        test_run::{finish_trial, write_plan},
    };

    #[test]
    fn reason_and_log_of_a_failed_grading_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let plan = write_plan(&path, &["a"], 1, 1);
        finish_trial(&path, &plan.tasks[0], &plan.arms[0], true);
        let run = RunDir::open_read_only(&path).unwrap();
        let planned = planned_trials(&plan)[0];
        let dir = run.trial_dir(&planned.id());
        dir.withdraw_verdict("again").unwrap();
        let fault =
            Fault::new(FaultLayer::Grade, "reward.txt contains \"nan\"").hint("write 0 or 1");
        dir.store_grading_failure(&planned.id(), &fault.log(&b"output"[..]), false).unwrap();
        let result = read_trial_result(&run, &planned);
        let trial = read_trial(&run, "run", planned, &result, None).unwrap();
        assert_eq!((trial.resolved, trial.reason.as_str()), (None, "infrastructure"));
        assert_eq!(trial.why, ["grade fault: reward.txt contains \"nan\" (write 0 or 1)"]);
        let is_log = |file: &String| file.ends_with("grade/failed-1.txt");
        assert!(trial.files.iter().any(is_log), "{:?}", trial.files);
    }

    #[test]
    fn damaged_line_is_shown_once_with_its_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let plan = write_plan(&path, &["a"], 1, 1);
        finish_trial(&path, &plan.tasks[0], &plan.arms[0], true);
        let run = RunDir::open_read_only(&path).unwrap();
        let planned = planned_trials(&plan)[0];
        let journal = run.trial_dir(&planned.id()).trajectory_path();
        let text = fs::read_to_string(&journal).unwrap();
        fs::write(&journal, text.replacen("patch_collected", "patch_collectee", 1)).unwrap();
        let result = read_trial_result(&run, &planned);
        let index = JournalIndex::from_journal(&journal).unwrap();
        assert!(!index.damage.is_empty() && !result.damage.is_empty());
        let trial = read_trial(&run, "run", planned, &result, Some(&index)).unwrap();
        let line = &index.damage[0];
        let about: Vec<&String> =
            trial.damage.iter().filter(|one| one.starts_with(line.as_str())).collect();
        assert_eq!(about.len(), 1, "{:?}", trial.damage);
        assert!(about[0].len() > line.len(), "{about:?}");
    }
}
