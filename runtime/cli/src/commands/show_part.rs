//! `proctor show --print`: prints one part of a trial, for programs.

use std::io::{self, ErrorKind, Write};

use proctor_record::{RecordError, RunDir, Tree, read_journal, trial_lookup::PlannedTrial};
use proctor_sandbox_api::wire::RawPath;
use proctor_types::{Envelope, Event, remove_discarded_events};
use serde_json::{Value, json};

use crate::{
    args::{ShowArgs, TrialPart},
    error::{CommandError, UserError},
};

/// Writes one part of a trial to standard output.
pub fn print_trial_part(
    run: &RunDir,
    planned_trial: PlannedTrial<'_>,
    args: &ShowArgs,
    part: TrialPart,
) -> Result<(), CommandError> {
    let dir = run.trial_dir(&planned_trial.id());
    let events = || -> Result<Vec<Envelope>, RecordError> {
        let journal = dir.trajectory_path();
        match journal.exists() {
            true => Ok(remove_discarded_events(read_journal(journal)?.events)),
            false => Ok(Vec::new()),
        }
    };
    let bytes = match part {
        TrialPart::Events => {
            let mut lines = Vec::new();
            for event in events()? {
                serde_json::to_writer(&mut lines, &event)?;
                lines.push(b'\n');
            }
            lines
        }
        TrialPart::Outcome => json_line(&json!(run.check_trial(&planned_trial.id()).outcome)),
        TrialPart::Verdict => json_line(&json!(run.check_trial(&planned_trial.id()).verdict)),
        TrialPart::Patch => {
            let patch = run.check_trial(&planned_trial.id()).patch.ok_or_else(|| {
                UserError::new(format!("{} has no patch", planned_trial.name()))
                    .hint("patches are collected when a trial ends")
            })?;
            run.load_patch(&dir, &patch.hash)?
        }
        TrialPart::Tree => {
            let tree = load_tree(run, planned_trial, &events()?, args.step)?;
            let entries: Vec<_> = tree.entries.values().collect();
            json_line(&json!(entries))
        }
        TrialPart::File => {
            let path = args.path.as_deref().ok_or_else(|| {
                UserError::new("--print file needs a path").hint("add --path PATH")
            })?;
            let tree = load_tree(run, planned_trial, &events()?, args.step)?;
            let missing = |what: &str| {
                UserError::new(format!("--path {path}: {what}"))
                    .hint("`--print tree` lists the files; escape non-ASCII bytes in the same way")
            };
            let raw = RawPath::parse(path).ok_or_else(|| missing("invalid escape"))?;
            let entry = tree.entries.get(&raw).ok_or_else(|| missing("no such file"))?;
            let hash = entry.hash.as_ref().filter(|_| entry.link.is_none());
            let hash = hash.ok_or_else(|| missing("the file's content is not recorded"))?;
            run.trial_blobs(&dir).get(hash)?
        }
    };
    // Write raw bytes, so that the output is identical to the patch or file. A closed pipe ends the
    // output without an error.
    let mut out = io::stdout().lock();
    match out.write_all(&bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn json_line(value: &Value) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

/// Returns the files of the work directory after a step, or at the end. Step 0 is the state before
/// the agent started.
fn load_tree(
    run: &RunDir,
    planned_trial: PlannedTrial<'_>,
    events: &[Envelope],
    step: Option<u64>,
) -> Result<Tree, CommandError> {
    let last = events.iter().map(|event| event.step).max().unwrap_or(0);
    let step = step.unwrap_or(last);
    let mut snapshots = events.iter().filter_map(|one| match &one.event {
        Event::SetupFinished { base_snapshot, .. } => Some((one.step, base_snapshot)),
        Event::SnapshotTaken { snapshot, .. } => Some((one.step, snapshot)),
        _ => None,
    });
    // A step without a snapshot changed nothing, so use the last snapshot before it.
    let taken = snapshots.rfind(|(of, _)| *of <= step && step <= last);
    let Some((_, hash)) = taken else {
        return Err(missing_tree(&planned_trial.name(), events, step).into());
    };
    let blobs = run.trial_blobs(&run.trial_dir(&planned_trial.id()));
    Ok(Tree::load(&blobs, hash)?)
}

fn missing_tree(name: &str, events: &[Envelope], step: u64) -> UserError {
    let last = events.iter().map(|event| event.step).max().unwrap_or(0);
    let is_set_up = events.iter().any(|one| matches!(one.event, Event::SetupFinished { .. }));
    if is_set_up {
        UserError::new(format!("{name} has no file tree after step {step}"))
            .hint(format!("the trial has steps 0 to {last}"))
    } else {
        UserError::new(format!("{name} has no file tree, because its sandbox was never set up"))
    }
}
