//! Runs a plan in its run directory. Trials can be run only through this module.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::Arc,
};

use proctor_egress::Egress;
use proctor_gateway::{Gateway, PriceTable, RatePolicy};
use proctor_grade::GradeOptions;
use proctor_record::{CheckedTrial, RunDir, parallel_map};
use proctor_sandbox_api::{Backend, Machine};
use proctor_scaffold_api::{ProgressSink, ScaffoldSource, Scaffolds};
use proctor_setup::Sources;
use proctor_types::{
    Arm, EndpointRates, Fault, FaultLayer, FlakePolicy, GradingSettings, RecordedArm,
    RecordedConfig, RunRecord, SCRIPT_URL_PREFIX, SandboxKind, TrialId, UserError, sha256_hex,
};
use serde_json::Value;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
};

use crate::{
    CancelSignal, Capacity, ComparisonLimit, DispatchEnd, DispatchedTrial, Environments,
    FaultPolicy, FrozenTests, Halts, LeakChecks, OutsideLimits, Plan, PlannedTask, Progress,
    RecordedState, RunContext, RunError, SharedMeters, VerdictCache, dispatch,
    preflight::{PreflightSink, probe_models, report_images},
    scripts::ScriptServers,
    shared_rates, task_for_arm,
};

/// Key of the arm setting that contains the content hash of the trajectory to replay.
const REPLAY_KEY: &str = "replay";

/// Whether to grade a patch again if the same grader version has already graded it in the same
/// environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegradePolicy {
    /// Use the cached verdict.
    ReuseVerdict,
    /// Grade every patch again.
    GradeAgain,
}

/// The tests that a flake certificate lists as unreliable, by task digest, and how grading treats
/// their failures.
#[derive(Debug, Default)]
pub struct FlakyTests {
    unreliable_tests: BTreeMap<String, BTreeSet<String>>,
    policy: FlakePolicy,
}

impl FlakyTests {
    /// Reads the certificate from a run's record. Reports the tasks that the certificate does not
    /// cover.
    pub fn from_record(record: &RunRecord, say: ProgressSink<'_>) -> Self {
        let Some(certificate) = &record.certificate else { return Self::default() };
        let kinds: BTreeSet<_> = record.arms.iter().map(|arm| arm.sandbox.kind).collect();
        for kind in kinds.into_iter().map(|kind| serde_json::json!(kind)) {
            if kind != certificate.backend.as_str() {
                let made = &certificate.backend;
                say(format!(
                    "note: the certificate was created with {made} sandboxes, but this run uses {kind}"
                ));
            }
        }
        let mut unreliable = BTreeMap::new();
        // A certificate that was created only from attacks says nothing about individual tests.
        let repeated = record.tasks.iter().filter(|_| !certificate.tasks.is_empty());
        for task in repeated {
            match certificate.unreliable_tests(&task.task.id, &task.digest) {
                Some(ids) => {
                    // Use the digest of the task as each arm receives it, because the arm's
                    // `[statement]` and clock settings change the digest. The certificate still
                    // applies: a changed statement does not change the tests.
                    let whole = Arc::new(task.task.clone());
                    for arm in &record.arms {
                        let digest = task_for_arm(&whole, arm).digest();
                        unreliable.insert(digest, ids.clone());
                    }
                }
                None => {
                    say(format!("note: the certificate does not cover {}", task.task.id));
                }
            }
        }
        Self { unreliable_tests: unreliable, policy: record.flaky }
    }
}

/// Returns the capacity that all grading sandboxes share: the configured limit, or else the
/// capacity of the back ends. With several back ends, this is the smallest one, because they may be
/// on the same machine.
pub fn grading_capacity(
    settings: &GradingSettings,
    backends: &BTreeMap<SandboxKind, Arc<dyn Backend>>,
) -> Machine {
    let machines = backends.values().map(|backend| backend.machine());
    let there = machines.reduce(Machine::min).unwrap_or_else(Machine::detect);
    Machine {
        cpus: settings.cpus.unwrap_or(there.cpus),
        memory_mb: settings.memory_mb.unwrap_or(there.memory_mb),
    }
}

