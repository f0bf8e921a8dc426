//! Runs a plan: `jobs` trials at once, a task each.

use std::sync::Arc;

use proctor_types::{Fault, TrialId};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{Plan, RunContext, TrialEnd, run_trial};

/// One trial of the plan and what it came to; `Err` where not even a fault could be recorded.
pub struct Dispatched {
    pub trial: TrialId,
    /// `None`: not started. A limit that trials share is spent, or its model cannot be asked.
    pub end: Result<Option<TrialEnd>, Fault>,
}

/// Runs every trial that is not finished yet, in the order of the plan. Trials that ended in a fault in an
/// earlier call come last: what halted that call must not keep the others from their turn again.
///
/// Dropping the future aborts what runs: sandboxes close with their trials, journals keep what was
/// recorded, and `resume` takes it from there.
pub async fn dispatch(context: Arc<RunContext>, plan: &Plan, jobs: usize) -> Vec<Dispatched> {
    let permits = Arc::new(Semaphore::new(jobs.max(1)));
    let mut running = JoinSet::new();
    let trials = plan.chosen().into_iter().enumerate();
    let (faulted, others): (Vec<_>, Vec<_>) =
        trials.partition(|(_, (id, ..))| has_faulted(&context, id));
    for (index, (id, planned, arm)) in others.into_iter().chain(faulted) {
        // Before the task is made: tasks that ask for a place by themselves come in any order.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { break };
        if context.cancel.winds_down() {
            break;
        }
        let context = Arc::clone(&context);
        running.spawn(async move {
            let _permit = permit;
            let end = run_trial(&context, &id, &planned, &arm).await;
            (index, Dispatched { trial: id, end })
        });
    }
    let mut ends = Vec::new();
    while let Some(joined) = running.join_next().await {
        match joined {
            Ok(end) => ends.push(end),
            // A bug of ours in one trial must not take the others with it.
            Err(error) => tracing::error!(%error, "a trial's task ended by itself"),
        }
    }
    ends.sort_by_key(|(index, _)| *index);
    ends.into_iter().map(|(_, end)| end).collect()
}

/// Whether its latest outcome is a fault. One that cannot be read is the trial's own to tell.
fn has_faulted(context: &RunContext, id: &TrialId) -> bool {
    let outcome = context.run.trial_path(id).read_outcome();
    outcome.is_ok_and(|outcome| outcome.is_some_and(|outcome| outcome.ending.is_fault()))
}
