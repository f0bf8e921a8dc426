//! Runs one try: sets up the sandbox, runs the agent and collects its work.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use proctor_gateway::Meter;
use proctor_record::{Journal, PatchPolicy, Tree, TrialDir, collect_patch};
use proctor_sandbox_api::{Exhaustion, PreparedEnvironment, Sandbox, SandboxHandle, wire::RawPath};
use proctor_scaffold_api::{Finish, ForkContext, Session as _, Stop, TaskBrief};
use proctor_setup::{
    HiddenCopies, LayerFindings, Preparation, Purpose, ReadySandbox, prepare_for_agent,
};
use proctor_types::{
    Arm, BudgetScope, Disclosure, Ending, Event, ExitCause, Fault, FaultLayer, ForkOrigin,
    Interruptions, Outcome, SandboxCounts, Task, TrialId,
};
use serde_json::{Map, json};
use tokio::{sync::watch, time::timeout};

use crate::{
    CancelSignal, Progress, RunContext,
    error::record_fault,
    fault_policy::ScopeKind,
    gold_patch::gold_patch,
    halts::TrialLocation,
    harbor,
    interrupted::can_resume,
    network::{NetworkUser, SandboxNetwork},
    noise::{CounterDelta, build_noise},
    own_sandbox::ProgramSandbox,
    recorder::{ActivityUpdate, Recorder},
    resume_point::{RESTART_REASON_KEY, ResumePoint},
    session::{ClientState, SessionParts, TrialSession},
    steps::StepSnapshots,
    task_material::task_material,
    task_sandbox::{check_requirements, environment_record, sandbox_limits},
};

/// Key of the journal note with the leak check's report.
pub const LEAK_NOTE: &str = "checked for leaks";

/// The inputs for running one try.
pub(crate) struct TryRun<'a> {
    pub(crate) context: &'a Arc<RunContext>,
    pub(crate) id: &'a TrialId,
    pub(crate) task: &'a Task,
    /// The directory that the task's relative paths are resolved against.
    pub(crate) base_dir: &'a Path,
    pub(crate) arm: &'a Arm,
    pub(crate) dir: &'a TrialDir,
    pub(crate) try_number: u32,
    pub(crate) environment: &'a PreparedEnvironment,
    /// The copies of the task's secrets that the leak check found in the environment.
    pub(crate) leak_check: &'a LayerFindings,
    /// If the scaffold's loop is a user's program, how to open that program's sandbox.
    pub(crate) program_sandbox: Option<&'a ProgramSandbox>,
    /// The point from which the try continues. `None` if the try neither resumes an interrupted try
    /// nor starts as a fork.
    pub(crate) resume_point: Option<&'a ResumePoint>,
    /// Why the previous try was discarded, although it was only interrupted.
    pub(crate) restart_reason: Option<&'a str>,
}