/// Returns the trajectory of each replaying arm, by arm name. The arm stores the trajectory's
/// hash; the configuration stores its path.
///
/// # Errors
/// Fails if a trajectory cannot be read, or has changed since the run was planned.
fn replay_trajectories(record: &RunRecord) -> Result<BTreeMap<String, PathBuf>, UserError> {
    let mut found = BTreeMap::new();
    for RecordedArm { name, replay, .. } in &record.config.arms {
        let Some(path) = replay else { continue };
        let Some(arm) = record.arms.iter().find(|arm| arm.name == *name) else { continue };
        let known = arm.settings.get(REPLAY_KEY).and_then(Value::as_str);
        let shown = path.display();
        let bytes = std::fs::read(path)
            .map_err(|error| UserError::new(format!("arm {name}: cannot read {shown}: {error}")))?;
        if known != Some(sha256_hex(&bytes).as_str()) {
            let what = format!("arm {name}: {shown} has changed since the run was planned");
            return Err(UserError::new(what).hint("restore the trajectory, or start a new run"));
        }
        found.insert(name.clone(), path.clone());
    }
    Ok(found)
}

/// A plan and the resources that its trials use.
pub struct Execution<'a> {
    /// The run directory. It contains the plan and is locked by this process.
    pub run: RunDir,
    /// The plan, which contains the trials.
    pub plan: Plan,
    /// Number of concurrent trials; at least one.
    pub jobs: usize,
    /// The back ends of the plan's arms.
    pub backends: BTreeMap<SandboxKind, Arc<dyn Backend>>,
    /// The scaffolds of the plan's arms.
    pub scaffolds: &'a dyn ScaffoldSource,
    /// Folder for cached sources, leak checks and verdicts.
    pub cache: &'a Path,
    /// Whether to use cached verdicts.
    pub regrade_policy: RegradePolicy,
    /// The tests that grading cannot rely on.
    pub flaky_tests: FlakyTests,
    /// Receives notes and the progress of builds.
    pub say: ProgressSink<'a>,
    /// Receives the preflight findings.
    pub on_preflight: PreflightSink<'a>,
}

