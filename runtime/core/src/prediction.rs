//! Somebody else's patch, taken in as a finished trial that only lacks its verdict.

use proctor_record::{Journal, RunDir};
use proctor_types::{Ending, Event, Fault, Outcome, Spent, TrialId};

use crate::recorder::record_fault;

/// The scaffold that an arm of predictions names: nobody drove it here.
pub const PREDICTIONS: &str = "predictions";

/// Records a prediction as the trial's outcome. A task without one is recorded as such, with the
/// empty patch: the denominator is the plan, so it counts as not resolved.
pub fn record_prediction(
    run: &RunDir,
    id: &TrialId,
    arm: &str,
    patch: Option<&[u8]>,
) -> Result<(), Fault> {
    let dir = run.trial(id).map_err(record_fault)?;
    let ending = match patch {
        Some(_) => Ending::Submitted,
        None => Ending::ScaffoldExited { why: "no prediction for this task".into() },
    };
    let patch = patch.unwrap_or_default();
    let hash = run.blobs().put(patch).map_err(record_fault)?;
    let outcome = Outcome {
        schema_version: 1,
        ending,
        try_number: 1,
        spent: Spent::default(),
        malformed_calls: 0,
        wall_seconds: 0.0,
        left_out: Vec::new(),
        not_enforced: Vec::new(),
    };
    let mut journal = Journal::create(dir.trajectory(), 1).map_err(record_fault)?;
    let started =
        Event::TrialStarted { task: id.task.clone(), arm: arm.to_owned(), attempt: id.attempt };
    journal.append(0, started).map_err(record_fault)?;
    let files = patch.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"diff --git "));
    let collected =
        Event::PatchCollected { bytes: patch.len() as u64, files: files.count() as u64, hash };
    journal.append(0, collected).map_err(record_fault)?;
    dir.write_patch(patch).map_err(record_fault)?;
    let ended = Event::TrialEnded { outcome: Box::new(outcome.clone()) };
    journal.append_durable(0, ended).map_err(record_fault)?;
    dir.write_outcome(&outcome).map_err(record_fault)
}
