//! `proctor report`: the plan's trials, with what is recorded of each.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use proctor_record::RunDir;
use proctor_report::{Report, TaskFacts, TrialResult};
use proctor_types::{RunRecord, TrialId};

use crate::{args::Format, error::CommandError};

pub fn report(runs: &[PathBuf], format: Format) -> Result<ExitCode, CommandError> {
    let mut results = Vec::new();
    let mut bound = false;
    for run in runs {
        results.extend(results_of(run)?);
        bound |= host_bound(run)?;
    }
    let report = proctor_report::build(results);
    print(&report, format, bound)?;
    Ok(ExitCode::SUCCESS)
}

/// The report of one run directory, read from disk.
pub fn of_run(run: &Path) -> Result<Report, CommandError> {
    Ok(proctor_report::build(results_of(run)?))
}

/// Keeps it as `report.json`.
pub fn write(run: &Path, report: &Report) -> Result<(), CommandError> {
    RunDir::view(run)?.write_report(report)?;
    Ok(())
}

/// Whether some verdicts of a run hold only for the host that made them.
pub fn host_bound(run: &Path) -> Result<bool, CommandError> {
    Ok(RunDir::view(run)?.read_run()?.tasks.iter().any(|task| task.host_bound))
}

#[expect(clippy::print_stdout, reason = "the report is this command's result")]
pub fn print(report: &Report, format: Format, bound: bool) -> Result<(), CommandError> {
    match format {
        Format::Text => {
            print!("{}", proctor_report::text(report));
            if bound {
                println!("Verdicts on a host base hold for this host.");
            }
        }
        Format::Json => println!("{}", serde_json::to_string_pretty(report)?),
    }
    Ok(())
}

fn results_of(path: &Path) -> Result<Vec<TrialResult>, CommandError> {
    let run = RunDir::view(path).map_err(CommandError::of_run)?;
    let record: RunRecord = run.read_run()?;
    let mut results = Vec::new();
    for attempt in 1..=record.attempts {
        for task in &record.tasks {
            for arm in &record.arms {
                let id = TrialId { task: task.task.id.clone(), arm: arm.id.clone(), attempt };
                let trial = run.trial_path(&id);
                results.push(TrialResult {
                    arm: arm.id.clone(),
                    arm_name: arm.name.clone(),
                    task: task.task.id.clone(),
                    attempt,
                    outcome: trial.read_outcome()?,
                    verdict: trial.read_verdict()?,
                    patch_bytes: fs::metadata(trial.patch()).ok().map(|patch| patch.len()),
                    facts: TaskFacts::of(&task.task),
                });
            }
        }
    }
    Ok(results)
}
