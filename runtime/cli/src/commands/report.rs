//! `proctor report`: the plan's trials, with what is recorded of each.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use proctor_core::earlier_tries;
use proctor_record::RunDir;
use proctor_report::{Groups, Report, TaskFacts, TrialResult};
use proctor_types::{FlakePolicy, RunRecord, RunTask, TrialId, plural};

use crate::{
    args::Format,
    config::SCRIPT,
    error::{CommandError, UserError},
    print::result,
};

/// Reports what there is: an incomplete run is no error of whoever asks how far it is, and its report
/// says so in the first line.
pub fn report(runs: &[PathBuf], format: Format, groups: Groups) -> Result<ExitCode, CommandError> {
    let mut results = Vec::new();
    let mut remarks = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for run in runs {
        if !seen.insert(run.canonicalize().unwrap_or_else(|_| run.clone())) {
            let what = format!("{} is named twice", run.display());
            return Err(UserError::new(what).hint("its trials would count twice").into());
        }
        results.extend(results_of(run)?);
        remarks.extend(remarks_of(run)?);
    }
    print(&with(proctor_report::build(results), remarks), format, groups)?;
    Ok(ExitCode::SUCCESS)
}

/// The report of one run directory, read from disk.
pub fn of_run(run: &Path) -> Result<Report, CommandError> {
    Ok(with(proctor_report::build(results_of(run)?), remarks_of(run)?))
}

fn with(report: Report, remarks: BTreeSet<String>) -> Report {
    Report { remarks: remarks.into_iter().collect(), ..report }
}

/// Keeps it as `report.json`.
pub fn write(run: &Path, report: &Report) -> Result<(), CommandError> {
    RunDir::view(run)?.write_report(report)?;
    Ok(())
}

/// What a reader of a run's numbers must know besides them.
fn remarks_of(run: &Path) -> Result<BTreeSet<String>, CommandError> {
    let record = RunDir::view(run)?.read_run()?;
    let mut remarks = BTreeSet::new();
    if record.tasks.iter().any(|task| task.host_bound) {
        remarks.insert(
            "These tasks used this machine's Python: results may differ on another machine."
                .to_owned(),
        );
    }
    for arm in &record.arms {
        if let Some(model) = &arm.model
            && model.base_url.starts_with(SCRIPT)
        {
            let name = &arm.name;
            remarks.insert(format!("{name}: its model is a script; its numbers say nothing."));
        }
    }
    if let Some(certificate) = &record.certificate {
        let (backend, repeat) = (&certificate.backend, certificate.repeat);
        let unreliable = |task: &RunTask| certificate.unreliable(&task.task.id, &task.digest);
        let (certified, uncertified): (Vec<_>, Vec<_>) =
            record.tasks.iter().map(unreliable).partition(Option::is_some);
        let tests: usize = certified.iter().flatten().map(BTreeSet::len).sum();
        let done = match record.flaky {
            FlakePolicy::Quarantine => "quarantined",
            FlakePolicy::Vote => "put to the vote",
            FlakePolicy::Count => "counted",
        };
        remarks.insert(format!(
            "Graded by a flake certificate of {} on {backend}: {}, {done}; not certified: {} of {}.",
            plural(repeat, "run"),
            plural(tests, "unreliable test"),
            uncertified.len(),
            plural(record.tasks.len(), "task")
        ));
    }
    Ok(remarks)
}

pub fn print(report: &Report, format: Format, groups: Groups) -> Result<(), CommandError> {
    match format {
        Format::Text => result(&proctor_report::text(report, groups))?,
        Format::Json => result(&format!("{}\n", serde_json::to_string_pretty(report)?))?,
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
                    earlier: earlier_tries(&trial)?,
                    verdict: trial.read_verdict()?,
                    patch_bytes: fs::metadata(trial.patch()).ok().map(|patch| patch.len()),
                    facts: TaskFacts::of(&task.task),
                });
            }
        }
    }
    Ok(results)
}
