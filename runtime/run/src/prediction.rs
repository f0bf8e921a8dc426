//! Records a patch from another tool as a finished trial without a verdict.

use proctor_patch::Patch;
use proctor_record::{Journal, RunDir};
use proctor_types::{Ending, Event, ExitCause, Fault, NO_PREDICTION, Outcome, TrialId};

use crate::error::record_fault;

/// The prediction for one task.
#[derive(Debug, Clone, Copy)]
pub enum TaskPrediction<'a> {
    Patch(&'a [u8]),
    /// The file has no prediction for this task.
    Missing,
    /// According to the predictions file, the attempt failed for this reason.
    Failed(&'a str),
}

/// Records a prediction as the trial's outcome. A missing or empty prediction is recorded as an
/// empty patch and counts as not resolved, because every planned trial counts.
pub fn record_prediction(
    run: &RunDir,
    id: &TrialId,
    prediction: TaskPrediction<'_>,
) -> Result<(), Fault> {
    let dir = run.create_trial_dir(id).map_err(record_fault)?;
    let exited = |why: &str| Ending::ScaffoldExited {
        cause: match prediction {
            TaskPrediction::Failed(_) => ExitCause::Crashed,
            _ => ExitCause::Finished,
        },
        why: why.into(),
    };
    let (ending, patch) = match prediction {
        TaskPrediction::Patch(patch) if patch.trim_ascii().is_empty() => {
            (exited("the prediction is empty"), &[][..])
        }
        TaskPrediction::Patch(patch) => (Ending::Submitted, patch),
        TaskPrediction::Missing => (exited(NO_PREDICTION), &[][..]),
        TaskPrediction::Failed(why) => (exited(why), &[][..]),
    };
    let blobs = run.trial_blobs(&dir);
    let hash = blobs.put(patch).map_err(record_fault)?;
    let outcome = Outcome::from_ending(1, ending);
    let mut journal = Journal::create(dir.trajectory_path(), 1).map_err(record_fault)?;
    let started = Event::trial_started(id);
    journal.append(0, started).map_err(record_fault)?;
    let files = Patch::parse(patch).paths().len() as u64;
    let collected = Event::PatchCollected { bytes: patch.len() as u64, files, hash };
    journal.append(0, collected).map_err(record_fault)?;
    dir.write_patch(patch).map_err(record_fault)?;
    let ended = Event::TrialEnded { outcome: Box::new(outcome.clone()), packed: blobs.pack_size() };
    journal.append_durable(0, ended).map_err(record_fault)?;
    dir.write_outcome(&outcome).map_err(record_fault)
}
