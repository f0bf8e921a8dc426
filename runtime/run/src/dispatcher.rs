//! Runs a plan with `jobs` concurrent trials, one async task per trial. Workers on other machines
//! may run the same plan.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use proctor_record::{CheckedTrial, FinishedTrials, Lease, LeaseResult};
use proctor_types::{Arm, Fault, TrialId};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};

use crate::{Deadline, Plan, PlannedTask, Progress, RunContext, TrialEnd, run_trial};

/// Initial and maximum interval between checks of the trials that other workers hold.
const MIN_WAIT: Duration = Duration::from_millis(500);
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Number of other workers' trials, chosen at random, that are checked at a time. Together, idle
/// workers check all of those trials.
const TRIALS_PER_CHECK: usize = 64;
/// Age after which the list of finished trials is read again.
const MAX_LIST_AGE: Duration = Duration::from_secs(30);

/// One trial of the plan and how it ended. `end` is `Err` if not even a fault could be recorded.
pub struct DispatchedTrial {
    pub trial: TrialId,
    pub end: Result<DispatchEnd, Fault>,
}

/// How a trial ended. Does not contain the outcome and verdict, because those of ten thousand
/// trials would waste memory. The caller can read them from disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchEnd {
    Recorded,
    /// A shared limit is used up, or the trial's model cannot be called.
    NotStarted,
    /// The trial was not started, because it might not finish before this worker has to stop.
    OutOfTime,
    /// Another worker considered this worker dead and took over the trial.
    TakenOver,
}

/// The recorded state of a trial before it is dispatched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedState {
    /// The trial has run and was graded, and its record is intact.
    Finished,
    /// The latest outcome is a fault. (A trial with an unreadable outcome is `Open` and reports the
    /// error when it runs.)
    Faulted,
    Open,
}

impl RecordedState {
    pub fn from_checked(checked_trial: &CheckedTrial) -> Self {
        let faulted =
            checked_trial.outcome.as_ref().is_some_and(|outcome| outcome.ending.is_fault());
        let whole = checked_trial.is_finished
            && checked_trial.verdict.is_some()
            && checked_trial.corruptions.is_empty();
        match (faulted, whole) {
            (true, _) => Self::Faulted,
            (false, true) => Self::Finished,
            (false, false) => Self::Open,
        }
    }
}

/// Runs every unfinished trial in plan order. If there are other workers, starts at a random task.
/// Trials that faulted in an earlier invocation come after the others, because they may fault
/// again. Trials that other workers hold come last, because most of them have ended by then. If
/// such a trial's worker has died, this worker takes the trial over.
///
/// `recorded_states` has one entry per selected trial. The caller passes these states because it
/// has already read the record: reading it again would take about a second for ten thousand trials.
///
/// Dropping the future aborts running trials. Their sandboxes close, their journals keep all
/// recorded events, and `resume` continues after the last one.
pub async fn dispatch(
    context: Arc<RunContext>,
    plan: &Plan,
    recorded_states: &[RecordedState],
    jobs: usize,
) -> Vec<DispatchedTrial> {
    let mut ends = Vec::new();
    let trials = plan.selected_trials();
    let (mut faulted, mut others) = (Vec::new(), Vec::new());
    // A finished trial needs neither a lease nor an async task.
    for (index, (before, trial)) in recorded_states.iter().zip(trials).enumerate() {
        match before {
            RecordedState::Finished => {
                ends.push((
                    index,
                    DispatchedTrial { trial: trial.0, end: Ok(DispatchEnd::Recorded) },
                ));
            }
            RecordedState::Faulted => faulted.push((index, trial)),
            RecordedState::Open => others.push((index, trial)),
        }
    }
    if context.run.has_other_workers() {
        // If all workers started with the same trial, each would check every trial that the others
        // hold before it found a free one.
        let task = |at: usize| others.get(at).map(|(_, (id, ..))| &id.task);
        let at = random_start(others.len(), |at| task(at) == task(at - 1));
        others.rotate_left(at);
    }
    others.append(&mut faulted);
    let permits = Arc::new(Semaphore::new(jobs.max(1)));
    let (running, until) = (JoinSet::new(), plan.deadline);
    let ended = (FinishedTrials::default(), None);
    let mut work = Dispatcher {
        context,
        permits,
        running_trials: running,
        ends,
        deadline: until,
        finished_trials: ended,
    };
    let mut elsewhere = work.start_free_trials(others, true).await;
    let mut wait = MIN_WAIT;
    while !elsewhere.is_empty() && !work.context.cancel.is_winding_down() {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = work.context.cancel.wait_for_wind_down() => break,
        }
        wait = (wait * 2).min(MAX_WAIT);
        elsewhere = work.recheck_held_trials(elsewhere).await;
    }
    let Dispatcher { running_trials: mut running, mut ends, .. } = work;
    while let Some(joined) = running.join_next().await {
        match joined {
            Ok(end) => ends.push(end),
            // A bug in one trial must not stop the others.
            Err(error) => tracing::error!(%error, "a trial's background task ended unexpectedly"),
        }
    }
    ends.sort_by_key(|(index, _)| *index);
    ends.into_iter().map(|(_, end)| end).collect()
}

