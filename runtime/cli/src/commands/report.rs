//! `proctor report`: the plan's trials with their recorded results.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Mutex, PoisonError},
};

use proctor_core::{PREDICTIONS, earlier_tries, on_all_cores};
use proctor_html::{ReportPage, RunPage};
use proctor_record::{Checked, RunDir};
use proctor_report::{Comparison, Groups, Report, SingleShot, TaskFacts, TrialResult};
use proctor_types::{Arm, EarlierTries, FlakePolicy, RULES, RunRecord, RunTask, TrialId, plural};

use crate::{
    args::ReportFormat,
    checks::first_of,
    commands::{carry_out::INCOMPLETE, compare::tell_apart, quality},
    config::SCRIPT,
    error::{CommandError, UserError},
    mask::Mask,
    print::{self, result},
    trials::{Found, planned, refuse_copies},
};

/// Exit status: files that no verdict depends on are damaged.
const DAMAGED: u8 = 1;
/// The file of the scaffold with that name.
const SINGLE_SHOT: &str = "scaffold/single-shot.json";

/// Reports what exists. An incomplete run is not an error; its report says so in the first line.
/// With `verify`, everything that was recorded is read, and damage is an error.
pub fn report(
    runs: &[PathBuf],
    format: ReportFormat,
    out: Option<&Path>,
    (groups, noise): (Groups, bool),
    verify: bool,
    quality: Option<&Path>,
    mask: &Mask,
) -> Result<ExitCode, CommandError> {
    let quality = quality.map(quality::read).transpose()?;
    let mut results = Vec::new();
    let mut pages = Vec::new();
    let mut remarks = BTreeSet::new();
    let mut plan_damaged = false;
    refuse_copies(runs)?;
    for run in runs {
        // First: report an unreadable plan before any of its trials.
        let (more, damaged) = remarks_of(run, verify)?;
        results.extend(results_of(run, verify)?);
        remarks.extend(more);
        plan_damaged |= damaged;
        if is_read_at_length(format) || format == ReportFormat::Text {
            pages.push(page_of(run)?);
        }
    }
    // In machine-readable formats the id distinguishes arms with the same name.
    let arms: Vec<Arm> = distinct(pages.iter().flat_map(|page| &page.record.arms));
    if arms.len() > 1 {
        tell_apart(&mut results, &arms);
    }
    // Keep the trials only if they are read again: they use most of the memory of a large run.
    let again = quality.is_some() || is_read_at_length(format);
    let kept = if again { results.clone() } else { Vec::new() };
    let mut report = with(proctor_report::build(results), remarks);
    let results = kept;
    for run in runs {
        describe_arms(&mut report, run)?;
        add_labels(&mut report, run)?;
    }
    if let Some(quality) = &quality {
        proctor_report::add_quality(&mut report, &results, quality);
    }
    let report = report;
    let compared = is_read_at_length(format) && arms.len() > 1;
    let comparison = compared.then(|| proctor_report::compare(&results, None));
    let shown = match format {
        ReportFormat::Text if noise => {
            proctor_report::text(&report, groups) + "\n" + &proctor_report::noise_text(&report)
        }
        ReportFormat::Text => proctor_report::text(&report, groups),
        ReportFormat::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
        ReportFormat::Csv if groups == Groups::All => proctor_report::groups_csv(&report),
        ReportFormat::Csv => proctor_report::csv(&report),
        ReportFormat::Markdown => proctor_report::markdown(&report, comparison.as_ref(), groups),
        ReportFormat::Html => page(&report, comparison.as_ref(), &results, &pages)?,
    };
    let shown = mask.text(out.unwrap_or(Path::new("standard output")), &shown);
    match out {
        Some(file) => fs::write(file, shown).map_err(|error| {
            UserError::new(format!("cannot write {}: {error}", file.display()))
                .hint("choose a file in a writable folder")
        })?,
        None if matches!(format, ReportFormat::Text) => print::shown(&shown)?,
        None => result(&shown)?,
    }
    mask.tell();
    if !matches!(format, ReportFormat::Text | ReportFormat::Markdown | ReportFormat::Html) {
        tell_damage(&report);
    }
    let damaged = || report.tasks.iter().filter(|trial| !trial.damage.is_empty());
    Ok(match verify && (plan_damaged || damaged().next().is_some()) {
        true if damaged().any(|trial| trial.resolved.is_none()) => ExitCode::from(INCOMPLETE),
        true => ExitCode::from(DAMAGED),
        false => ExitCode::SUCCESS,
    })
}

