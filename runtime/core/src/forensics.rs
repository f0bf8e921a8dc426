//! Adds what a trial's record shows to the verdict of its patch.
//!
//! Outside of the cache of verdicts, which knows a task and a patch and no trajectory: two trials
//! with one patch share a grading and not their conduct.

use std::sync::Arc;

use proctor_forensics::{Examiner, examine};
use proctor_record::{Remedy, TrialDir, read_journal};
use proctor_types::{Fault, Layer, Task, Verdict};

use crate::{RunContext, recorder::record_fault};

/// Adds the evidence of the record to a verdict and lowers its integrity to the worst of both.
/// `resolved` stays as it was graded.
///
/// # Errors
/// A journal or a snapshot that cannot be read whole: what is lost may be what would have told.
pub(crate) async fn add_forensics(
    context: &RunContext,
    task: &Arc<Task>,
    dir: &TrialDir,
    patch: &[u8],
    verdict: &mut Verdict,
) -> Result<(), Fault> {
    let (task, blobs, path) = (Arc::clone(task), context.run.blobs_of(dir), dir.trajectory());
    let patch = patch.to_vec();
    // Hundreds of manifests may have to be read: no work for the threads that serve other trials.
    let look = tokio::task::spawn_blocking(move || {
        let reading = read_journal(&path).map_err(record_fault)?;
        if let Some(lost) = reading.lost() {
            let fault = Fault::new(Layer::Record, lost.to_string());
            return Err(fault.hint(Remedy::Copy.hint()).lasting());
        }
        let events = reading.events;
        let names = proctor_grade::test_names()?;
        let (events, blobs) = (&events, Some(&blobs));
        examine(&Examiner { task: &task, names, events, blobs, patch: &patch })
    });
    let found = look.await.map_err(|error| {
        Fault::new(Layer::Grade, format!("the look over the record ended early: {error}"))
    })??;
    found.merge_into(verdict);
    Ok(())
}
