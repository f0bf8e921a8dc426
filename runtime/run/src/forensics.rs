//! Adds the findings in a trial's record to the verdict of its patch.
//!
//! The findings are not stored in the verdict cache, because its key includes the task and the
//! patch but not the trajectory. Two trials with the same patch share a cached verdict, but their
//! agents may have behaved differently.

use std::sync::Arc;

use proctor_forensics::{EndedTrial, ExaminationInput, count_exceptions, examine, failure_reason};
use proctor_grade::GradingResult;
use proctor_record::{Remedy, TrialDir, read_journal};
use proctor_types::{Fault, FaultLayer, Task, remove_discarded_events};

use crate::{RunContext, error::record_fault};

/// Examines the trial's record and adds the evidence found there to the verdict. The evidence may
/// lower the verdict's integrity. Also sets the reason why the task is not resolved, and the
/// exception counts. Does not change `resolved`.
///
/// # Errors
/// Fails if a journal or snapshot is incomplete, because the lost part may contain evidence.
pub(crate) async fn add_forensics(
    context: &RunContext,
    task: &Arc<Task>,
    dir: &TrialDir,
    patch: &[u8],
    grading_result: &mut GradingResult,
) -> Result<(), Fault> {
    let (task, blobs, path) =
        (Arc::clone(task), context.run.trial_blobs(dir), dir.trajectory_path());
    let outcome = dir.read_outcome().map_err(record_fault)?;
    let (patch, log, verdict) =
        (patch.to_vec(), grading_result.log.clone(), grading_result.verdict.clone());
    // The search may read hundreds of manifests, so it must not run on the threads that serve other
    // trials.
    let look = tokio::task::spawn_blocking(move || {
        let reading = read_journal(&path).map_err(record_fault)?;
        if let Some(lost) = reading.first_lost_line() {
            let fault = Fault::new(FaultLayer::Record, lost.to_string());
            return Err(fault.hint(Remedy::RestoreFromCopy.hint()).into_permanent());
        }
        let events = remove_discarded_events(reading.events);
        let names = proctor_grade::test_names()?;
        let look = ExaminationInput {
            task: &task,
            names,
            events: &events,
            blobs: Some(&blobs),
            patch: &patch,
        };
        let found = examine(&look)?;
        let why = |outcome| {
            let (events, patch, log) = (&events, &patch, &log);
            failure_reason(&EndedTrial { outcome, verdict: &verdict, events, patch, log })
        };
        let classes = count_exceptions(&verdict, &log)?;
        Ok((found, outcome.as_ref().map(why).transpose()?.flatten(), classes))
    });
    let (found, why, classes) = look.await.map_err(|error| {
        Fault::new(FaultLayer::Grade, format!("cannot examine the record: {error}"))
    })??;
    found.merge_into(&mut grading_result.verdict);
    grading_result.verdict.reason = why;
    grading_result.verdict.exceptions = classes;
    Ok(())
}
