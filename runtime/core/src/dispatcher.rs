//! Runs a plan: `jobs` trials at once, a task each.

use std::{sync::Arc, time::Duration};

use proctor_record::{Checked, Lease};
use proctor_types::{Fault, TrialId};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};

use crate::{Plan, Progress, RunContext, run_trial};

/// Between two looks at a trial that another runtime has.
const LOOK: Duration = Duration::from_millis(500);

/// One trial of the plan and what it came to; `Err` where not even a fault could be recorded.
pub struct Dispatched {
    pub trial: TrialId,
    pub end: Result<End, Fault>,
}

/// What is known without reading the record. The outcome and the verdict stay there: those of ten thousand trials
/// would be held for whoever asks for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Recorded,
    /// A limit that trials share is spent, or its model cannot be asked.
    NotStarted,
}

/// What the record says of a trial before its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Driven, graded and whole.
    Finished,
    /// Its latest outcome is a fault. One that cannot be read is the trial's own to tell.
    Faulted,
    Open,
}

impl Before {
    pub fn of(checked: &Checked) -> Self {
        let faulted = checked.outcome.as_ref().is_some_and(|outcome| outcome.ending.is_fault());
        let whole = checked.finished && checked.verdict.is_some() && checked.damage.is_empty();
        match (faulted, whole) {
            (true, _) => Self::Faulted,
            (false, true) => Self::Finished,
            (false, false) => Self::Open,
        }
    }
}

/// Runs every trial that is not finished yet, in the order of the plan. Trials that ended in a fault in an
/// earlier call come last: what halted that call must not keep the others from their turn again.
///
/// `before` is of each trial that the plan has chosen: who carries a plan out has read the record already, and of
/// ten thousand trials that takes a second.
///
/// Dropping the future aborts what runs: sandboxes close with their trials, journals keep what was
/// recorded, and `resume` takes it from there.
pub async fn dispatch(
    context: Arc<RunContext>,
    plan: &Plan,
    before: &[Before],
    jobs: usize,
) -> Vec<Dispatched> {
    let permits = Arc::new(Semaphore::new(jobs.max(1)));
    let mut running = JoinSet::new();
    let mut ends = Vec::new();
    let trials = plan.chosen();
    let (mut faulted, mut others) = (Vec::new(), Vec::new());
    // What is finished needs no lease and no task of its own.
    for (index, (before, trial)) in before.iter().zip(trials).enumerate() {
        match before {
            Before::Finished => {
                ends.push((index, Dispatched { trial: trial.0, end: Ok(End::Recorded) }));
            }
            Before::Faulted => faulted.push((index, trial)),
            Before::Open => others.push((index, trial)),
        }
    }
    for (index, (id, planned, arm)) in others.into_iter().chain(faulted) {
        // Before the task is made: tasks that ask for a place by themselves come in any order.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { break };
        if context.cancel.winds_down() {
            break;
        }
        // What keeps the file of a lease from being made, the trial meets too, and tells.
        let lease = context.run.lease(&id);
        let waits = matches!(lease, Ok(None));
        let (context, permits) = (Arc::clone(&context), Arc::clone(&permits));
        // One that another runtime has takes no place of those that this one can work on.
        let permit = Some(permit).filter(|_| !waits);
        running.spawn(async move {
            if waits {
                let (trial, arm) = (id.clone(), arm.name.clone());
                context.tell(Progress::Elsewhere { trial, arm });
            }
            let held = match permit {
                Some(permit) => Some((lease.ok().flatten(), permit)),
                None => taken_over(&context, &id, permits).await,
            };
            let end = match &held {
                Some(_) => run_trial(&context, &id, &planned, &arm).await,
                None => Ok(None),
            };
            let end = end.map(|end| end.map_or(End::NotStarted, |_| End::Recorded));
            (index, Dispatched { trial: id, end })
        });
    }
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

/// Waits for a trial that another runtime has. Mostly that one has finished it by then, and what it came to is read; where
/// it died, the trial is taken over. `None`: nothing more is to begin.
async fn taken_over(
    context: &RunContext,
    id: &TrialId,
    permits: Arc<Semaphore>,
) -> Option<(Option<Lease>, OwnedSemaphorePermit)> {
    while !context.cancel.winds_down() {
        if let Ok(Some(lease)) = context.run.lease(id) {
            let permit = permits.acquire_owned().await.ok()?;
            return Some((Some(lease), permit));
        }
        tokio::time::sleep(LOOK).await;
    }
    None
}
