//! Reads the results of a run directory's trials, builds their report, and collects remarks about
//! the numbers.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    sync::{Mutex, PoisonError},
};

use proctor_record::{
    CheckedTrial, RecordError, RunDir, parallel_map, read_earlier_tries,
    trial_lookup::{PlannedTrial, planned_trials},
};
use proctor_types::{
    EarlierTries, FlakePolicy, PREDICTIONS_SCAFFOLD, RULES_VERSION, RunRecord, RunTask, TrialId,
    count_with_noun, join_first_few,
};

use crate::{
    Report, SingleShot, TaskFacts, TrialResult, add_labels, build_report, format::capitalize,
};

/// The file that the scaffold `single-shot` writes.
const SINGLE_SHOT_FILE: &str = "scaffold/single-shot.json";
/// The remark about tasks that run in this machine's Python. It is also a soundness check.
pub(crate) const HOST_BOUND_REMARK: &str =
    "These tasks used this machine's Python: results may differ on another machine.";

/// Builds the report of one run directory. Trials whose results are in `checked_trials` are not
/// read again. If `checked_trials` is empty, all trials are read.
///
/// # Errors
/// Fails if the run directory cannot be read.
pub fn build_run_report(
    path: &Path,
    checked_trials: HashMap<TrialId, CheckedTrial>,
) -> Result<Report, RecordError> {
    let run = RunDir::open_read_only(path)?;
    let record: RunRecord = run.read_run()?;
    let known = Mutex::new(checked_trials);
    let results = parallel_map(&planned_trials(&record), |found| {
        let id = found.id();
        let known = known.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let checked = known.unwrap_or_else(|| run.check_trial(&id));
        build_trial_result(&run, found, checked)
    });
    let (remarks, _) = run_remarks(path, false)?;
    let mut report = Report { remarks: remarks.into_iter().collect(), ..build_report(results) };
    add_arm_details(&mut report, path)?;
    add_labels(&mut report, &RunDir::open_read_only(path)?.read_labels().entries);
    Ok(report)
}

/// Adds each arm's factors, and the origin of forked arms, to the report.
///
/// # Errors
/// Fails if the plan cannot be read.
pub fn add_arm_details(report: &mut Report, run: &Path) -> Result<(), RecordError> {
    for arm in RunDir::open_read_only(run)?.read_run()?.arms {
        if let Some(shown) = report.arms.iter_mut().find(|shown| shown.arm == arm.id) {
            shown.add_plan_details(&arm);
        }
    }
    Ok(())
}

/// Returns the remarks that readers of a run's numbers need, and whether the plan is corrupt. If
/// `verify` is set, also checks the plan's copy.
///
/// # Errors
/// Fails if the plan cannot be read.
pub fn run_remarks(run: &Path, verify: bool) -> Result<(BTreeSet<String>, bool), RecordError> {
    let run = RunDir::open_read_only(run)?;
    let (record, damage) = if verify { run.verify_run()? } else { run.check_run()? };
    let of_report = run.verify_report();
    let damaged = damage.is_some() || of_report.is_some();
    let mut remarks = BTreeSet::new();
    if let Some(damage) = of_report {
        remarks.insert(format!("{damage}; `proctor resume` rewrites it."));
    }
    if let Some(damage) = damage {
        remarks.insert(format!("{damage}; `proctor resume` restores it."));
    }
    if record.tasks.iter().any(|task| task.host_bound) {
        remarks.insert(HOST_BOUND_REMARK.to_owned());
    }
    for change in &record.changes {
        remarks.insert(format!(
            "The run was changed after it was planned. {}.",
            capitalize(&change.change)
        ));
    }
    if record.rules != RULES_VERSION {
        remarks.insert(format!(
            "The run used attribution and grading rules {}, but this version has rules {RULES_VERSION}: \
             `proctor report --recheck` lists the trials that differ.",
            record.rules
        ));
    }
    let ids: Vec<TrialId> = planned_trials(&record).iter().map(PlannedTrial::id).collect();
    let unplanned = run.unplanned_dirs(&ids);
    if !unplanned.is_empty() {
        let names = unplanned.iter().map(|one| one.folder.display().to_string()).collect();
        remarks.insert(format!(
            "Ignored folders that belong to no planned trial: {}.",
            join_first_few(names)
        ));
    }
    if let Some(chosen) = &record.selection {
        remarks.insert(format!(
            "The run has {} of {}.",
            record.tasks.len(),
            count_with_noun(chosen.of, "task")
        ));
    }
    for arm in &record.arms {
        if arm.prompts["untested"] == true {
            let (name, scaffold) = (&arm.name, &arm.scaffold);
            remarks.insert(format!(
                "{name}: this version of {scaffold} is not covered by Proctor's tests."
            ));
        }
        if let Some(origin) = &arm.forked_from {
            let message = match (origin.conversation, &origin.files_alone_because) {
                (true, _) => {
                    "files and conversation; its figures include the original trial's steps, tokens and cost"
                }
                (false, Some(why)) => &format!("files only: {why}"),
                (false, None) => "files only",
            };
            let (name, place, run) = (&arm.name, origin.describe(), &origin.run);
            remarks.insert(format!("{name} was forked from {place} of {run} ({message})."));
        }
    }
    if let Some(attacks) = record.certificate.as_ref().and_then(|it| it.attacks.as_ref()) {
        let digests = record.tasks.iter().map(|task| (&task.task.id, task.digest.as_str()));
        remarks.insert(attacks.summary_sentence(digests));
    }
    if let Some(certificate) = record.certificate.as_ref().filter(|it| !it.tasks.is_empty()) {
        let (backend, repeat) = (&certificate.backend, certificate.repeat);
        let unreliable = |task: &RunTask| certificate.unreliable_tests(&task.task.id, &task.digest);
        let (certified, uncertified): (Vec<_>, Vec<_>) =
            record.tasks.iter().map(unreliable).partition(Option::is_some);
        let tests: usize = certified.iter().flatten().map(BTreeSet::len).sum();
        let done = match record.flaky {
            FlakePolicy::Quarantine => "quarantined",
            FlakePolicy::Vote => "decided by vote",
            FlakePolicy::Count => "counted",
        };
        remarks.insert(format!(
            "Graded with a flake certificate from {} on {backend}: {}, {done}; not certified: {} of {}.",
            count_with_noun(repeat, "run"),
            count_with_noun(tests, "unreliable test"),
            uncertified.len(),
            count_with_noun(record.tasks.len(), "task")
        ));
    }
    Ok((remarks, damaged))
}