/// Returns a random start index among `count` trials. All trials of a task stay together.
/// `has_same_task` returns whether a trial has the same task as the trial before it.
fn random_start(count: usize, has_same_task: impl Fn(usize) -> bool) -> usize {
    if count == 0 {
        return 0;
    }
    let at = fastrand::usize(..count);
    (at..count).find(|at| *at > 0 && !has_same_task(*at)).unwrap_or_default()
}

type IndexedTrial = (usize, (TrialId, PlannedTask, Arc<Arm>));

struct Dispatcher {
    context: Arc<RunContext>,
    permits: Arc<Semaphore>,
    running_trials: JoinSet<(usize, DispatchedTrial)>,
    ends: Vec<(usize, DispatchedTrial)>,
    deadline: Option<Deadline>,
    /// The trials that workers have finished, and the time at which this list was read.
    finished_trials: (FinishedTrials, Option<Instant>),
}

impl Dispatcher {
    /// Checks some of the trials that other workers held. Returns those that are still held or
    /// were not checked.
    async fn recheck_held_trials(&mut self, trials: Vec<IndexedTrial>) -> Vec<IndexedTrial> {
        self.finished_trials.1 = None;
        let mut open = Vec::new();
        for (index, trial) in trials {
            match self.is_listed_as_finished(&trial.0) {
                true => self.record_finished_elsewhere(index, &trial),
                false => open.push((index, trial)),
            }
        }
        fastrand::shuffle(&mut open);
        let unchecked = open.split_off(open.len().min(TRIALS_PER_CHECK));
        let mut elsewhere = self.start_free_trials(open, false).await;
        elsewhere.extend(unchecked);
        elsewhere
    }

    /// Whether a worker has finished the trial, according to a list that is reread periodically.
    fn is_listed_as_finished(&mut self, id: &TrialId) -> bool {
        if self.finished_trials.1.is_none_or(|listed| listed.elapsed() > MAX_LIST_AGE) {
            // Treat an unreadable list as empty. Each trial's own claim then shows whether the
            // trial has finished.
            let ended = self.context.run.finished_trials().unwrap_or_default();
            self.finished_trials = (ended, Some(Instant::now()));
        }
        self.finished_trials.0.contains(id)
    }

    fn record_finished_elsewhere(
        &mut self,
        index: usize,
        (id, _, arm): &(TrialId, PlannedTask, Arc<Arm>),
    ) {
        let (trial, arm) = (id.clone(), arm.name.clone());
        self.context.send_progress(Progress::EndedElsewhere { trial, arm });
        self.ends
            .push((index, DispatchedTrial { trial: id.clone(), end: Ok(DispatchEnd::Recorded) }));
    }