impl Execution<'_> {
    /// Starts the unfinished trials. They run until they end, until the handle stops them, or
    /// until the returned value is dropped. Recorded events are kept, and another execution of the
    /// same run directory resumes from them.
    ///
    /// # Errors
    /// Fails if a resource that all trials need is missing. In that case, no trial has started.
    pub async fn start(self) -> Result<RunningExecution, RunError> {
        let Self {
            run,
            mut plan,
            jobs,
            backends,
            scaffolds,
            cache,
            regrade_policy: grading,
            flaky_tests: flakes,
            say,
            on_preflight: hear,
        } = self;
        record_engine_versions(&run, &backends)?;
        let arms: Vec<Arm> = plan.arms.iter().map(|arm| arm.as_ref().clone()).collect();
        // Read the existing record only once, because this takes a second for ten thousand trials.
        let trials = plan.selected_trials();
        let checked = check_trials(&run, &trials);
        // If all remaining work is grading, no model is called. Scripted models then need no server
        // and no message.
        let is_scripted = |arm: &Arm| {
            arm.model.as_ref().is_some_and(|it| it.base_url.starts_with(SCRIPT_URL_PREFIX))
        };
        let mut waiting = trials.iter().zip(&checked).filter(|(_, one)| !one.is_finished);
        let asks_models = waiting.any(|((.., arm), _)| arm.model.is_some());
        let is_driven = trials
            .iter()
            .zip(&checked)
            .any(|((.., arm), one)| is_scripted(arm) && !one.is_finished);
        let before: Vec<RecordedState> = checked.iter().map(RecordedState::from_checked).collect();
        let known = trials.iter().zip(&checked).map(KnownTrial::from_checked).collect();
        let read = trials.into_iter().map(|(id, ..)| id).zip(checked).zip(&before);
        let finished = read.filter(|(_, before)| **before == RecordedState::Finished);
        let finished: HashMap<TrialId, CheckedTrial> = finished.map(|(read, _)| read).collect();
        let scripts = ScriptServers::serve(if is_driven { &arms } else { &[] }, say).await?;
        plan.arms = arms.iter().map(|arm| Arc::new(scripts.with_server_url(arm))).collect();
        // Loading the token tables takes 0.2 s, so do it now rather than in the first step.
        if asks_models {
            proctor_gateway::tokens::load_tables().await;
        }
        let record = run.read_run()?;
        let endpoints = scripts.rates_with_server_urls(record.config.endpoints.values());
        let scaffolds = scaffolds.scaffolds_with_bundles(&record, say).await?;
        let (progress, events) = unbounded_channel();
        let out = run.path().to_owned();
        let parts = ContextParts {
            backends,
            cache,
            regrade_policy: grading,
            flaky_tests: flakes,
            scaffolds,
            endpoints,
            progress,
        };
        let context = Arc::new(create_context(run, &record, &plan, parts)?);
        if plan.preflight {
            report_images(&context, &plan, hear).await?;
            probe_models(&context, &plan, &out, hear).await?;
        }
        let handle = ExecutionHandle(context.cancel.clone());
        let work = {
            let (context, plan) = (Arc::clone(&context), plan.clone());
            tokio::spawn(async move { dispatch(context, &plan, &before, jobs).await })
        };
        Ok(RunningExecution {
            events: Some(events),
            known_trials: known,
            finished_trials: finished,
            context,
            plan,
            handle,
            _scripts: scripts,
            trials_task: TrialsTask(work),
        })
    }

    /// Sends the preflight's test request to each model, without starting a trial. No back end is
    /// needed.
    ///
    /// # Errors
    /// Fails if a scaffold or script cannot be read, or if a response cannot be recorded.
    pub async fn probe_models(self) -> Result<(), RunError> {
        let Self {
            run,
            plan,
            backends,
            scaffolds,
            cache,
            regrade_policy: grading,
            flaky_tests: flakes,
            say,
            on_preflight: hear,
            ..
        } = self;
        let record = run.read_run()?;
        let out = run.path().to_owned();
        let arms: Vec<Arm> = plan.arms.iter().map(|arm| arm.as_ref().clone()).collect();
        let scripts = ScriptServers::serve(&arms, say).await?;
        let arms = arms.iter().map(|arm| Arc::new(scripts.with_server_url(arm))).collect();
        let plan = Plan { arms, ..plan };
        let (progress, _events) = unbounded_channel();
        let parts = ContextParts {
            backends,
            cache,
            regrade_policy: grading,
            flaky_tests: flakes,
            scaffolds: scaffolds.scaffolds_for_arms(&record.arms)?,
            endpoints: scripts.rates_with_server_urls(record.config.endpoints.values()),
            progress,
        };
        let context = create_context(run, &record, &plan, parts)?;
        probe_models(&context, &plan, &out, hear).await?;
        Ok(())
    }

    /// Opens the run with everything that an agent needs, without starting a trial.
    ///
    /// # Errors
    /// Fails in the same cases as [`Self::start`].
    pub async fn open(self) -> Result<OpenedRun, RunError> {
        let record = self.run.read_run()?;
        let scaffolds = self.scaffolds.scaffolds_with_bundles(&record, self.say).await?;
        self.open_with_scaffolds(&record, scaffolds)
    }

    /// Opens the run to grade patches. No agent runs, so no bundle is built.
    ///
    /// # Errors
    /// Fails in the same cases as [`Self::start`].
    pub fn open_for_grading(self) -> Result<OpenedRun, RunError> {
        let record = self.run.read_run()?;
        let scaffolds = self.scaffolds.scaffolds_for_arms(&record.arms)?;
        self.open_with_scaffolds(&record, scaffolds)
    }

    fn open_with_scaffolds(
        self,
        record: &RunRecord,
        scaffolds: Scaffolds,
    ) -> Result<OpenedRun, RunError> {
        let Self {
            run, plan, backends, cache, regrade_policy: grading, flaky_tests: flakes, ..
        } = self;
        let (progress, events) = unbounded_channel();
        let endpoints = Vec::new();
        let parts = ContextParts {
            backends,
            cache,
            regrade_policy: grading,
            flaky_tests: flakes,
            scaffolds,
            endpoints,
            progress,
        };
        let context = Arc::new(create_context(run, record, &plan, parts)?);
        Ok(OpenedRun { context, events })
    }
}