/// Reports damage on stderr, because only the text format lists it below its tables.
fn tell_damage(report: &Report) {
    for damage in report.tasks.iter().flat_map(|trial| &trial.damage) {
        tell!("damaged: {damage}");
    }
}

/// The report of one run directory, read from disk except for trials that are known.
pub fn of_run(path: &Path, known: HashMap<TrialId, Checked>) -> Result<Report, CommandError> {
    let run = RunDir::view(path).map_err(CommandError::of_run)?;
    let record: RunRecord = run.read_run()?;
    let known = Mutex::new(known);
    let results = on_all_cores(&planned(&record), |found| {
        let id = found.id();
        let known = known.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let checked = known.unwrap_or_else(|| run.check(&id));
        result_of(&run, found, checked)
    });
    let mut report = with(proctor_report::build(results), remarks_of(path, false)?.0);
    describe_arms(&mut report, path)?;
    add_labels(&mut report, path)?;
    Ok(report)
}

/// Adds people's labels to trials. Invalid labels do not fail a report.
fn add_labels(report: &mut Report, run: &Path) -> Result<(), CommandError> {
    let labels = RunDir::view(run)?.labels();
    for bad in &labels.bad {
        tell!("not a label: {bad}");
    }
    proctor_report::add_labels(report, &labels.standing);
    Ok(())
}

/// Adds the factors of each arm, and the origin of forked arms.
fn describe_arms(report: &mut Report, run: &Path) -> Result<(), CommandError> {
    for arm in RunDir::view(run)?.read_run()?.arms {
        if let Some(shown) = report.arms.iter_mut().find(|shown| shown.arm == arm.id) {
            shown.describe(&arm);
        }
    }
    Ok(())
}

fn with(report: Report, remarks: BTreeSet<String>) -> Report {
    Report { remarks: remarks.into_iter().collect(), ..report }
}

/// Saves it as `report.json`.
pub fn write(run: &Path, report: &Report) -> Result<(), CommandError> {
    RunDir::view(run)?.write_report(report)?;
    Ok(())
}