impl TryRun<'_> {
    /// Runs the try and returns its outcome, which is also the journal's last event. If a fault
    /// prevents an outcome, returns the fault, and the journal ends with the events that led to it.
    pub(crate) async fn run(&self) -> Result<Outcome, Fault> {
        let begun = Instant::now();
        let path = self.dir.trajectory_path();
        let journal = match self.resume_point {
            None => Journal::create(path, self.try_number),
            Some(_) => {
                // Remove the outcome file of an earlier fault. The journal still contains the
                // fault.
                self.dir.remove_outcome().map_err(record_fault)?;
                Journal::open(path)
            }
        };
        let journal = journal.map_err(record_fault)?;
        let blobs = self.context.run.trial_blobs(self.dir);
        let recorder = Recorder::new(journal, blobs, self.activity_callback());
        if self.resume_point.is_none() {
            recorder.append(Event::trial_started(self.id)).await?;
            if let Some(why) = self.restart_reason {
                let note = Map::from_iter([(RESTART_REASON_KEY.to_owned(), json!(why))]);
                recorder.append(Event::Noted { note }).await?;
            }
        }
        let ReadySandbox { sandbox, hidden_copies: hidden } = tokio::select! {
            ready = self.open_sandbox() => ready?,
            // Stop waiting when the run winds down: a thousand trials may be waiting to open a
            // sandbox.
            () = self.context.cancel.wait_for_wind_down() => return Err(CancelSignal::cancelled_fault()),
        };
        let mut own = None;
        let delta = CounterDelta::new(sandbox.as_ref());
        let places = (sandbox.as_ref(), &delta);
        let driven = tokio::select! {
            driven = self.drive(places, &mut own, &hidden, &recorder, begun) => driven,
            () = self.context.cancel.wait_for_stop() => Err(CancelSignal::cancelled_fault()),
        };
        let counts = delta.end().await;
        let ended = match driven {
            Ok(outcome) => self.record_outcome(&recorder, outcome, counts).await,
            Err(fault) => {
                // Return the original fault even if these counts cannot be recorded.
                let _ = record_counts(&recorder, counts).await;
                Err(fault)
            }
        };
        // Other users of the recorder, such as a proxied connection, may keep it alive a moment
        // longer. Close the journal now, so that the journal's next reader does not find an open
        // writer.
        recorder.close().await;
        // Close the sandboxes only after the outcome is recorded, so that the outcome counts even
        // if closing fails. But close them before a fault is returned, so that no sandbox is left
        // behind.
        for mut sandbox in own.into_iter().chain([sandbox]) {
            if let Err(fault) = sandbox.close().await {
                let (trial, arm) = (self.id.clone(), self.arm.name.clone());
                self.context.send_progress(Progress::SandboxNotClosed { trial, arm, fault });
            }
        }
        ended
    }

    /// Restores the files of the interrupted try. Returns the tree that the agent started with.
    async fn restore(
        &self,
        resume_point: &ResumePoint,
        handle: &SandboxHandle,
        workdir: &RawPath,
        recorder: &Recorder,
    ) -> Result<Arc<Tree>, Fault> {
        let base = Tree::load(recorder.blobs(), &resume_point.base_tree).map_err(record_fault)?;
        recorder.restore(handle, workdir, resume_point, self.task.user.as_deref()).await?;
        recorder.add_resumed_counts(&resume_point.responders, &resume_point.request_changes).await;
        Ok(Arc::new(base))
    }

    async fn record_outcome(
        &self,
        recorder: &Recorder,
        mut outcome: Outcome,
        counts: Option<SandboxCounts>,
    ) -> Result<Outcome, Fault> {
        record_counts(recorder, counts).await?;
        if let Some(counts) = counts {
            let waits = recorder.request_waits().filter(|_| self.arm.model.is_some());
            let since = self.resume_point.map(|past| past.complete_steps);
            outcome.noise = Some(Box::new(build_noise(counts, waits, since)?));
        }
        let ended = Event::TrialEnded { outcome: Box::new(outcome.clone()), packed: None };
        recorder.append(ended).await?;
        self.dir.write_outcome(&outcome).map_err(record_fault)?;
        Ok(outcome)
    }

    async fn open_sandbox(&self) -> Result<ReadySandbox, Fault> {
        let preparation = Preparation {
            backend: self.context.backend(self.arm.sandbox.kind)?.as_ref(),
            environment: self.environment,
            task: self.task,
            findings: self.leak_check,
            limits: &sandbox_limits(self.arm, self.task),
            mounts: &self.context.scaffold(self.arm)?.mounts(),
            label: self.id.to_string(),
        };
        let ready = preparation.open(Purpose::Driving(self.arm.leak_check.on_finding)).await?;
        let ready = check_requirements(ready, self.task).await?;
        self.context.halts.clear_faults(&TrialLocation::new(self.arm, self.id), ScopeKind::BackEnd);
        Ok(ready)
    }

    async fn drive(
        &self,
        (sandbox, counter_delta): (&dyn Sandbox, &CounterDelta<'_>),
        program_sandbox: &mut Option<Box<dyn Sandbox>>,
        hidden_copies: &HiddenCopies,
        recorder: &Arc<Recorder>,
        started_at: Instant,
    ) -> Result<Outcome, Fault> {
        let handle = sandbox.handle();
        let on_finding = self.arm.leak_check.on_finding;
        let leaks =
            prepare_for_agent(handle, self.task, self.leak_check, hidden_copies, on_finding)
                .await?;
        let note = Map::from_iter([(LEAK_NOTE.to_owned(), json!(leaks))]);
        let workdir = RawPath::from(self.task.workdir.as_str());
        if self.task.harbor.is_some() {
            // Record all changes, because grading applies them to a fresh container.
            recorder
                .include_all_outside(harbor::outside_limits(self.context.outside_limits)?)
                .await;
            harbor::prepare_sandbox(handle).await?;
        } else if can_resume(self.context.scaffold(self.arm)?.as_ref())? {
            recorder.include_outside(self.context.outside_limits).await;
        }
        let base = match self.resume_point {
            None => {
                recorder.append(Event::Noted { note }).await?;
                recorder.snapshot(handle, &workdir, true).await?
            }
            // Don't scan a resumed sandbox for leaks: the scan is only meaningful before the agent
            // has run.
            Some(past) => self.restore(past, handle, &workdir, recorder).await?,
        };
        if let Some(second) = self.program_sandbox {
            *program_sandbox =
                Some(second.open(self.context, self.arm, &self.id.to_string()).await?);
        }
        let not_enforced = sandbox.enforcement().not_enforced.clone();
        match self.resume_point {
            None => {
                recorder
                    .append(Event::SetupFinished {
                        backend: self.context.backend(self.arm.sandbox.kind)?.name().into(),
                        start_ms: started_at.elapsed().as_secs_f64() * 1e3,
                        base_snapshot: base.digest(),
                        not_enforced: not_enforced.clone(),
                        environment: Some(environment_record(
                            self.environment,
                            self.task,
                            &sandbox_limits(self.arm, self.task),
                        )),
                    })
                    .await?;
            }
            Some(past) => {
                let (snapshot, whole_steps) = (past.tree.clone(), past.complete_steps);
                let stands_to = past.last_kept_seq;
                let resumed = Event::TrialResumed { snapshot, whole_steps, stands_to };
                recorder.append_at(past.prior_usage.spending.steps, resumed).await?;
            }
        }

        counter_delta.begin().await;
        // The agent's clock starts here, because setup time is not charged to the agent.
        let shared = self.context.shared_meters.meters_for_arm(&self.arm.id);
        let mut meter =
            Meter::new(harbor::agent_budget(self.arm, self.task)).with_shared_meters(shared);
        if let Some(past) = self.resume_point {
            meter = meter.resume_from(&past.prior_usage);
        }
        let meter = Arc::new(meter);
        recorder.set_meter(Arc::clone(&meter));
        let workdir = (Arc::clone(handle), workdir);
        let kept = self.resume_point.map_or(0, |past| past.complete_steps);
        let steps = StepSnapshots::new(
            Arc::clone(recorder),
            workdir,
            Arc::clone(&meter),
            self.step_callback(),
            kept,
        );
        let gateway = match &self.arm.model {
            None => None,
            Some(model) => {
                let sink = Arc::clone(&steps) as Arc<dyn proctor_gateway::ExchangeSink>;
                let opened = self
                    .context
                    .gateway
                    .open_with_meter(model, Arc::clone(&meter), sink)?
                    .for_trial(&self.id.to_string());
                if let Some(past) = self.resume_point {
                    past.replay_attempts(&opened, recorder.blobs()).await?;
                }
                Some(Arc::new(opened))
            }
        };
        let scaffold = Arc::clone(self.context.scaffold(self.arm)?);
        let own = program_sandbox.as_ref().map(|own| Arc::clone(own.handle()));
        let user = NetworkUser {
            arm: self.arm,
            task: self.task,
            task_network: harbor::agent_network(self.arm, self.task),
            scaffold: scaffold.as_ref(),
            gateway: gateway.as_ref(),
            handle,
            program_sandbox: own.as_ref(),
            recorder,
        };
        let network = SandboxNetwork::open(self.context, user).await?;
        let (tell, ending) = watch::channel(false);
        let mut session = TrialSession::new(SessionParts {
            brief: self.build_brief(&network)?,
            handle: Arc::clone(handle),
            recorder: Arc::clone(recorder),
            steps,
            meter: Arc::clone(&meter),
            gateway: gateway.clone(),
            client: ClientState {
                server: network.model_server(),
                program_sandbox: own,
                ending_signal: ending,
                dir: self.dir.clone(),
                wind_down_context: can_resume(scaffold.as_ref())?.then(|| Arc::clone(self.context)),
            },
        });
        if let Some(past) = self.resume_point {
            session = session.resume_from(past);
        }
        if session.brief().solution.is_some() {
            harbor::copy_solution(handle, self.task, self.base_dir).await?;
        }
        // Time limits are also watched here, not only before each request. Dropping the future
        // cancels a command that runs past a limit.
        let stopped = async {
            tokio::select! {
                kind = meter.wait_for_tool_limit() => Stop::Budget(kind),
                stop = network.wait_for_stop() => stop,
            }
        };
        let mut driving = scaffold.drive(&mut session);
        let ended = tokio::select! {
            ended = &mut driving => ended,
            stop = stopped => {
                tell.send_replace(true);
                if let Some(leave) = scaffold.exit_timeout() {
                    // The driver's result no longer counts. If the sandbox failed in the meantime,
                    // the last snapshot detects that.
                    let _ = timeout(leave, &mut driving).await;
                }
                Err(stop)
            }
        };
        drop(driving);
        let ended = self.prefer_gateway_record(ended, &network);
        let asked = scaffold.needs_model() && session.spending().steps == 0;
        let ended = if asked {
            let is_copied = self.program_sandbox.is_some();
            require_model_response(ended, network.model_server().is_some(), is_copied)
        } else {
            ended
        };
        // If the gateway rejected the client's last request because of a limit, the snapshot was
        // already taken when that request arrived.
        let frozen = network.model_server().is_some()
            && matches!(ended, Err(Stop::Budget(kind)) if !kind.is_time());
        // Close the network first, so that the record contains every request before the ending is
        // determined.
        network.close().await?;
        let ending = match ended {
            Ok(Finish::Submitted) => Ending::Submitted,
            Ok(Finish::Exited { cause, reason: why }) => {
                if let Some(gateway) = &gateway
                    && let Some(fault) = gateway.anomaly_fault().await
                {
                    return Err(fault);
                }
                Ending::ScaffoldExited { cause, why }
            }
            Err(Stop::Budget(budget)) => {
                // If the endpoint used up the limit, the result says nothing about the model.
                if let Some(gateway) = &gateway
                    && let Some(fault) = gateway.limit_fault(budget).await
                {
                    return Err(fault);
                }
                session.record_limit(BudgetScope::Trial, budget).await?;
                Ending::Budget { budget, scope: BudgetScope::Trial }
            }
            Err(Stop::SharedBudget(scope, budget)) => {
                session.record_limit(scope, budget).await?;
                Ending::Budget { budget, scope }
            }
            Err(Stop::Refused(why)) => Ending::ModelRefused { why },
            Err(Stop::Cancelled) => Ending::Cancelled,
            Err(Stop::Fault(fault)) => match self.exhaustion_reason(handle, &fault).await {
                Some(why) => Ending::ScaffoldExited { cause: ExitCause::Crashed, why },
                None => return Err(fault),
            },
        };
        let (waited, in_tools) = (meter.wait_time(), meter.tool_time());
        let end = match session.finish(frozen).await {
            Ok(end) => end,
            // The last readable tree counts as the agent's work.
            Err(fault) if self.exhaustion_reason(handle, &fault).await.is_some() => {
                recorder.last_tree().await
            }
            Err(fault) => return Err(fault),
        };
        harbor::verify_in_place(
            self.context,
            (self.arm, self.task, self.base_dir),
            handle,
            recorder,
        )
        .await?;
        let (left_out, is_patch_empty) = self.collect_patch(&base, &end, recorder).await?;
        if is_patch_empty
            && ending == Ending::Submitted
            && let Some(gateway) = &gateway
            && let Some(fault) = gateway.anomaly_fault().await
        {
            return Err(fault);
        }
        Ok(Outcome {
            schema_version: 1,
            ending,
            try_number: self.try_number,
            spent: session.spending(),
            tool_calls: Some(recorder.tool_call_count().await),
            malformed_calls: session.malformed_calls(),
            wall_seconds: self.resume_point.map_or(0.0, |past| past.clock_seconds)
                + started_at.elapsed().as_secs_f64(),
            waited_seconds: waited.as_secs_f64(),
            tool_seconds: in_tools.as_secs_f64(),
            left_out,
            not_enforced,
            noise: None,
            responders: recorder.responders().await,
            changes: recorder.request_changes().await,
            interruptions: self.interruptions(),
        })
    }

    fn interruptions(&self) -> Interruptions {
        let Some(past) = self.resume_point else {
            let started_again = self.restart_reason.map(str::to_owned);
            return Interruptions { started_again, ..Interruptions::default() };
        };
        let mut all = past.interruptions.clone();
        if !past.is_new_fork {
            all.resumed_after.push(past.complete_steps);
        }
        all
    }

    /// Prefers the gateway's record to the client's exit status. The client may have exited because
    /// the gateway rejected a request, which this code may not have noticed yet, or because the
    /// endpoint rejected or cut off the client's last request.
    fn prefer_gateway_record(
        &self,
        result: Result<Finish, Stop>,
        network: &SandboxNetwork,
    ) -> Result<Finish, Stop> {
        match (result, network.wait_for_stop().now_or_never()) {
            (Ok(_), Some(stop)) => Err(stop),
            (Ok(Finish::Exited { cause, reason: why }), None) => match network.rejection() {
                Some(stop) => Err(stop),
                None => Ok(Finish::Exited { cause, reason: why }),
            },
            (other, _) => other,
        }
    }

    /// If the agent itself exhausted the sandbox, returns why the sandbox is unusable. The trial
    /// then ends normally, and the agent's work is graded.
    async fn exhaustion_reason(&self, handle: &SandboxHandle, fault: &Fault) -> Option<String> {
        let (how, why) = handle.diagnose_exhaustion(fault).await?;
        (how != Exhaustion::Refused).then(|| format!("its sandbox ended: {why}"))
    }

    fn activity_callback(&self) -> Box<dyn Fn(ActivityUpdate) + Send + Sync> {
        let context = Arc::clone(self.context);
        let (trial, arm) = (self.id.clone(), self.arm.name.clone());
        Box::new(move |now| {
            let (trial, arm) = (trial.clone(), arm.clone());
            match now {
                ActivityUpdate::ActivityChanged(doing) => {
                    context.send_progress(Progress::ActivityChanged { trial, arm, activity: doing })
                }
                ActivityUpdate::WaitStarted(waiting) => {
                    context.send_progress(Progress::WaitStarted { trial, arm, wait: waiting })
                }
                // Shorter waits are not worth displaying, and the record contains them anyway.
                ActivityUpdate::WaitEnded(seconds) if seconds >= 1.0 => {
                    context.send_progress(Progress::WaitEnded { trial, arm, seconds });
                }
                ActivityUpdate::WaitEnded(_) => {}
            }
        })
    }

    fn step_callback(&self) -> Box<dyn Fn(u64) + Send + Sync> {
        let context = Arc::clone(self.context);
        let (trial, arm) = (self.id.clone(), self.arm.name.clone());
        Box::new(move |step| {
            context.send_progress(Progress::StepEnded {
                trial: trial.clone(),
                arm: arm.clone(),
                step,
            });
        })
    }

    fn build_brief(&self, network: &SandboxNetwork) -> Result<TaskBrief, Fault> {
        let task_limit = self.task.timeouts.command_seconds;
        let limit = self.arm.budget.command_seconds.map_or(task_limit, |arm| arm.min(task_limit));
        let announced = (self.arm.budget.disclosure == Disclosure::Announced)
            .then(|| harbor::agent_budget(self.arm, self.task));
        // Only the `gold` scaffold receives the gold patch.
        let is_gold = self.arm.scaffold == "gold";
        let solution = if is_gold { harbor::solution_env(self.task)? } else { None };
        let gold = match is_gold && solution.is_none() {
            true => Some(gold_patch(self.task)?),
            false => None,
        };
        let single = self.arm.scaffold == "single-shot";
        let material = if single { Some(task_material(self.task)?) } else { None };
        let model = self.arm.model.as_ref();
        let listed_window = model.and_then(|model| self.context.gateway.context_window(model));
        Ok(TaskBrief {
            task: self.task.id.to_string(),
            statement: self.task.statement.clone(),
            workdir: self.task.cwd().to_owned(),
            // The variables for Proctor's proxies come last. They override a proxy that the task
            // sets, which the sandbox could not reach.
            env: self.task.command_env().into_iter().chain(network.sandbox_env()?).collect(),
            user: self.task.user.clone(),
            command_timeout: Duration::from_secs_f64(limit),
            announced_budget: announced,
            model: self.arm.model.as_ref().map(|model| model.name.clone()),
            context_window: self.arm.model.as_ref().and_then(|model| model.context_window),
            listed_context_window: listed_window,
            max_output_tokens: self.arm.model.as_ref().and_then(|model| model.max_output_tokens),
            gold,
            solution,
            replay: self.replay_trajectory(),
            model_endpoint: network.model_endpoint(),
            material,
            tokenizer: self.arm.model.as_ref().and_then(|model| model.tokenizer.clone()),
            settings: self.arm.settings_table(),
            fork: self.arm.forked_from.as_ref().map(|origin| self.fork_brief(origin)),
        })
    }

    /// Returns the conversation that a fork starts with.
    fn fork_brief(&self, origin: &ForkOrigin) -> ForkContext {
        let along = self.resume_point.filter(|_| origin.conversation);
        let after = if origin.conversation { origin.step } else { 0 };
        ForkContext {
            first_messages: along.and_then(|past| past.first_messages.clone()),
            hint: origin.hint.clone().map(|hint| (after, hint)),
        }
    }

    /// Returns the path of the trajectory that a `replay` arm replays.
    fn replay_trajectory(&self) -> Option<std::path::PathBuf> {
        self.context.replay_trajectories.get(&self.arm.name).cloned()
    }

    /// Computes the patch on the host from the two trees and stores it. Returns the paths that it
    /// leaves out, and whether it is empty.
    async fn collect_patch(
        &self,
        base_tree: &Arc<Tree>,
        final_tree: &Arc<Tree>,
        recorder: &Recorder,
    ) -> Result<(Vec<String>, bool), Fault> {
        let policy = PatchPolicy::shipped().map_err(|error| error.fault())?;
        let (base, end) = (Arc::clone(base_tree), Arc::clone(final_tree));
        let blobs = recorder.blobs().clone();
        let make = move || collect_patch(&base, &end, &blobs, policy);
        let patch = self.context.comparison_limit.run(make).await?.map_err(record_fault)?;
        self.dir.write_patch(&patch.bytes).map_err(record_fault)?;
        let hash = recorder.store_blob(&patch.bytes)?;
        recorder
            .append(Event::PatchCollected {
                bytes: patch.bytes.len() as u64,
                files: patch.changed_paths as u64,
                hash,
            })
            .await?;
        let left_out =
            patch.omitted_paths.iter().map(|left| format!("{}: {}", left.path, left.why));
        Ok((left_out.collect(), patch.bytes.is_empty()))
    }
}

