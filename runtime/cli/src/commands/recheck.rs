//! `proctor report --recheck`: lists finished trials whose attribution or verdict would change
//! under this version's rules.

use std::{fs, path::PathBuf, process::ExitCode};

use proctor_gateway::recheck_rejection;
use proctor_grade::{ExternalLog, grade_log};
use proctor_record::{
    Blobs, CheckedTrial, RunDir, read_journal,
    trial_lookup::{PlannedTrial, planned_trials},
};
use proctor_types::{
    Arm, Ending, Event, ExitCause, Outcome, RULES_VERSION, Task, Verdict, count_with_noun,
};
use serde::Serialize;

use crate::{args::ReportFormat, error::CommandError, print::print_result};

/// Headings in a grading log that start the official log and the section that may follow it.
const OFFICIAL_HEADING: &[u8] = b"\n===== official: ";
const WHOLE_SUITE_HEADING: &[u8] = b"\n===== the whole suite =====\n";

/// A trial whose attribution or verdict would change under the current rules.
#[derive(Debug, Serialize)]
struct ChangedTrial {
    run: String,
    task: String,
    arm: String,
    attempt: u32,
    recorded: String,
    /// The result under this version's rules.
    now: String,
    why: String,
}

#[derive(Debug, Serialize)]
struct RecheckReport {
    /// The version of the current rules.
    rules: u32,
    /// The runs, and the version of the rules that each run used.
    runs: Vec<RunRules>,
    trials: Vec<ChangedTrial>,
}

#[derive(Debug, Serialize)]
struct RunRules {
    run: String,
    rules: u32,
    finished: usize,
}

