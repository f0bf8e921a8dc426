//! The sandbox of a user's program: its specification, the environment variables in it, and what
//! its end means for the trial.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use proctor_sandbox_api::{Command, Mount, SandboxError, SandboxHandle};
use proctor_scaffold_api::{Finish, OwnSandbox, Session, Stop, TaskBrief, Traffic};
use proctor_types::{ExitCause, Fault, FaultCause, FaultLayer, count_with_noun};
use serde_json::{Map, Value};

use crate::{
    agent::{Agent, WORKDIR},
    ending::agent_exit,
    limits::Limits,
    program::{MOUNT, ProgramStore},
    settings::Settings,
};

/// Time limit of a small helper command.
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns what [`Scaffold::own_sandbox`](proctor_scaffold_api::Scaffold::own_sandbox) returns for
/// a user's program.
pub(crate) fn sandbox_spec(
    settings: &Map<String, Value>,
    programs: &ProgramStore,
    limits: &Limits,
) -> Result<Option<OwnSandbox>, (String, String)> {
    let wrong = |what: String| (what, "start a new run".to_owned());
    let settings = Settings::from_resolved(settings).map_err(wrong)?;
    let mut mounts = Vec::new();
    if let Some(digest) = &settings.program {
        let folder = programs.find_copy(digest).ok_or_else(|| {
            let what = format!("the copy of the arm's program {digest} is missing");
            (what, "resume the run, which copies the program again".to_owned())
        })?;
        mounts.push(Mount { folder, mount_point: MOUNT.into() });
    }
    Ok(Some(OwnSandbox {
        mounts,
        digest: settings.program.unwrap_or_default(),
        limits: limits.sandbox_spec(),
        workdir: WORKDIR.into(),
    }))
}

/// Returns the session's sandbox for the user's program.
pub(crate) fn sandbox_handle(session: &dyn Session) -> Result<Arc<SandboxHandle>, Stop> {
    session.own_sandbox().cloned().ok_or_else(|| setup_fault("the agent has no sandbox of its own"))
}

pub(crate) fn setup_fault(problem: impl Into<String>) -> Stop {
    Stop::Fault(Fault::new(FaultLayer::Setup, problem).cause(FaultCause::Invalid))
}

/// Returns environment variables with the program's own settings and with the model endpoint, for a
/// program that calls the model through any client library.
pub(crate) fn environment_variables(
    brief: &TaskBrief,
    program_settings: &Map<String, Value>,
) -> Result<Vec<(String, String)>, Stop> {
    let endpoint = brief.model_endpoint.as_ref();
    let endpoint = endpoint.ok_or_else(|| setup_fault("the scaffold has no model endpoint"))?;
    let (url, versioned) = (&endpoint.url, format!("{}/v1", endpoint.url));
    let window = brief.context_window.map(|tokens| tokens.to_string()).unwrap_or_default();
    let all = [
        ("OPENAI_BASE_URL", &versioned),
        ("OPENAI_API_BASE", &versioned),
        ("OPENAI_API_KEY", &endpoint.token),
        ("ANTHROPIC_BASE_URL", url),
        ("ANTHROPIC_API_KEY", &endpoint.token),
        ("GOOGLE_GEMINI_BASE_URL", url),
        ("GEMINI_API_KEY", &endpoint.token),
        ("PROCTOR_MODEL", &brief.model.clone().unwrap_or_default()),
        ("PROCTOR_CONTEXT_WINDOW", &window),
        ("PROCTOR_WORKDIR", &brief.workdir),
        ("PROCTOR_SETTINGS", &Value::Object(program_settings.clone()).to_string()),
    ];
    Ok(all.map(|(key, value)| (key.to_owned(), value.clone())).into())
}

/// Why a conversation ended early.
pub(crate) enum EarlyEnd {
    Stop(Stop),
    /// The agent's own sandbox is gone.
    SandboxLost(SandboxError),
}

impl From<Stop> for EarlyEnd {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// Determines how the trial ended from how the conversation ended. Also stores the agent's last
/// output, unless the conversation ended with a fault.
pub(crate) async fn finish_conversation(
    end: Result<Finish, EarlyEnd>,
    sandbox: &SandboxHandle,
    agent: &mut Agent,
    session: &mut dyn Session,
) -> Result<Finish, Stop> {
    let end = match end {
        // Record the error here. If the sandbox ended because of its own content, that is a normal
        // ending, so no other event contains the error.
        Err(EarlyEnd::SandboxLost(error)) => finish_after_sandbox_loss(sandbox, error).await,
        Err(EarlyEnd::Stop(stop)) => Err(stop),
        Ok(finish) => Ok(finish),
    };
    if !matches!(end, Err(Stop::Fault(_))) {
        session.store_evidence("stderr.log", &agent.final_stderr().await).await?;
    }
    end
}

/// Determines how the trial ended if the agent's own sandbox is gone. If the sandbox exceeded one
/// of its limits, the agent caused this.
pub(crate) async fn finish_after_sandbox_loss(
    sandbox: &SandboxHandle,
    error: SandboxError,
) -> Result<Finish, Stop> {
    let fault = error.to_fault("the agent's own sandbox");
    match sandbox.diagnose_exhaustion(&fault).await {
        Some((_, why)) => Ok(agent_exit(ExitCause::Crashed, format!("its sandbox ended: {why}"))),
        None => Err(fault.into()),
    }
}

/// Kills the processes that the agent's commands left in the task's sandbox, because they could
/// write to the graded tree. If the image has no shell, no such commands can have run.
pub(crate) async fn kill_commands(sandbox: &SandboxHandle) {
    let mut command = Command::shell(":").time_limit(HELPER_TIMEOUT);
    command.reap_all = true;
    // If the sandbox is gone, taking the last snapshot fails too and reports it.
    let _ = sandbox.run(command).await;
}

/// Tracks for how long an agent has made no requests.
pub(crate) struct IdleTimer {
    limit: Duration,
    idle_since: Instant,
    request_count: u64,
}

impl IdleTimer {
    pub(crate) fn new(seconds: f64) -> Self {
        Self {
            limit: Duration::from_secs_f64(seconds),
            idle_since: Instant::now(),
            request_count: 0,
        }
    }

    pub(crate) fn check_interval(&self) -> Duration {
        (self.limit / 5).clamp(Duration::from_millis(200), Duration::from_secs(15))
    }

    /// Called when the agent was active.
    pub(crate) fn reset(&mut self) {
        self.idle_since = Instant::now();
    }

    /// If the agent has been idle for too long or its requests are rejected, returns how the trial
    /// ended.
    pub(crate) fn check_idle(&mut self, traffic: &Traffic, limits: &Limits) -> Option<Finish> {
        if traffic.received_requests > self.request_count || traffic.requests_in_flight > 0 {
            self.reset();
        }
        self.request_count = traffic.received_requests;
        if traffic.refused_requests >= u64::from(limits.errors_in_a_row) {
            let times = count_with_noun(traffic.refused_requests, "request");
            let why = format!("the gateway rejected {times} to the model in a row");
            return Some(agent_exit(ExitCause::Loop, why));
        }
        let idle = self.idle_since.elapsed() >= self.limit;
        idle.then(|| {
            let why = format!("it made no request for {} s", self.limit.as_secs_f64());
            agent_exit(ExitCause::Idle, why)
        })
    }
}
