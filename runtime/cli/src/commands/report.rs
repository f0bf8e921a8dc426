//! `proctor report`: shows a plan's trials with their recorded results.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::Path,
    process::ExitCode,
};

use proctor_record::{CheckedTrial, Labels, RunDir};
use proctor_report::{
    CURVE_SCHEMA, Curve, GroupSelection, Report, TextOptions, add_arm_details, read_results,
    run_remarks,
};
use proctor_types::{Arm, TrialId};
use proctor_viewer::html::{self, NamedRun, ReportPage};

use crate::{
    args::{ReportArgs, ReportFormat},
    commands::{compare::disambiguate_arm_names, quality},
    copies::reject_run_copies,
    error::{CommandError, INCOMPLETE_STATUS, UserError},
    mask::SecretMask,
    print::{self, print_result},
};

/// Exit status: some files are corrupt, but no verdict depends on them.
const CORRUPT_RECORD_STATUS: u8 = 1;

/// Above this number of trials, the text report has no comparison, because computing it would take
/// longer than reading the run.
const MAX_COMPARED_TRIALS: usize = 2_000;

/// Reports the recorded results. An incomplete run is not an error: the report says so in its first
/// line. With `verify`, everything in the record is read, and corruption is an error.
pub fn report(args: &ReportArgs, secret_mask: &SecretMask) -> Result<ExitCode, CommandError> {
    let (runs, format, verify) = (&args.runs, args.format, args.verify);
    let groups = if args.groups { GroupSelection::All } else { GroupSelection::Informative };
    let quality = args.quality.as_deref().map(quality::read_quality_file).transpose()?;
    let curves: Vec<Curve> =
        args.curves.iter().map(|path| read_curve(path)).collect::<Result<_, _>>()?;
    let mut results = Vec::new();
    let mut pages = Vec::new();
    let mut remarks = BTreeSet::new();
    let mut plan_damaged = false;
    reject_run_copies(runs)?;
    for run in runs {
        // Read the remarks first, so that an unreadable plan is reported before any of its trials.
        let (more, damaged) = run_remarks(run, verify)?;
        results.extend(read_results(run, verify)?);
        remarks.extend(more);
        plan_damaged |= damaged;
        if compares_arms(format) || format == ReportFormat::Text {
            pages.push(build_run_page(run)?);
        }
    }
    // Rename arms that share a name. Machine-readable formats identify arms by id, so for them
    // `pages` is empty and the names stay unchanged.
    let arms: Vec<Arm> = distinct_arms(pages.iter().flat_map(|page| &page.record.arms));
    if arms.len() > 1 {
        disambiguate_arm_names(&mut results, &arms);
    }
    let is_compared = compares_arms(format)
        || format == ReportFormat::Text && results.len() <= MAX_COMPARED_TRIALS;
    let comparison =
        (is_compared && arms.len() > 1).then(|| proctor_report::compare(&results, Some(&arms)));
    // Keep the trials in memory only if they are needed again. For a large run, they account for
    // most of the memory.
    let again = quality.is_some() || compares_arms(format);
    let kept = if again { results.clone() } else { Vec::new() };
    let mut report = with_remarks(proctor_report::build_report(results), remarks);
    let results = kept;
    for run in runs {
        add_arm_details(&mut report, run)?;
        add_labels(&mut report, run)?;
    }
    if let Some(quality) = &quality {
        proctor_report::add_quality_marks(&mut report, &results, quality);
    }
    let report = if format == ReportFormat::Json { report.with_findings() } else { report };
    let comparison = comparison.as_ref();
    let out = args.out.as_deref();
    let shown = match format {
        ReportFormat::Text => {
            let (tasks, findings, groups) = (args.tasks, args.findings, args.groups);
            let shown =
                TextOptions { show_tasks: tasks, show_findings: findings, show_groups: groups };
            let text = proctor_report::report_text_with_comparison(&report, comparison, shown);
            match args.noise {
                true => text + "\n" + &proctor_report::noise_text(&report),
                false => text,
            }
        }
        ReportFormat::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
        ReportFormat::Csv if groups == GroupSelection::All => proctor_report::groups_csv(&report),
        ReportFormat::Csv => proctor_report::trials_csv(&report),
        ReportFormat::Markdown => proctor_report::report_markdown(&report, comparison, groups),
        ReportFormat::Html => {
            let (report, trials, runs) = (&report, &results[..], &pages[..]);
            let curves = &curves[..];
            let urls = None;
            html::render_report(&ReportPage { report, comparison, trials, runs, curves, urls })?
        }
    };
    let shown = secret_mask.mask_text(out.unwrap_or(Path::new("standard output")), &shown);
    match out {
        Some(file) => fs::write(file, shown).map_err(|error| {
            UserError::new(format!("cannot write {}: {error}", file.display()))
                .hint("choose a file in a writable folder")
        })?,
        None if matches!(format, ReportFormat::Text) => print::print_escaped(&shown)?,
        None => print_result(&shown)?,
    }
    secret_mask.print_summary();
    if !matches!(format, ReportFormat::Text | ReportFormat::Markdown | ReportFormat::Html) {
        print_corruption(&report);
    }
    let damaged = || report.tasks.iter().filter(|trial| !trial.damage.is_empty());
    Ok(match verify && (plan_damaged || damaged().next().is_some()) {
        true if damaged().any(|trial| trial.resolved.is_none()) => {
            ExitCode::from(INCOMPLETE_STATUS)
        }
        true => ExitCode::from(CORRUPT_RECORD_STATUS),
        false => ExitCode::SUCCESS,
    })
}