/// Returns the result of every trial in the plan, in order. If `verify` is set, reads the trials
/// one after the other, so that a blob that several trials share is checked only once. Otherwise,
/// trials are read in parallel, with one thread per core.
///
/// # Errors
/// Fails if the plan cannot be read.
pub fn read_results(path: &Path, verify: bool) -> Result<Vec<TrialResult>, RecordError> {
    let run = RunDir::open_read_only(path)?;
    let record: RunRecord = run.read_run()?;
    let planned = planned_trials(&record);
    if verify {
        let mut verifier = run.verifier();
        let results = planned
            .iter()
            .map(|found| build_trial_result(&run, found, verifier.verify_trial(&found.id())));
        return Ok(results.collect());
    }
    Ok(parallel_map(&planned, |found| read_trial_result(&run, found)))
}

/// Returns the result of one trial in a run's plan.
pub fn read_trial_result(run: &RunDir, planned_trial: &PlannedTrial<'_>) -> TrialResult {
    build_trial_result(run, planned_trial, run.check_trial(&planned_trial.id()))
}

/// Returns the result of one trial. If one of its files cannot be read, the error is recorded in
/// this result, and other trials are unaffected.
fn build_trial_result(
    run: &RunDir,
    planned_trial: &PlannedTrial<'_>,
    checked: CheckedTrial,
) -> TrialResult {
    let (id, task, arm) = (planned_trial.id(), planned_trial.task, planned_trial.arm);
    let damage_messages =
        checked.corruptions.iter().map(|one| format!("{one}; {}", one.remedy.hint()));
    let mut damage: Vec<_> = damage_messages.collect();
    let dir = run.trial_dir(&id);
    let earlier = read_earlier_tries(&dir, checked.outcome.is_some());
    let earlier = earlier.unwrap_or_else(|error| {
        damage.push(error.fault().to_string());
        EarlierTries::default()
    });
    let cutoff = arm.model.as_ref().and_then(|model| model.cutoff.as_deref());
    let unasked =
        arm.scaffold == PREDICTIONS_SCAFFOLD && damage.is_empty() && !dir.grading_dir().exists();
    TrialResult {
        arm: arm.id.clone(),
        arm_name: arm.name.clone(),
        is_control: arm.is_control(),
        task: task.task.id.clone(),
        attempt: planned_trial.attempt,
        outcome: checked.outcome,
        earlier_tries: earlier,
        verdict: checked.verdict,
        grading_not_requested: unasked,
        grading_failure: checked.grading_failure,
        patch_bytes: checked.patch.map(|patch| patch.bytes),
        damage,
        single_shot: if arm.scaffold == "single-shot" { read_single_shot(run, &id) } else { None },
        facts: TaskFacts {
            revision: Some(task.digest.clone()),
            ..TaskFacts::from_task(&task.task).with_cutoff(&task.task, cutoff)
        },
    }
}

/// Reads the facts that a single-response trial stores next to its trajectory. Ignores an
/// unreadable file, because no verdict depends on it.
fn read_single_shot(run: &RunDir, id: &TrialId) -> Option<SingleShot> {
    let bytes =
        proctor_files::read_regular_file(&run.trial_dir(id).path().join(SINGLE_SHOT_FILE)).ok()?;
    serde_json::from_slice(&bytes).ok()
}
