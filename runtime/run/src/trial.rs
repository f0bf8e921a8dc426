//! Runs one trial of the plan up to its verdict, with as many tries as the policy allows.

use std::sync::Arc;

use proctor_grade::{GradingResult, limit_evidence};
use proctor_record::{
    CheckedTrial, GradingFiles, Journal, Remedy, TrialDir, read_journal, read_journal_spending,
};
use proctor_types::{Arm, Ending, Event, Fault, FaultCause, FaultLayer, Outcome, TrialId, Verdict};
use serde_json::{Map, Value};

use crate::{
    CancelSignal, PlannedTask, Progress, RunContext, drive::TryRun, error::record_fault,
    fault_handling::TrialEnvironment, fault_policy::ScopeKind, forensics::add_forensics,
    fork::prepare_restart, grading::grade_trial, halts::TrialLocation, interrupted::can_resume,
    own_sandbox::ProgramSandbox, resume_point::ResumePoint, try_history::TryHistory,
};

/// Key of the journal note about a worker that died.
const LOST_WORKER_KEY: &str = "lost_worker";

/// The reason why an external agent's trial starts over instead of resuming.
const NO_CONVERSATION_REASON: &str = "its scaffold cannot continue a conversation";

/// How a trial ended.
#[derive(Debug, Clone)]
pub struct TrialEnd {
    pub outcome: Outcome,
    /// `None` if grading ended in an infrastructure fault. The trial then has no verdict, rather
    /// than a score of zero.
    pub verdict: Option<Verdict>,
}

/// A trial, and the context in which its tries run and its patch is graded.
#[derive(Clone, Copy)]
struct TrialRun<'a> {
    context: &'a Arc<RunContext>,
    id: &'a TrialId,
    planned_task: &'a PlannedTask,
    arm: &'a Arm,
    dir: &'a TrialDir,
    location: &'a TrialLocation,
}

/// Runs the parts of a trial that the record does not contain yet. A recorded outcome is kept, and
/// a recorded verdict is final. Returns `None` if the trial was not started, because a shared limit
/// is used up, a fault halted its scope, or the endpoint rejected the arm's key or model in an
/// earlier trial of this invocation.
pub async fn run_trial(
    context: &Arc<RunContext>,
    id: &TrialId,
    planned_task: &PlannedTask,
    arm: &Arm,
) -> Result<Option<TrialEnd>, Fault> {
    let affected = TrialLocation::new(arm, id);
    let end = run_missing_parts(context, id, planned_task, arm, &affected).await;
    // Count the fault toward a halt: if not even the trial's fault could be recorded, the cause is
    // usually the run directory, which affects all trials.
    end.inspect_err(|fault| context.count_fault(&affected, fault))
}

async fn run_missing_parts(
    context: &Arc<RunContext>,
    id: &TrialId,
    planned_task: &PlannedTask,
    arm: &Arm,
    location: &TrialLocation,
) -> Result<Option<TrialEnd>, Fault> {
    // Don't create the directory here: the first try creates it, so a trial that is not started
    // leaves no directory.
    let dir = context.run.trial_dir(id);
    let checked = check_and_restore(context, id, &dir)?;
    if checked.is_finished && checked.is_unrecoverable() {
        let outcome = checked.outcome.unwrap_or_else(|| {
            fault_outcome(1, Fault::new(FaultLayer::Record, "the trial's record is corrupt"))
        });
        return Ok(Some(TrialEnd { outcome, verdict: None }));
    }
    let finished = checked.outcome.filter(|outcome| !outcome.ending.is_unfinished());
    if let (Some(outcome), Some(verdict)) = (&finished, checked.verdict) {
        return Ok(Some(TrialEnd { outcome: outcome.clone(), verdict: Some(verdict) }));
    }
    let backend = context.backend(arm.sandbox.kind)?;
    let built = context.environments.is_built(backend.as_ref(), &planned_task.task).await;
    // A halted trial is neither run nor graded.
    if context.halts.hold_back_if_halted(location, built) {
        return Ok(None);
    }
    if let (None, Some((scope, budget))) =
        (&finished, context.shared_meters.exhausted_limit(&arm.id))
    {
        // Create no sandbox and no record. The trial runs after a `resume` with a higher limit.
        let (trial, arm) = (id.clone(), arm.name.clone());
        context.send_progress(Progress::NotStarted { trial, arm, scope, budget });
        return Ok(None);
    }
    // The endpoint rejected this model in an earlier trial. Leave this trial to `resume`.
    if finished.is_none() && is_model_halted(context, arm)? {
        return Ok(None);
    }
    let run = TrialRun { context, id, planned_task, arm, dir: &dir, location };
    let (trial, name) = (id.clone(), arm.name.clone());
    let outcome = if let Some(outcome) = finished {
        context.send_progress(Progress::GradingRecorded { trial, arm: name });
        outcome
    } else {
        context.send_progress(Progress::Started { trial: trial.clone(), arm: name.clone() });
        let outcome = drive_with_retries(run).await?;
        context.send_progress(Progress::Ended {
            trial,
            arm: name,
            outcome: Box::new(outcome.clone()),
        });
        outcome
    };
    if outcome.ending.is_unfinished() {
        return Ok(Some(TrialEnd { outcome, verdict: None }));
    }
    let verdict = grade_with_retries(run).await?;
    Ok(Some(TrialEnd { outcome, verdict }))
}