/// The parts of an execution from which its [`RunContext`] is created.
struct ContextParts<'a> {
    backends: BTreeMap<SandboxKind, Arc<dyn Backend>>,
    cache: &'a Path,
    regrade_policy: RegradePolicy,
    flaky_tests: FlakyTests,
    scaffolds: Scaffolds,
    /// Rate limits of the endpoints. Their URLs are the same as in the plan's arms.
    endpoints: Vec<EndpointRates>,
    progress: UnboundedSender<Progress>,
}

/// Creates the context that all trials of a run share.
fn create_context(
    run: RunDir,
    record: &RunRecord,
    plan: &Plan,
    parts: ContextParts<'_>,
) -> Result<RunContext, RunError> {
    let ContextParts {
        backends,
        cache,
        regrade_policy: grading,
        flaky_tests: flakes,
        scaffolds,
        endpoints,
        progress,
    } = parts;
    let RecordedConfig { grading: granted, resume, .. } = &record.config;
    let capacity = Capacity::new(&grading_capacity(granted, &backends));
    let replay = replay_trajectories(record)?;
    let sources = record.tasks.iter();
    let sources = sources.filter_map(|one| Some((one.task.id.clone(), one.source.clone()?)));
    let sources = sources.collect();
    let egress = Egress::new().map_err(|error| {
        Fault::new(FaultLayer::Sandbox, format!("failed to start the egress proxy: {error}"))
    })?;
    let policy = RatePolicy::shipped()?;
    let endpoints = shared_rates(&run, endpoints, policy)?;
    let gateway = Gateway::new(PriceTable::shipped()?)?.with_shared_rates(endpoints, policy);
    Ok(RunContext {
        shared_meters: SharedMeters::load(&run, plan)?,
        run: Arc::new(run),
        backends,
        scaffolds,
        environments: Environments::new(Sources::new(cache.join("sources")))
            .with_planned_digests(sources),
        leak_checks: LeakChecks::new(cache.join("leak-checks")),
        gateway: Arc::new(gateway),
        egress,
        grade_options: GradeOptions::default(),
        capacity,
        comparison_limit: ComparisonLimit::default(),
        frozen_tests: FrozenTests::new(
            (grading == RegradePolicy::ReuseVerdict).then(|| cache.join("frozen")),
        ),
        verdicts: match grading {
            RegradePolicy::ReuseVerdict => Some(VerdictCache::new(cache.join("verdicts"))),
            RegradePolicy::GradeAgain => None,
        },
        unreliable_tests: flakes.unreliable_tests,
        flake_policy: flakes.policy,
        includes_wide: granted.wide,
        verifies_in_place: granted.harbor_shared,
        outside_limits: OutsideLimits {
            file_bytes: resume.outside_file_mb.saturating_mul(1 << 20),
            bytes: resume.outside_mb.saturating_mul(1 << 20),
            ..OutsideLimits::default()
        },
        fault_policy: FaultPolicy::shipped()?,
        halts: Halts::default(),
        replay_trajectories: replay,
        progress,
        cancel: CancelSignal::default(),
    })
}