/// If the program exited before it received a response, returns a fault: it failed to start or to
/// call the model, so the result says nothing about the model. `is_client` says whether the program
/// calls the model over HTTP. A program that calls the model over HTTP cannot have finished
/// deliberately without a response. `is_copied` says whether the run has its own copy of the
/// program.
fn require_model_response(
    result: Result<Finish, Stop>,
    is_client: bool,
    is_copied: bool,
) -> Result<Finish, Stop> {
    let why = match &result {
        // A loop on the host may find that its first request does not fit the context window.
        Ok(Finish::Exited { cause: ExitCause::Finished, .. }) if !is_client => return result,
        Ok(Finish::Exited { reason: why, .. }) => why.clone(),
        Ok(Finish::Submitted) if is_client => "it reported success".into(),
        _ => return result,
    };
    let what = format!("the agent ended before it received a response: {why}");
    // Don't name the trial here. Otherwise, the same fault of many trials would be reported many
    // times.
    let hint = match is_copied {
        true => {
            "fix the program and start a new run, because `proctor resume` runs the run's copy of \
             the program; `proctor show` prints the end of its standard error"
        }
        false => "`proctor show` prints the end of the agent's standard error",
    };
    Err(Stop::Fault(Fault::new(FaultLayer::Setup, what).hint(hint)))
}

async fn record_counts(recorder: &Recorder, counts: Option<SandboxCounts>) -> Result<(), Fault> {
    match counts {
        Some(counts) => recorder.append(Event::SandboxMeasured { counts: Box::new(counts) }).await,
        None => Ok(()),
    }
}