/// Restores files that can be recreated from the rest of a trial's record, reports corruption, and
/// reads the record. For example, if Proctor was killed between the last event and `outcome.json`,
/// the outcome is restored from the journal.
fn check_and_restore(
    context: &RunContext,
    id: &TrialId,
    dir: &TrialDir,
) -> Result<CheckedTrial, Fault> {
    let mut checked = context.run.check_trial(id);
    let blobs = context.run.trial_blobs(dir);
    for what in dir.restore(&blobs, &mut checked).map_err(record_fault)? {
        context.send_progress(Progress::FileDamaged {
            trial: id.clone(),
            difference: what.to_string(),
            reaction: "restored",
        });
    }
    for damage in &checked.corruptions {
        let then = match damage.remedy {
            // Don't rely on any data after the corrupt part. Keep the try as evidence.
            _ if !checked.is_finished => "starting a new try",
            _ => damage.remedy.hint(),
        };
        context.send_progress(Progress::FileDamaged {
            trial: id.clone(),
            difference: damage.to_string(),
            reaction: then,
        });
    }
    Ok(checked)
}

async fn drive_with_retries(trial: TrialRun<'_>) -> Result<Outcome, Fault> {
    let TrialRun { context, id, planned_task: planned, arm, dir, location: affected } = trial;
    let backend = Arc::clone(context.backend(arm.sandbox.kind)?);
    let mut done = 0;
    note_lost_worker(context, id, arm, dir)?;
    let (mut interrupted, mut started_again) = find_resume_point(context, id, arm, dir)?;
    loop {
        let mut past = interrupted.take();
        let number = match &past {
            Some(past) => past.try_number,
            None => begin_try(dir)?,
        };
        if past.is_none() && arm.forked_from.is_some() {
            past = Some(restart_fork(context, dir, number)?);
        }
        done += 1;
        let start = TryStart {
            try_number: number,
            resume_point: past.as_ref(),
            restart_reason: started_again.as_deref(),
        };
        let tried = run_try(trial, start).await;
        let fault = match tried {
            Ok(outcome) => {
                context.halts.clear_faults(affected, ScopeKind::Run);
                return Ok(outcome);
            }
            Err(fault) => fault,
        };
        if let Some(outcome) = recorded_outcome(context, id, dir, number)? {
            return Ok(outcome);
        }
        if context.cancel.is_stopping()
            || (context.cancel.is_winding_down() && fault.cause == FaultCause::Cancelled)
        {
            return Err(fault);
        }
        if fault.layer == FaultLayer::Environment && fault.cause == FaultCause::Gone {
            context.environments.forget(backend.as_ref(), &planned.task).await;
        }
        let fault = context.wait_for_back_end(backend.as_ref(), affected, fault).await;
        if context.cancel.is_stopping() {
            return Err(fault);
        }
        // If the recorded steps cannot be restored, the trial restarts. Such a restart does not
        // count as a retry.
        let unrestored = past.is_some()
            && arm.forked_from.is_none()
            && (fault.layer, fault.cause) == (FaultLayer::Record, FaultCause::Invalid);
        let again = unrestored || context.fault_policy.should_retry(&fault, done);
        if !again {
            context.count_fault(affected, &fault);
        }
        let halted =
            context.halts.halting_fault(affected, true).is_some() || is_model_halted(context, arm)?;
        let will_retry = again && !halted;
        let failed = Event::TryFailed { fault: fault.clone(), will_retry };
        let noted = append_event(id, dir, number, failed);
        context.send_progress(Progress::TryFailed {
            trial: id.clone(),
            arm: arm.name.clone(),
            fault: fault.clone(),
            will_retry,
        });
        if !will_retry {
            return record_fault_outcome(id, dir, number, fault);
        }
        // If the record cannot be written, end the trial. The earlier fault was already reported.
        noted?;
        context.wait_before_retry(context.fault_policy.retry_delay(done)).await;
        if context.cancel.is_winding_down() {
            return Err(fault);
        }
        if unrestored {
            started_again = Some(fault.what.clone());
        }
        if context.fault_policy.is_resumable(&fault) {
            let (again, why) = find_resume_point(context, id, arm, dir)?;
            // Don't record this reason: trials of this scaffold always restart, and the record
            // already contains the fault.
            let why = why.filter(|why| why != NO_CONVERSATION_REASON);
            (interrupted, started_again) = (again, why.or(started_again));
        }
    }
}