/// Records the versions of the sandbox engines that the run uses. They are known only once the back
/// ends are connected.
fn record_engine_versions(
    run: &RunDir,
    backends: &BTreeMap<SandboxKind, Arc<dyn Backend>>,
) -> Result<(), RunError> {
    let mut record = run.read_run()?;
    let mut added = false;
    for backend in backends.values() {
        let Some(version) = backend.engine_version() else { continue };
        if let Some(host) = record.host.as_object_mut()
            && !host.contains_key(backend.name())
        {
            host.insert(backend.name().to_owned(), version.into());
            added = true;
        }
    }
    if added {
        run.write_run(&record)?;
    }
    Ok(())
}

/// Reads and checks the record of each trial.
fn check_trials(run: &RunDir, trials: &[(TrialId, PlannedTask, Arc<Arm>)]) -> Vec<CheckedTrial> {
    // If the trials cannot be listed, check each one separately.
    let begun = run.started_trial_dirs().ok();
    parallel_map(trials, |(id, ..)| match &begun {
        Some(begun) => run.check_started_trial(id, begun),
        None => run.check_trial(id),
    })
}

/// A trial of the plan and its state before the execution.
#[derive(Debug, Clone)]
pub struct KnownTrial {
    /// The trial.
    pub id: TrialId,
    /// The trial's arm.
    pub arm: Arc<Arm>,
    /// Whether the trial resolves its task, or `None` if it has no verdict.
    pub resolved: Option<bool>,
}

impl KnownTrial {
    fn from_checked(
        ((id, _, arm), checked): (&(TrialId, PlannedTask, Arc<Arm>), &CheckedTrial),
    ) -> Self {
        let resolved = checked.verdict.as_ref().map(|verdict| verdict.resolved);
        Self { id: id.clone(), arm: Arc::clone(arm), resolved }
    }
}

/// Returns the trials to run, with their recorded verdicts.
pub fn read_known_trials(run: &RunDir, plan: &Plan) -> Vec<KnownTrial> {
    let trials = plan.selected_trials();
    let checked = check_trials(run, &trials);
    trials.iter().zip(&checked).map(KnownTrial::from_checked).collect()
}

/// Stops an execution, from any task.
#[derive(Debug, Clone)]
pub struct ExecutionHandle(CancelSignal);

impl ExecutionHandle {
    /// Prevents new work from starting. Steps and grading in progress finish.
    pub fn wind_down(&self) {
        self.0.wind_down();
    }

    /// Closes all sandboxes now. Interrupted trials have no outcome and can be resumed.
    pub fn stop(&self) {
        self.0.stop();
    }
}

/// The background task that runs trials. Dropping it aborts them.
struct TrialsTask(JoinHandle<Vec<DispatchedTrial>>);

impl Drop for TrialsTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A running execution.
pub struct RunningExecution {
    events: Option<UnboundedReceiver<Progress>>,
    known_trials: Vec<KnownTrial>,
    finished_trials: HashMap<TrialId, CheckedTrial>,
    context: Arc<RunContext>,
    plan: Plan,
    handle: ExecutionHandle,
    /// Kept alive because the trials call these scripted models.
    _scripts: ScriptServers,
    trials_task: TrialsTask,
}

impl RunningExecution {
    /// Returns the stream of progress events the first time it is called. The stream ends after
    /// [`Self::close`] or when this value is dropped. Events are buffered in memory until they are
    /// received.
    pub fn take_progress(&mut self) -> Option<UnboundedReceiver<Progress>> {
        self.events.take()
    }

    /// Returns the plan's trials with their verdicts from earlier executions.
    pub fn known_trials(&self) -> &[KnownTrial] {
        &self.known_trials
    }

    /// Returns a handle that can stop the execution.
    pub fn handle(&self) -> ExecutionHandle {
        self.handle.clone()
    }