/// Remarks that a reader of a run's numbers must know, and whether its plan is damaged. With
/// `verify` its copy is read, too.
fn remarks_of(run: &Path, verify: bool) -> Result<(BTreeSet<String>, bool), CommandError> {
    let run = RunDir::view(run)?;
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
        remarks.insert(
            "These tasks used this machine's Python: results may differ on another machine."
                .to_owned(),
        );
    }
    for change in &record.changes {
        remarks.insert(format!(
            "The run was changed after it was planned. {}.",
            capital(&change.change)
        ));
    }
    if record.rules != RULES {
        remarks.insert(format!(
            "The run used attribution and grading rules {}, but this version has rules {RULES}: \
             `proctor report --recheck` lists the trials that differ.",
            record.rules
        ));
    }
    let ids: Vec<TrialId> = planned(&record).iter().map(Found::id).collect();
    let unplanned = run.unplanned(&ids);
    if !unplanned.is_empty() {
        let names = unplanned.iter().map(|one| one.folder.display().to_string()).collect();
        remarks.insert(format!(
            "Ignored folders that belong to no planned trial: {}.",
            first_of(names)
        ));
    }
    if let Some(chosen) = &record.selection {
        remarks.insert(format!(
            "The run has {} of {}.",
            record.tasks.len(),
            plural(chosen.of, "task")
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
            let what = match (origin.conversation, &origin.files_alone_because) {
                (true, _) => {
                    "files and conversation; its figures include the original trial's steps, tokens and cost"
                }
                (false, Some(why)) => &format!("files only: {why}"),
                (false, None) => "files only",
            };
            let (name, place, run) = (&arm.name, origin.place(), &origin.run);
            remarks.insert(format!("{name} was forked from {place} of {run} ({what})."));
        }
        if let Some(model) = &arm.model
            && model.base_url.starts_with(SCRIPT)
        {
            let name = &arm.name;
            remarks
                .insert(format!("{name}: its model is a script, so its results are meaningless."));
        }
    }
    if let Some(attacks) = record.certificate.as_ref().and_then(|it| it.attacks.as_ref()) {
        let digests = record.tasks.iter().map(|task| (&task.task.id, task.digest.as_str()));
        remarks.insert(attacks.cite(digests));
    }
    if let Some(certificate) = record.certificate.as_ref().filter(|it| !it.tasks.is_empty()) {
        let (backend, repeat) = (&certificate.backend, certificate.repeat);
        let unreliable = |task: &RunTask| certificate.unreliable(&task.task.id, &task.digest);
        let (certified, uncertified): (Vec<_>, Vec<_>) =
            record.tasks.iter().map(unreliable).partition(Option::is_some);
        let tests: usize = certified.iter().flatten().map(BTreeSet::len).sum();
        let done = match record.flaky {
            FlakePolicy::Quarantine => "quarantined",
            FlakePolicy::Vote => "decided by vote",
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
    Ok((remarks, damaged))
}

/// Capitalizes the first letter.
fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

/// Whether a format compares arms and needs unique arm names.
fn is_read_at_length(format: ReportFormat) -> bool {
    matches!(format, ReportFormat::Markdown | ReportFormat::Html)
}

fn page(
    report: &Report,
    comparison: Option<&Comparison>,
    trials: &[TrialResult],
    runs: &[RunPage],
) -> Result<String, CommandError> {
    Ok(proctor_html::report(&ReportPage { report, comparison, trials, runs })?)
}

/// A run by the name of its directory. Its full path stays private when the page is shared.
pub fn page_of(run: &Path) -> Result<RunPage, CommandError> {
    let record = RunDir::view(run).map_err(CommandError::of_run)?.read_run()?;
    let path = run.canonicalize().unwrap_or_else(|_| run.to_owned());
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(RunPage { name, record })
}

/// Each arm once, in order of first appearance.
pub fn distinct<'a>(all: impl Iterator<Item = &'a Arm>) -> Vec<Arm> {
    let mut arms: Vec<Arm> = Vec::new();
    for arm in all {
        if !arms.iter().any(|known| known.id == arm.id) {
            arms.push(arm.clone());
        }
    }
    arms
}

/// Every trial of the plan, in order. With `verify` they are read sequentially, because each must
/// know which blobs were read before. Otherwise there is one thread per core, since all of them are
/// read.
pub fn results_of(path: &Path, verify: bool) -> Result<Vec<TrialResult>, CommandError> {
    let run = RunDir::view(path).map_err(CommandError::of_run)?;
    let record: RunRecord = run.read_run()?;
    let planned = planned(&record);
    if verify {
        let mut verifier = run.verifier();
        let read = planned.iter().map(|found| result_of(&run, found, verifier.check(&found.id())));
        return Ok(read.collect());
    }
    Ok(on_all_cores(&planned, |found| result_of_trial(&run, found)))
}

/// One trial of a run's plan.
pub fn result_of_trial(run: &RunDir, found: &Found<'_>) -> TrialResult {
    result_of(run, found, run.check(&found.id()))
}

/// One trial. Whatever cannot be read is reported for this trial and affects no other.
fn result_of(run: &RunDir, found: &Found<'_>, checked: Checked) -> TrialResult {
    let (id, task, arm) = (found.id(), found.task, found.arm);
    let told = checked.damage.iter().map(|one| format!("{one}; {}", one.remedy.hint()));
    let mut damage: Vec<_> = told.collect();
    let dir = run.trial_path(&id);
    let earlier = earlier_tries(&dir, checked.outcome.is_some());
    let earlier = earlier.unwrap_or_else(|fault| {
        damage.push(fault.to_string());
        EarlierTries::default()
    });
    let cutoff = arm.model.as_ref().and_then(|model| model.cutoff.as_deref());
    let unasked = arm.scaffold == PREDICTIONS && damage.is_empty() && !dir.grade().exists();
    TrialResult {
        arm: arm.id.clone(),
        arm_name: arm.name.clone(),
        control: arm.is_control(),
        task: task.task.id.clone(),
        attempt: found.attempt,
        outcome: checked.outcome,
        earlier,
        verdict: checked.verdict,
        unasked,
        patch_bytes: checked.patch.map(|patch| patch.bytes),
        damage,
        single: if arm.scaffold == "single-shot" { single_of(run, &id) } else { None },
        facts: TaskFacts {
            revision: Some(task.digest.clone()),
            ..TaskFacts::of(&task.task).with_cutoff(&task.task, cutoff)
        },
    }
}

/// What a single-response trial stores next to its trajectory. An unreadable file is ignored: no
/// verdict depends on it.
fn single_of(run: &RunDir, id: &TrialId) -> Option<SingleShot> {
    let bytes = proctor_files::read(&run.trial_path(id).path().join(SINGLE_SHOT)).ok()?;
    serde_json::from_slice(&bytes).ok()
}