    /// Starts each trial that no worker holds. Returns those that other workers hold.
    async fn start_free_trials(
        &mut self,
        trials: Vec<IndexedTrial>,
        is_first_pass: bool,
    ) -> Vec<IndexedTrial> {
        let mut elsewhere = Vec::new();
        for (index, trial) in trials {
            if self.is_listed_as_finished(&trial.0) {
                self.record_finished_elsewhere(index, &trial);
                continue;
            }
            // Take the permit before spawning the task, because spawned tasks would take permits in
            // arbitrary order.
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { break };
            if self.context.run.is_worker_presumed_dead() {
                // Other workers may have taken over all of this worker's trials.
                self.context.cancel.wind_down();
            }
            if self.context.cancel.is_winding_down() {
                break;
            }
            let (id, planned, arm) = &trial;
            if self.deadline.is_some_and(|until| until.is_too_close_for(&planned.task, arm)) {
                let end = DispatchedTrial { trial: id.clone(), end: Ok(DispatchEnd::OutOfTime) };
                self.ends.push((index, end));
                continue;
            }
            let lease = match self.context.run.lease(id) {
                Ok(LeaseResult::Leased(lease)) => Some(lease),
                Ok(LeaseResult::Finished) => {
                    self.record_finished_elsewhere(index, &trial);
                    continue;
                }
                Ok(LeaseResult::LeasedByOther) => {
                    if is_first_pass {
                        let (trial, arm) = (id.clone(), arm.name.clone());
                        self.context.send_progress(Progress::RunsElsewhere { trial, arm });
                    }
                    elsewhere.push((index, trial));
                    continue;
                }
                // In an unshared run, start the trial anyway: it will encounter the same error and
                // report it. A worker of a shared run must not start a trial without a claim.
                Err(_) if !self.context.run.is_shared() => None,
                Err(error) => {
                    let end = DispatchedTrial { trial: id.clone(), end: Err(error.fault()) };
                    self.ends.push((index, end));
                    continue;
                }
            };
            self.spawn_trial(index, trial, lease, permit);
        }
        elsewhere
    }

    fn spawn_trial(
        &mut self,
        index: usize,
        (id, planned, arm): (TrialId, PlannedTask, Arc<Arm>),
        lease: Option<Lease>,
        permit: OwnedSemaphorePermit,
    ) {
        let context = Arc::clone(&self.context);
        self.running_trials.spawn(async move {
            let _permit = permit;
            let run = run_trial(&context, &id, &planned, &arm);
            let Some(mut lease) = lease else {
                return (
                    index,
                    DispatchedTrial { trial: id.clone(), end: to_dispatch_end(run.await) },
                );
            };
            let end = tokio::select! {
                end = run => Some(end),
                () = lease.wait_until_lost() => None,
            };
            let end = match end {
                Some(end) => {
                    if matches!(end, Ok(Some(_))) {
                        lease.mark_finished();
                    }
                    to_dispatch_end(end)
                }
                None => {
                    let (trial, arm) = (id.clone(), arm.name.clone());
                    context.send_progress(Progress::TakenOver { trial, arm });
                    Ok(DispatchEnd::TakenOver)
                }
            };
            drop(lease);
            (index, DispatchedTrial { trial: id.clone(), end })
        });
    }
}

fn to_dispatch_end(end: Result<Option<TrialEnd>, Fault>) -> Result<DispatchEnd, Fault> {
    end.map(|end| end.map_or(DispatchEnd::NotStarted, |_| DispatchEnd::Recorded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_start_is_the_first_trial_of_a_task() {
        assert_eq!(random_start(0, |_| true), 0);
        // Three arms: trials 0, 3, 6 and 9 are the first of their task.
        let starts: std::collections::BTreeSet<usize> =
            (0..400).map(|_| random_start(12, |at| at % 3 != 0)).collect();
        assert_eq!(starts, [0, 3, 6, 9].into());
    }
}
