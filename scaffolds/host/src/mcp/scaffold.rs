use std::{
    future::Future,
    pin::{Pin, pin},
    time::Duration,
};

use async_trait::async_trait;
use proctor_external::prompt;
use proctor_sandbox_api::{CommandOutput, SandboxError};
use proctor_scaffold_api::{
    AnnouncedLimits as Announced, Finish, OwnSandbox, Scaffold, Session, SettingError, Stop,
};
use proctor_scaffolds::{ToolSet, TrialTools};
use proctor_types::{ExitCause, ToolCall};
use serde_json::{Map, Value, json};
use tokio::{sync::mpsc, time::timeout};

use super::{
    answer::{Call, ToolServer},
    server,
};
use crate::{
    agent,
    conversation::{self, Protocol, Watchdog},
    ending::{agent_exit, finish_after_exit, upgrade_to_submission},
    limits::{self, Limits},
    own_sandbox::{self, EarlyEnd},
    program::ProgramStore,
    settings::{self, ModelAccess, Settings},
};

/// Additional time after the agent's exit timeout, for reading its last output.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of queued calls. The connections of further calls wait.
const MAX_QUEUED_CALLS: usize = 16;

/// A user's program that calls the model itself and uses the tools in the sandbox.
#[derive(Debug)]
pub struct Mcp {
    programs: ProgramStore,
    tools: ToolSet,
    limits: &'static Limits,
}

type RunningProgram<'a> =
    Pin<&'a mut (dyn Future<Output = Result<CommandOutput, SandboxError>> + Send)>;

impl Mcp {
    /// Creates the scaffold. `programs` is the store for copies of users' programs.
    ///
    /// # Errors
    /// Fails if the built-in data is invalid. A test makes sure that it isn't.
    pub fn new(programs: ProgramStore) -> Result<Self, String> {
        let tools = ToolSet::load().map_err(|error| error.to_string())?;
        Ok(Self { programs, tools, limits: Limits::get()? })
    }
}

#[async_trait]
impl Scaffold for Mcp {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn factors(&self) -> Value {
        let prompts = json!({ "task": prompt::TASK_TEMPLATE });
        json!({ "tools": self.tools.factors(), "limits": limits::LIMITS_TOML, "prompts": prompts })
    }

    fn resolve_settings(
        &self,
        arm_settings: &Map<String, Value>,
    ) -> Result<Map<String, Value>, SettingError> {
        settings::resolve_settings(self.name(), ModelAccess::Direct, arm_settings, &self.programs)
    }

    fn needs_model(&self) -> bool {
        true
    }

    fn model_endpoint(&self, settings: &Map<String, Value>) -> Option<Value> {
        Some(settings::resolved_rules(settings))
    }

    fn own_sandbox(
        &self,
        settings: &Map<String, Value>,
    ) -> Result<Option<OwnSandbox>, (String, String)> {
        own_sandbox::sandbox_spec(settings, &self.programs, self.limits)
    }

    fn exit_timeout(&self) -> Option<Duration> {
        Some(self.limits.exit_timeout() + CLEANUP_TIMEOUT)
    }

    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop> {
        let brief = session.brief().clone();
        let settings =
            Settings::from_resolved(&brief.settings).map_err(own_sandbox::setup_fault)?;
        let place = own_sandbox::sandbox_handle(session)?;
        let announced = brief.announced_budget.as_ref().and_then(Announced::from_budget);
        let prompt = prompt::render(prompt::TASK_TEMPLATE, &brief, announced.as_ref());
        let prompt = prompt.map_err(own_sandbox::setup_fault)?;
        let listener = place.bind_listener().await;
        let listener = listener.map_err(|error| error.to_fault("the tool server"))?;
        let mut env = own_sandbox::environment_variables(&brief, &settings.program_settings)?;
        let url = format!("http://127.0.0.1:{}{}", listener.port(), server::SERVER_PATH);
        env.push(("PROCTOR_MCP_URL".to_owned(), url));
        let (calls, asked) = mpsc::channel(MAX_QUEUED_CALLS);
        let tools = ToolServer::new(&self.tools.specs(), calls);
        let _serving = server::serve(listener, tools, self.limits.line_bytes);

        let mut command = agent::program_command(&settings.command, &env);
        command.stdin = prompt.into_bytes();
        command.head_cap = self.limits.stderr_bytes;
        let mut running = pin!(place.run(command));
        let mut watch = Watchdog::new(self.limits, settings.idle_seconds);
        let mut peer = McpProtocol {
            program: running.as_mut(),
            calls: asked,
            tools: self.tools.open(session),
            limits: self.limits,
            call_count: 0,
            output: None,
        };
        let end = conversation::run(&mut peer, &mut watch, session).await;
        let done = peer.output.take();
        // From now on, calls get the response that the trial is over.
        drop(peer);
        if !matches!(end, Err(EarlyEnd::Stop(_))) {
            own_sandbox::kill_commands(session.sandbox()).await;
        }
        let end = match end {
            Ok(end) => end,
            Err(EarlyEnd::SandboxLost(error)) => {
                return own_sandbox::finish_after_sandbox_loss(&place, error).await;
            }
            Err(EarlyEnd::Stop(stop)) => return Err(stop),
        };
        // If the program had to be killed, there is no output.
        let done = done.unwrap_or_default();
        for (name, stream) in [("stdout.log", &done.stdout), ("stderr.log", &done.stderr)] {
            session.store_evidence(name, &stream.head).await?;
        }
        Ok(end)
    }
}

