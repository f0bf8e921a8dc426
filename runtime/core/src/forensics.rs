//! Lays what a trial's record shows over the verdict of its patch.
//!
//! Outside of the cache of verdicts, which knows a task and a patch and no trajectory: two trials
//! with one patch share a grading and not their conduct.

use std::sync::Arc;

use proctor_grade::forensics::{Examiner, examine};
use proctor_record::{TrialDir, read_journal};
use proctor_types::{Fault, Layer, Task, Verdict};

use crate::{RunContext, recorder::record_fault};

/// Adds the evidence of the record to a verdict and lowers its integrity to the worst of both.
/// `resolved` stays as it was graded.
///
/// # Errors
/// A journal that cannot be read. A damaged one counts as far as it goes, and one that was never
/// written (predictions have none) shows nothing.
pub(crate) async fn add_forensics(
    context: &RunContext,
    task: &Arc<Task>,
    dir: &TrialDir,
    patch: &[u8],
    verdict: &mut Verdict,
) -> Result<(), Fault> {
    let (task, blobs, path) = (Arc::clone(task), Arc::clone(&context.blobs), dir.trajectory());
    let patch = patch.to_vec();
    // Hundreds of manifests may have to be read: no work for the threads that serve other trials.
    let look = tokio::task::spawn_blocking(move || {
        let events = match path.exists() {
            true => read_journal(&path).map_err(record_fault)?.events,
            false => Vec::new(),
        };
        examine(&Examiner { task: &task, events: &events, blobs: Some(&blobs), patch: &patch })
    });
    let found = look.await.map_err(|error| {
        Fault::new(Layer::Grade, format!("the look over the record ended early: {error}"))
    })??;
    found.merge_into(verdict);
    Ok(())
}
