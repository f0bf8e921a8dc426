//! `proctor label`: stores a person's notes on a trial next to its record.

use std::{fmt::Write as _, process::ExitCode};

use proctor_record::{
    RunDir, now,
    trial_lookup::{find_by_name, planned_trials},
};
use proctor_types::{LABEL_VERSION, Label, RunRecord, escape_unprintable_line};
use proctor_viewer::JournalIndex;

use crate::{
    args::LabelArgs,
    error::{CommandError, UserError},
    print::print_escaped,
};

/// Maximum number of characters in a label. Labels are short names. Comments may be longer.
const MAX_LABEL_LENGTH: usize = 60;
const MAX_COMMENT_LENGTH: usize = 4_000;

pub fn label(args: &LabelArgs) -> Result<ExitCode, CommandError> {
    let run = RunDir::open_read_only(&args.run).map_err(CommandError::from_record_error)?;
    let record = run.read_run()?;
    let (Some(trial), Some(label)) = (&args.trial, &args.label) else {
        print_escaped(&list_labels(&run, &record))?;
        return Ok(ExitCode::SUCCESS);
    };
    let found = find_by_name(&record, trial)?;
    check_length("--label", label, MAX_LABEL_LENGTH)?;
    if let Some(comment) = &args.comment {
        check_length("--comment", comment, MAX_COMMENT_LENGTH)?;
    }
    if let Some(step) = args.step {
        let journal = run.trial_dir(&found.id()).trajectory_path();
        let steps = if journal.exists() {
            JournalIndex::from_journal(&journal)?.rows.len() as u64
        } else {
            0
        };
        if !(1..=steps).contains(&step) {
            let what = format!("--step {step}: {} has {steps} steps", found.name());
            return Err(UserError::new(what).hint("steps are numbered from 1").into());
        }
    }
    let label = Label {
        v: LABEL_VERSION,
        at: now(),
        trial: found.id(),
        step: args.step,
        label: label.clone(),
        comment: args.comment.clone(),
        removed: args.remove,
    };
    if args.remove && !run.read_labels().entries.iter().any(|one| label.replaces(one)) {
        let what = format!("{} has no label `{}` on that trial or step", found.name(), label.label);
        return Err(UserError::new(what).hint("`proctor label RUN` lists the labels").into());
    }
    run.add_label(&label)?;
    Ok(ExitCode::SUCCESS)
}

fn check_length(option: &str, text: &str, max_length: usize) -> Result<(), UserError> {
    let length = text.chars().count();
    let why = match () {
        () if text.trim().is_empty() => "is empty".to_owned(),
        () if length > max_length => {
            format!("has {length} characters; the maximum is {max_length}")
        }
        () if max_length == MAX_LABEL_LENGTH && text.contains('\n') => {
            "has more than one line".to_owned()
        }
        () => return Ok(()),
    };
    Err(UserError::new(format!("{option} {why}"))
        .hint("use a short name, and --comment for longer text"))
}

/// Returns a list of all labels, in plan order.
fn list_labels(run: &RunDir, record: &RunRecord) -> String {
    let labels = run.read_labels();
    let mut out = String::new();
    for found in planned_trials(record) {
        let id = found.id();
        for label in labels.entries.iter().filter(|label| label.trial == id) {
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "{}: {}",
                escape_unprintable_line(&found.name()),
                escape_unprintable_line(&label.describe())
            );
        }
    }
    for bad in &labels.errors {
        tell!("invalid label: {bad}");
    }
    if out.is_empty() {
        out.push_str("no labels; --trial TASK/ARM/ATTEMPT --label NAME adds one\n");
    }
    out
}