/// Records and reports which worker lost this trial and how its job ended.
fn note_lost_worker(
    context: &RunContext,
    id: &TrialId,
    arm: &Arm,
    dir: &TrialDir,
) -> Result<(), Fault> {
    let Some(worker) = context.run.previous_worker(id) else { return Ok(()) };
    context.send_progress(Progress::WorkerLost {
        trial: id.clone(),
        arm: arm.name.clone(),
        worker: worker.clone(),
    });
    if !dir.trajectory_path().exists() {
        return Ok(());
    }
    let note = Map::from_iter([(LOST_WORKER_KEY.to_owned(), Value::from(worker))]);
    append_event(id, dir, 1, Event::Noted { note })
}

/// Returns the outcome in the journal of a try that faulted after its last event was recorded. This
/// outcome counts, no matter what failed afterwards.
fn recorded_outcome(
    context: &RunContext,
    id: &TrialId,
    dir: &TrialDir,
    try_number: u32,
) -> Result<Option<Outcome>, Fault> {
    if !dir.trajectory_path().exists() {
        return Ok(None);
    }
    let reading = read_journal(dir.trajectory_path()).map_err(record_fault)?;
    match reading.events.last().map(|last| &last.event) {
        Some(Event::TrialEnded { outcome, .. }) if outcome.try_number == try_number => {
            check_and_restore(context, id, dir).map(|checked| checked.outcome)
        }
        _ => Ok(None),
    }
}

/// Returns the interrupted or faulted try if the policies and the try's record permit resuming it.
/// Otherwise, returns why the trial starts over, provided that the agent had received a response.
/// Reports progress in both cases.
fn find_resume_point(
    context: &RunContext,
    id: &TrialId,
    arm: &Arm,
    dir: &TrialDir,
) -> Result<(Option<ResumePoint>, Option<String>), Fault> {
    let journal = dir.trajectory_path();
    let resumable = can_resume(context.scaffold(arm)?.as_ref())?;
    // If the journal is unreadable, assume that the try has no steps.
    let had_begun = || read_journal_spending(&journal).is_ok_and(|spent| spent.steps > 0);
    if !journal.exists() {
        return Ok((None, None));
    }
    // Every scaffold can start from the files of a fork.
    if !(resumable || arm.forked_from.is_some()) {
        return Ok((None, had_begun().then(|| NO_CONVERSATION_REASON.to_owned())));
    }
    let blobs = context.run.trial_blobs(dir);
    let read =
        ResumePoint::read(&journal, &blobs, &|fault| context.fault_policy.is_resumable(fault))
            .unwrap_or_else(|error| Err(error.to_string()));
    let (trial, name) = (id.clone(), arm.name.clone());
    match read {
        Ok(past) if resumable || past.steps.is_empty() => {
            let step = past.complete_steps;
            context.send_progress(Progress::Resumed { trial, arm: name, step });
            Ok((Some(past), None))
        }
        Ok(_) => Ok((None, had_begun().then(|| NO_CONVERSATION_REASON.to_owned()))),
        Err(why) => {
            let started_again = had_begun().then(|| why.clone());
            context.send_progress(Progress::NotResumed { trial, arm: name, reason: why });
            Ok((None, started_again))
        }
    }
}