/// Lists the trials without changing the record.
pub fn recheck(runs: &[PathBuf], format: ReportFormat) -> Result<ExitCode, CommandError> {
    let mut all = RecheckReport { rules: RULES_VERSION, runs: Vec::new(), trials: Vec::new() };
    for path in runs {
        let run = RunDir::open_read_only(path).map_err(CommandError::from_record_error)?;
        let record = run.read_run()?;
        let name = path.display().to_string();
        let mut finished = 0;
        for found in planned_trials(&record) {
            let checked = run.check_trial(&found.id());
            let Some(outcome) = checked.outcome.as_ref().filter(|one| !one.ending.is_unfinished())
            else {
                continue;
            };
            finished += 1;
            // If a run was judged by the current rules, its results cannot change.
            if record.rules == RULES_VERSION {
                continue;
            }
            for (recorded, now, why) in find_changes(&run, &found, outcome, &checked)? {
                let (task, arm) = (found.task.task.id.to_string(), found.arm.name.clone());
                let (run, attempt) = (name.clone(), found.attempt);
                all.trials.push(ChangedTrial { run, task, arm, attempt, recorded, now, why });
            }
        }
        all.runs.push(RunRules { run: name, rules: record.rules, finished });
    }
    match format {
        ReportFormat::Json => print_result(&format!("{}\n", serde_json::to_string_pretty(&all)?))?,
        _ => print_result(&format_recheck_report(&all))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn format_recheck_report(report: &RecheckReport) -> String {
    let mut text = String::new();
    for one in &report.trials {
        let ChangedTrial { task, arm, attempt, recorded, now, why, .. } = one;
        text.push_str(&format!("{task} / {arm} / {attempt}: {recorded}, now {now}: {why}\n"));
    }
    for RunRules { run, rules, finished } in &report.runs {
        let changed = report.trials.iter().filter(|one| one.run == *run).count();
        let trials = count_with_noun(*finished, "finished trial");
        text.push_str(&format!(
            "{run}: rules version {rules}, now {RULES_VERSION}; {trials}, {changed} would change\n"
        ));
    }
    text
}

/// Returns the changes under the current rules for one trial: the recorded result, the new result,
/// and the reason.
fn find_changes(
    run: &RunDir,
    planned_trial: &PlannedTrial<'_>,
    outcome: &Outcome,
    checked_trial: &CheckedTrial,
) -> Result<Vec<(String, String, String)>, CommandError> {
    let dir = run.trial_dir(&planned_trial.id());
    let mut all = Vec::new();
    if let Some(why) =
        unscored_reason(&run.trial_blobs(&dir), &dir.trajectory_path(), planned_trial.arm, outcome)?
    {
        let now = "an infrastructure failure".to_owned();
        all.push((outcome.ending.name(), now, why));
    }
    if let Some(verdict) = &checked_trial.verdict
        && let Ok(log) = fs::read(dir.grading_dir().join("log.txt"))
        && let Some(resolved) = reparse_official_log(&planned_trial.task.task, &log)
        && let Some(recorded) = recorded_official_result(verdict)
        && recorded != resolved
    {
        let said = |resolved: bool| match resolved {
            true => "official: resolved".to_owned(),
            false => "official: not resolved".to_owned(),
        };
        let why = "this version's parser reads this result from the recorded test log".to_owned();
        all.push((said(recorded), said(resolved), why));
    }
    Ok(all)
}

fn recorded_official_result(verdict: &Verdict) -> Option<bool> {
    verdict.policies.get("official").map(|policy| policy.resolved)
}

/// Returns why the trial's ending would not be scored, or `None` if it would.
fn unscored_reason(
    blobs: &Blobs,
    journal: &std::path::Path,
    arm: &Arm,
    outcome: &Outcome,
) -> Result<Option<String>, CommandError> {
    let Some(model) = arm.model.as_ref().filter(|_| arm.scaffold != "replay") else {
        return Ok(None);
    };
    let without_response = match &outcome.ending {
        Ending::Submitted => true,
        Ending::ScaffoldExited { cause, .. } => *cause != ExitCause::Finished,
        _ => false,
    };
    if without_response && outcome.spent.steps == 0 {
        return Ok(Some("the agent ended before it received a response".to_owned()));
    }
    if !matches!(outcome.ending, Ending::ModelRefused { .. } | Ending::ScaffoldExited { .. }) {
        return Ok(None);
    }
    let last =
        read_journal(journal)?.events.into_iter().rev().find_map(|envelope| match envelope.event {
            Event::ModelAttempted { status: Some(status), request, body, .. } => {
                Some((status, request, body))
            }
            _ => None,
        });
    let Some((status, request, body)) = last else { return Ok(None) };
    let bytes = |hash: Option<String>| hash.and_then(|hash| blobs.get(&hash).ok());
    // Without the endpoint's response, the error cannot be classified.
    let Some(body) = bytes(body) else { return Ok(None) };
    let length = bytes(request).map_or(u64::MAX, |request| request.len() as u64);
    let body = String::from_utf8_lossy(&body);
    let why = recheck_rejection(status, &body, model, length)
        .map_err(|fault| anyhow::anyhow!("{fault}"))?;
    Ok(why.map(|why| format!("{why} (status {status})")))
}

/// Returns the result of this version's official parser for a recorded log. Returns `None` if the
/// task has no official policy, or if its policy reads one log per test file.
fn reparse_official_log(task: &Task, log: &[u8]) -> Option<bool> {
    let from = find_subslice(log, OFFICIAL_HEADING)? + OFFICIAL_HEADING.len();
    let rest = log.get(from..)?;
    let rest = rest.get(find_subslice(rest, b"\n")? + 1..)?;
    let own = rest.get(..find_subslice(rest, WHOLE_SUITE_HEADING).unwrap_or(rest.len()))?;
    let folder = tempfile::tempdir().ok()?;
    let file = folder.path().join("log.txt");
    fs::write(&file, own).ok()?;
    let given = ExternalLog::read(&file, task).ok()?;
    match given {
        ExternalLog::Whole(_) => recorded_official_result(&grade_log(task, &given).ok()?),
        ExternalLog::Files { .. } => None,
    }
}

fn find_subslice(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grading_log(parser_log: &str) -> Vec<u8> {
        format!("tests\n===== official: swe-bench 4.0 =====\n{parser_log}").into_bytes()
    }

    #[test]
    fn reparse_official_log_requires_an_official_policy() {
        let task: Task = serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {},
            "fail_to_pass": ["t.py::test_a"], "test_command": []
        }))
        .unwrap();
        assert_eq!(reparse_official_log(&task, &grading_log("PASSED t.py::test_a\n")), None);
        assert_eq!(reparse_official_log(&task, b"no official run\n"), None);
        assert_eq!(find_subslice(b"abcabc", b"ca"), Some(2));
    }
}