    /// Waits until all trials have ended. This method is cancel-safe. Do not call it again after it
    /// has returned.
    ///
    /// # Errors
    /// Fails if the execution was aborted.
    pub async fn wait(&mut self) -> Result<Vec<DispatchedTrial>, RunError> {
        match (&mut self.trials_task.0).await {
            Ok(ends) => Ok(ends),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(RunError::Aborted),
            },
        }
    }

    /// Collects the faults that prevented trials from starting, and ends the stream of progress
    /// events.
    pub fn close(self, trials: Vec<DispatchedTrial>) -> ExecutionResult {
        let Self { finished_trials: finished, context, plan, .. } = self;
        let mut held = model_blocking_faults(&context, &plan, &trials);
        // Don't report a halt that held back no trial. Its fault was already reported when the
        // trial that caused it ended.
        let waiting =
            context.halts.all_halts().into_iter().filter(|halt| halt.held_back_trials > 0);
        held.extend(
            waiting.map(|halt| BlockingFault {
                fault: halt.fault,
                trial_count: halt.held_back_trials,
            }),
        );
        ExecutionResult { trials, blocking_faults: held, finished_trials: finished }
    }

    /// Waits until all trials have ended. Returns how the execution ended.
    ///
    /// # Errors
    /// Fails if the execution was aborted.
    pub async fn join(mut self) -> Result<ExecutionResult, RunError> {
        let trials = self.wait().await?;
        Ok(self.close(trials))
    }
}

/// How an execution ended.
pub struct ExecutionResult {
    /// The trials in plan order.
    pub trials: Vec<DispatchedTrial>,
    /// The faults that prevented trials from starting.
    pub blocking_faults: Vec<BlockingFault>,
    /// The trials that had finished before this execution, as read at its start.
    pub finished_trials: HashMap<TrialId, CheckedTrial>,
}

impl ExecutionResult {
    /// Whether some trials were held back by a shared limit or a halt. A later execution could run
    /// them.
    pub fn has_unstarted_trials(&self) -> bool {
        self.trials.iter().any(|one| matches!(one.end, Ok(DispatchEnd::NotStarted)))
    }

    /// Whether a trial was skipped because this process has too little time left.
    pub fn is_out_of_time(&self) -> bool {
        self.trials.iter().any(|one| matches!(one.end, Ok(DispatchEnd::OutOfTime)))
    }
}

/// A fault that prevented trials from starting.
#[derive(Debug, Clone)]
pub struct BlockingFault {
    /// The fault.
    pub fault: Fault,
    /// Number of trials that were not started because of this fault.
    pub trial_count: usize,
}

/// Returns each fault for which the gateway halted a model, with the number of trials that were not
/// started because of this fault.
fn model_blocking_faults(
    context: &RunContext,
    plan: &Plan,
    ends: &[DispatchedTrial],
) -> Vec<BlockingFault> {
    let stopped = |fault: &Fault| {
        let by = |arm: &&Arc<Arm>| {
            let tools = context.scaffold(arm).is_ok_and(|scaffold| scaffold.needs_tools());
            let halted = arm.model.as_ref().map(|model| context.gateway.halt_reason(model, tools));
            halted.flatten().as_ref() == Some(fault)
        };
        let arms: Vec<_> = plan.arms.iter().filter(by).map(|arm| &arm.id).collect();
        let waits = |end: &&DispatchedTrial| {
            matches!(end.end, Ok(DispatchEnd::NotStarted)) && arms.contains(&&end.trial.arm)
        };
        ends.iter().filter(waits).count()
    };
    let halts = context.gateway.halt_faults();
    halts.into_iter().map(|fault| BlockingFault { trial_count: stopped(&fault), fault }).collect()
}

/// A run opened without running trials, to grade patches or inspect sandboxes.
pub struct OpenedRun {
    context: Arc<RunContext>,
    events: UnboundedReceiver<Progress>,
}

impl OpenedRun {
    /// Returns the context and the stream of progress events. The stream ends when the context is
    /// dropped.
    pub fn into_parts(self) -> (Arc<RunContext>, UnboundedReceiver<Progress>) {
        (self.context, self.events)
    }
}