/// Prepares another try of a fork, which starts at the fork point.
fn restart_fork(
    context: &RunContext,
    dir: &TrialDir,
    try_number: u32,
) -> Result<ResumePoint, Fault> {
    prepare_restart(dir, try_number)?;
    let read = ResumePoint::read(&dir.trajectory_path(), &context.run.trial_blobs(dir), &|_| false);
    let read = read.map_err(record_fault)?;
    read.map_err(|why| Fault::new(FaultLayer::Record, why).cause(FaultCause::Invalid))
}

/// Sets aside the files of an earlier try as evidence, even if that try ran in an invocation that
/// was killed. Returns the new try's number.
fn begin_try(dir: &TrialDir) -> Result<u32, Fault> {
    let number = dir.next_try_number().map_err(record_fault)?;
    dir.begin_try(number).map_err(record_fault)?;
    Ok(number)
}

/// Whether the endpoint has rejected the arm's model.
fn is_model_halted(context: &RunContext, arm: &Arm) -> Result<bool, Fault> {
    let Some(model) = &arm.model else { return Ok(false) };
    let tools = context.scaffold(arm)?.needs_tools();
    Ok(context.gateway.halt_reason(model, tools).is_some())
}

/// How a try starts: from the beginning, or from an earlier try.
struct TryStart<'a> {
    try_number: u32,
    /// The interrupted try that this try continues.
    resume_point: Option<&'a ResumePoint>,
    /// Why this try does not continue an earlier one.
    restart_reason: Option<&'a str>,
}

async fn run_try(trial: TrialRun<'_>, start: TryStart<'_>) -> Result<Outcome, Fault> {
    let TrialRun { context, id, planned_task: planned, arm, dir, .. } = trial;
    let TryStart { try_number: number, resume_point: past, restart_reason: started_again } = start;
    let TrialEnvironment { planned_task: planned, environment, findings: leak_check } =
        context.prepare_environment(id, planned, arm).await?;
    let task = &planned.task;
    if context.cancel.is_winding_down() {
        return Err(CancelSignal::cancelled_fault());
    }
    let own = ProgramSandbox::for_arm(context, arm, task, &leak_check).await?;
    TryRun {
        context,
        id,
        task,
        base_dir: &planned.base_dir,
        arm,
        dir,
        try_number: number,
        environment: &environment,
        leak_check: &leak_check,
        program_sandbox: own.as_ref(),
        resume_point: past,
        restart_reason: started_again,
    }
    .run()
    .await
}

/// Appends an event to the journal of a try that could not write the event itself. If the try
/// failed before it requested a sandbox, this function creates the try's journal. Like every
/// journal, the new one starts with the trial's identity.
fn append_event(id: &TrialId, dir: &TrialDir, try_number: u32, event: Event) -> Result<(), Fault> {
    let path = dir.trajectory_path();
    let began = path.exists();
    let journal = if began { Journal::open(path) } else { Journal::create(path, try_number) };
    let mut journal = journal.map_err(record_fault)?;
    if !began {
        journal.append_durable(0, Event::trial_started(id)).map_err(record_fault)?;
    }
    journal.append_durable(0, event).map_err(record_fault)?;
    Ok(())
}

/// Records and returns the outcome of a trial that no try completed. The outcome includes the last
/// try's spending, time and interruptions.
fn record_fault_outcome(
    id: &TrialId,
    dir: &TrialDir,
    try_number: u32,
    fault: Fault,
) -> Result<Outcome, Fault> {
    let journal = dir.trajectory_path();
    let spent = read_journal_spending(&journal).map_err(record_fault)?;
    // A trial may fail before it has a journal.
    let events = match journal.is_file() {
        true => read_journal(&journal).map_err(record_fault)?.events,
        false => Vec::new(),
    };
    let TryHistory { wall_seconds, interruptions } =
        TryHistory::from_events(events.iter().map(|one| (one.t_mono, &one.event)));
    let outcome =
        Outcome { spent, wall_seconds, interruptions, ..fault_outcome(try_number, fault) };
    let ended = Event::TrialEnded { outcome: Box::new(outcome.clone()), packed: None };
    append_event(id, dir, try_number, ended)?;
    dir.write_outcome(&outcome).map_err(record_fault)?;
    Ok(outcome)
}

fn fault_outcome(try_number: u32, fault: Fault) -> Outcome {
    Outcome::from_ending(try_number, Ending::InfrastructureFault { fault })
}