/// The program and the tool calls that it makes.
struct McpProtocol<'a> {
    program: RunningProgram<'a>,
    calls: mpsc::Receiver<Call>,
    tools: TrialTools,
    limits: &'static Limits,
    /// Number of calls so far in the trial. The calls' ids are based on it.
    call_count: u64,
    /// The output of the program, once it has exited.
    output: Option<CommandOutput>,
}

/// An event from the program.
enum Event {
    Exited(Box<Result<CommandOutput, SandboxError>>),
    Called(Call),
}

#[async_trait]
impl Protocol for McpProtocol<'_> {
    type Event = Event;

    async fn next(&mut self) -> Result<Event, EarlyEnd> {
        Ok(tokio::select! {
            done = self.program.as_mut() => Event::Exited(Box::new(done)),
            Some(call) = self.calls.recv() => Event::Called(call),
        })
    }

    async fn handle(
        &mut self,
        event: Event,
        watch: &mut Watchdog,
        session: &mut dyn Session,
    ) -> Result<Option<Finish>, EarlyEnd> {
        let Call { name, arguments, response_sender: shown } = match event {
            Event::Exited(done) => return self.handle_exit(*done, session).map(Some),
            Event::Called(call) => call,
        };
        watch.count_request(&session.traffic());
        if let Some(end) = watch.detect_loop("call", "its last request to the model") {
            return Ok(Some(end));
        }
        self.call_count += 1;
        let id = format!("call-{}", self.call_count);
        let call = ToolCall { id, name, arguments: arguments.to_string() };
        let called = tokio::select! {
            called = self.tools.call(session, &call) => called?,
            // Cancel a call if the program has exited, because the program no longer waits for the
            // response.
            done = self.program.as_mut() => return self.handle_exit(done, session).map(Some),
        };
        watch.note_activity();
        // This fails if the client has stopped waiting. Ignore that.
        let _ = shown.send(called.shown_output);
        // After a submission, end the trial at once. Otherwise, the program would continue to call
        // the model.
        Ok(called.is_submitted.then_some(Finish::Submitted))
    }

    async fn shut_down(&mut self) -> Finish {
        // From now on, calls get the response that the trial is over.
        self.calls.close();
        while self.calls.try_recv().is_ok() {}
        let done = timeout(self.limits.exit_timeout(), self.program.as_mut()).await;
        self.output = done.ok().and_then(Result::ok);
        agent_exit(ExitCause::Finished, "it was still running when the trial ended".into())
    }

    /// Returns what the program wrote to stderr. Empty until the program has exited.
    fn stderr(&self) -> Vec<u8> {
        Vec::new()
    }
}

impl McpProtocol<'_> {
    /// Returns how the trial ended if the program has exited.
    fn handle_exit(
        &mut self,
        result: Result<CommandOutput, SandboxError>,
        session: &dyn Session,
    ) -> Result<Finish, EarlyEnd> {
        let done = result.map_err(EarlyEnd::SandboxLost)?;
        let last = session.traffic().last_response;
        let end = finish_after_exit(&done.exit, last.as_ref(), &done.stderr.head);
        let end = upgrade_to_submission(end, &done.exit, last.as_ref());
        self.output = Some(done);
        Ok(end)
    }
}