/// Reads a file written by `proctor curve --format json`.
fn read_curve(path: &Path) -> Result<Curve, UserError> {
    let shown = path.display();
    let hint = "create a curve with `proctor curve RUN --at steps=10,50 --format json > FILE`";
    let text = fs::read(path).map_err(|error| {
        UserError::new(format!("cannot read the curve {shown}: {error}")).hint(hint)
    })?;
    let curve: Curve = serde_json::from_slice(&text)
        .map_err(|error| UserError::new(format!("{shown} is not a curve: {error}")).hint(hint))?;
    if curve.schema_version != CURVE_SCHEMA {
        let what = format!("{shown}: unsupported curve schema {}", curve.schema_version);
        return Err(UserError::new(what).hint(hint));
    }
    Ok(curve)
}

/// Lists corrupt files on stderr, because of all report formats only text lists them.
fn print_corruption(report: &Report) {
    for damage in report.tasks.iter().flat_map(|trial| &trial.damage) {
        tell!("damaged: {damage}");
    }
}

fn with_remarks(report: Report, remarks: BTreeSet<String>) -> Report {
    Report { remarks: remarks.into_iter().collect(), ..report }
}

/// Builds the report of one run directory. Trials in `known_trials` are not read again. Prints an
/// error for each unreadable label.
pub fn build_report(
    path: &Path,
    known_trials: HashMap<TrialId, CheckedTrial>,
) -> Result<Report, CommandError> {
    let report = proctor_report::build_run_report(path, known_trials)?;
    warn_about_invalid_labels(&RunDir::open_read_only(path)?.read_labels());
    Ok(report)
}

/// Adds people's labels to trials. Invalid labels do not fail a report.
fn add_labels(report: &mut Report, run: &Path) -> Result<(), CommandError> {
    let labels = RunDir::open_read_only(run)?.read_labels();
    warn_about_invalid_labels(&labels);
    proctor_report::add_labels(report, &labels.entries);
    Ok(())
}

fn warn_about_invalid_labels(labels: &Labels) {
    for bad in &labels.errors {
        tell!("invalid label: {bad}");
    }
}

/// Saves the report as `report.json`.
pub fn write_report(run: &Path, report: &Report) -> Result<(), CommandError> {
    RunDir::open_read_only(run)?.write_report(report)?;
    Ok(())
}

/// Whether a format compares arms and needs unique arm names.
fn compares_arms(format: ReportFormat) -> bool {
    matches!(format, ReportFormat::Markdown | ReportFormat::Html)
}

/// Returns a run's page. It is named after the run's directory, without the full path, because the
/// page may be shared.
pub fn build_run_page(run: &Path) -> Result<NamedRun, CommandError> {
    let record =
        RunDir::open_read_only(run).map_err(CommandError::from_record_error)?.read_run()?;
    let path = run.canonicalize().unwrap_or_else(|_| run.to_owned());
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(NamedRun { name, record })
}

/// Returns each arm once, in order of first appearance.
pub fn distinct_arms<'a>(all_arms: impl Iterator<Item = &'a Arm>) -> Vec<Arm> {
    let mut arms: Vec<Arm> = Vec::new();
    for arm in all_arms {
        if !arms.iter().any(|known| known.id == arm.id) {
            arms.push(arm.clone());
        }
    }
    arms
}