async fn grade_with_retries(trial: TrialRun<'_>) -> Result<Option<Verdict>, Fault> {
    let TrialRun { context, id, planned_task: planned, arm, dir, location: affected } = trial;
    let backend = Arc::clone(context.backend(arm.sandbox.kind)?);
    let patch = match recorded_patch(context, id, dir) {
        Ok(patch) => patch,
        Err(fault) => return Ok(report_grading_failure(context, id, arm, fault)),
    };
    let mut done = 0;
    loop {
        // `resume` grades the remaining trials.
        if context.cancel.is_winding_down() {
            return Err(CancelSignal::cancelled_fault());
        }
        done += 1;
        let fault = match grade_once(trial, &patch).await {
            Ok(verdict) => {
                context.halts.clear_faults(affected, ScopeKind::Run);
                context.send_progress(Progress::Graded {
                    trial: id.clone(),
                    arm: arm.name.clone(),
                    verdict: Box::new(verdict.clone()),
                });
                return Ok(Some(verdict));
            }
            Err(fault)
                if context.cancel.is_stopping()
                    || (context.cancel.is_winding_down()
                        && fault.cause == FaultCause::Cancelled) =>
            {
                return Err(fault);
            }
            Err(fault) => fault,
        };
        if fault.layer == FaultLayer::Environment && fault.cause == FaultCause::Gone {
            context.environments.forget(backend.as_ref(), &planned.task).await;
        }
        let fault = context.wait_for_back_end(backend.as_ref(), affected, fault).await;
        let again = context.fault_policy.should_retry(&fault, done);
        if !again {
            context.count_fault(affected, &fault);
        }
        let will_retry = again && context.halts.halting_fault(affected, true).is_none();
        record_grading_failure(trial, &fault, will_retry);
        if !will_retry {
            return Ok(report_grading_failure(context, id, arm, fault));
        }
        context.wait_before_retry(context.fault_policy.retry_delay(done)).await;
    }
}

async fn grade_once(trial: TrialRun<'_>, patch: &[u8]) -> Result<Verdict, Fault> {
    let TrialRun { context, id, planned_task: planned, arm, dir, .. } = trial;
    let TrialEnvironment { planned_task: on_image, .. } =
        context.prepare_environment(id, planned, arm).await?;
    let (mut graded, _) = grade_trial(context, id, planned, arm, patch).await?;
    add_forensics(context, &on_image.task, dir, patch, &mut graded).await?;
    limit_evidence(&mut graded.verdict)?;
    let GradingResult { verdict, log, raw_results: raw } = graded;
    let grading = GradingFiles { patch, verdict: &verdict, log: &log, results: &raw };
    dir.store_grading(id, grading).map_err(record_fault)?;
    Ok(verdict)
}

/// Records why a grading failed, and the output that it left. If the record cannot be written, the
/// fault is only printed.
fn record_grading_failure(trial: TrialRun<'_>, fault: &Fault, will_retry: bool) {
    let TrialRun { id, dir, .. } = trial;
    if let Err(error) = dir.store_grading_failure(id, fault, will_retry) {
        tracing::warn!(%error, trial = %id, "could not record why grading failed");
    }
}

fn report_grading_failure(
    context: &RunContext,
    id: &TrialId,
    arm: &Arm,
    fault: Fault,
) -> Option<Verdict> {
    context.send_progress(Progress::GradingFailed {
        trial: id.clone(),
        arm: arm.name.clone(),
        fault,
    });
    None
}

/// Returns the patch that the trial's journal references. If that patch is missing or corrupt,
/// returns a fault rather than another patch, such as an empty one.
pub(crate) fn recorded_patch(
    context: &RunContext,
    id: &TrialId,
    dir: &TrialDir,
) -> Result<Vec<u8>, Fault> {
    let lost = |why: String| {
        Fault::new(FaultLayer::Record, format!("{}: {why}", dir.patch_path().display()))
            .hint(Remedy::RestoreFromCopy.hint())
            .into_permanent()
    };
    let checked = context.run.check_trial(id);
    let recorded = checked.patch.ok_or_else(|| lost("the journal does not name a patch".into()))?;
    let found = context.run.load_patch(dir, &recorded.hash);
    found.map_err(|error| lost(format!("it differs from the patch in the journal, and {error}")))
}
