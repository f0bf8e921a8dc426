//! The scaffold `process`: which requests a user's program may send, and their limits.

use std::time::Duration;

use async_trait::async_trait;
use proctor_scaffold_api::{
    AnnouncedLimits as Announced, Finish, OwnSandbox, Scaffold, Session, SettingError, Stop,
};
use proctor_scaffolds::{ToolSet, TrialTools};
use proctor_types::{
    BudgetScope, ExitCause, Fault, FaultCause, FaultLayer, Message as Said, ModelRequest,
    ModelResponse, ToolCall, ToolSpec,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    actions::{self, ActionResult},
    agent::{self, Agent, AgentEvent},
    conversation::{self, Protocol, Watchdog},
    ending::{agent_exit, finish_after_exit},
    limits::{self, Limits},
    own_sandbox::{self, EarlyEnd},
    program::ProgramStore,
    rpc::{
        self, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError, RpcMessage, TRIAL_OVER,
    },
    settings::{self, ModelAccess, Settings},
};

/// The version of the protocol. Increment it with a change that requires existing programs to
/// change.
pub(crate) const PROTOCOL: u64 = 1;
/// The id of the only request that Proctor sends to the program.
const INITIALIZE_ID: u64 = 0;
/// The method that the program calls to request a response from the model.
const ASK_METHOD: &str = "model/ask";

/// A user's program that communicates through its standard input and output.
#[derive(Debug)]
pub struct Process {
    programs: ProgramStore,
    tools: ToolSet,
    limits: &'static Limits,
}

impl Process {
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
impl Scaffold for Process {
    fn name(&self) -> &'static str {
        "process"
    }

    fn factors(&self) -> Value {
        json!({ "protocol": PROTOCOL, "limits": limits::LIMITS_TOML, "tools": self.tools.factors() })
    }

    fn resolve_settings(
        &self,
        arm_settings: &Map<String, Value>,
    ) -> Result<Map<String, Value>, SettingError> {
        settings::resolve_settings(self.name(), ModelAccess::Proctor, arm_settings, &self.programs)
    }

    fn needs_model(&self) -> bool {
        true
    }

    fn own_sandbox(
        &self,
        settings: &Map<String, Value>,
    ) -> Result<Option<OwnSandbox>, (String, String)> {
        own_sandbox::sandbox_spec(settings, &self.programs, self.limits)
    }

    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop> {
        let wrong = |what: String| {
            Stop::Fault(Fault::new(FaultLayer::Setup, what).cause(FaultCause::Invalid))
        };
        let settings = Settings::from_resolved(&session.brief().settings).map_err(wrong)?;
        let conversation = ConversationConfig {
            limits: self.limits,
            tools: &self.tools,
            command: settings.command,
            env: Vec::new(),
            idle_seconds: settings.idle_seconds,
            program_settings: &settings.program_settings,
        };
        run_program(session, conversation).await
    }
}

/// The configuration of the conversation with a program.
pub(crate) struct ConversationConfig<'a> {
    pub(crate) limits: &'static Limits,
    pub(crate) tools: &'a ToolSet,
    pub(crate) command: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) idle_seconds: f64,
    /// The program's own settings.
    pub(crate) program_settings: &'a Map<String, Value>,
}

/// Starts the program in its own sandbox, and handles its requests until the trial ends.
pub(crate) async fn run_program(
    session: &mut dyn Session,
    config: ConversationConfig<'_>,
) -> Result<Finish, Stop> {
    let place = own_sandbox::sandbox_handle(session)?;
    let starting =
        Agent::start(&place, agent::program_command(&config.command, &config.env), config.limits);
    let mut agent = starting.map_err(|error| error.to_fault("starting the agent"))?;
    let mut watch = Watchdog::new(config.limits, config.idle_seconds);
    let mut talk = ProcessProtocol {
        agent: &mut agent,
        limits: config.limits,
        tools: config.tools.open(session),
        specs: config.tools.specs(),
        state: Handshake::AwaitingGreeting,
        last_response: None,
        call_count: 0,
        log_count: 0,
    };
    let first = talk.initialize_params(session, config.program_settings);
    talk.agent.send(&rpc::request(INITIALIZE_ID, "initialize", first));
    let end = conversation::run(&mut talk, &mut watch, session).await;
    own_sandbox::finish_conversation(end, &place, &mut agent, session).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handshake {
    /// Proctor is waiting for the response to `initialize`.
    AwaitingGreeting,
    Open,
}

struct ProcessProtocol<'a> {
    agent: &'a mut Agent,
    limits: &'static Limits,
    tools: TrialTools,
    specs: Vec<ToolSpec>,
    state: Handshake,
    last_response: Option<ModelResponse>,
    /// Number of calls so far in the trial. A call that has no id gets one based on it.
    call_count: u64,
    log_count: u32,
}

/// The outcome of a request from the program.
enum RequestOutcome {
    Continues(Result<Value, RpcError>),
    /// A response, after which the trial ends.
    Ends(Result<Value, RpcError>, Result<Finish, Stop>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskParams {
    messages: Vec<Said>,
    #[serde(default)]
    tools: Option<Vec<ToolSpec>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallParams {
    #[serde(default)]
    id: Option<String>,
    name: String,
    #[serde(default)]
    arguments: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FinishParams {
    #[serde(default = "default_true")]
    submit: bool,
    #[serde(default)]
    why: Option<String>,
}

fn default_true() -> bool {
    true
}

#[async_trait]
impl Protocol for ProcessProtocol<'_> {
    type Event = AgentEvent;

    async fn next(&mut self) -> Result<AgentEvent, EarlyEnd> {
        self.agent.next_event().await.map_err(EarlyEnd::SandboxLost)
    }

    async fn handle(
        &mut self,
        event: AgentEvent,
        watch: &mut Watchdog,
        session: &mut dyn Session,
    ) -> Result<Option<Finish>, EarlyEnd> {
        let line = match event {
            AgentEvent::Line(line) => line,
            AgentEvent::TooLong => return Ok(Some(watch.finish_for_long_line())),
            AgentEvent::Exited(status) => {
                // The last response may have gone to the agent's own client instead.
                let last = self.last_response.take().or_else(|| session.traffic().last_response);
                return Ok(Some(finish_after_exit(&status, last.as_ref(), &self.agent.stderr())));
            }
        };
        match RpcMessage::parse(&line) {
            Ok(RpcMessage::Request { id, method, params }) => {
                // If the agent has exited, don't run a request that costs money or changes the
                // tree, because nothing would read the response.
                if self.agent.has_exited() && method != "finish" {
                    return Ok(None);
                }
                let replied = self.handle_request(session, &method, params).await?;
                let (reply, end) = match replied {
                    RequestOutcome::Continues(reply) => (reply, None),
                    RequestOutcome::Ends(reply, end) => (reply, Some(end)),
                };
                let is_error = reply.is_err();
                self.agent.send(&rpc::reply(&id, reply));
                if let Some(end) = end {
                    wait_for_exit(self.agent, &end, self.limits.exit_timeout()).await;
                    return end.map(Some).map_err(EarlyEnd::Stop);
                }
                if method == ASK_METHOD && !is_error {
                    watch.note_model_response();
                }
                watch.count_request(&session.traffic());
                watch.record_response(is_error);
                Ok(watch.detect_loop("request", "the model's last response"))
            }
            Ok(RpcMessage::Notification { method, params }) => {
                self.handle_notification(session, &method, &params).await?;
                Ok(None)
            }
            Ok(RpcMessage::Response { id, result }) => {
                match self.handle_initialize_response(&id, result) {
                    Ok(()) => {
                        watch.note_activity();
                        Ok(None)
                    }
                    Err(why) => Ok(Some(agent_exit(ExitCause::Crashed, why))),
                }
            }
            Err(wrong) => {
                let end = watch.count_invalid_line(&line);
                if end.is_none() {
                    self.agent.send(&wrong);
                }
                Ok(end)
            }
        }
    }

    fn is_notified_of_trial_end(&self) -> bool {
        false
    }

    fn stderr(&self) -> Vec<u8> {
        self.agent.stderr()
    }
}

impl ProcessProtocol<'_> {
    fn initialize_params(
        &self,
        session: &dyn Session,
        program_settings: &Map<String, Value>,
    ) -> Value {
        let brief = session.brief();
        json!({
            "protocol": PROTOCOL,
            "task": { "statement": brief.statement.trim(), "workdir": brief.workdir },
            "model": brief.model,
            "context_window": brief.context_window,
            "limits": brief.announced_budget.as_ref().and_then(Announced::from_budget),
            "command_seconds": brief.command_timeout.as_secs_f64(),
            "tools": self.specs,
            "settings": program_settings,
        })
    }

    /// Handles the response to `initialize`.
    fn handle_initialize_response(
        &mut self,
        id: &Value,
        result: Result<Value, Value>,
    ) -> Result<(), String> {
        if self.state != Handshake::AwaitingGreeting || *id != json!(INITIALIZE_ID) {
            return Err("it responded to a request that was not made".into());
        }
        match result {
            Ok(result) if result["protocol"] == json!(PROTOCOL) => {
                self.state = Handshake::Open;
                Ok(())
            }
            Ok(_) => {
                Err(format!("it did not respond to `initialize` with \"protocol\": {PROTOCOL}"))
            }
            Err(error) => {
                let said = error["message"].as_str().unwrap_or("no message").chars();
                Err(format!("it rejected `initialize`: {}", said.take(300).collect::<String>()))
            }
        }
    }

    async fn handle_request(
        &mut self,
        session: &mut dyn Session,
        method: &str,
        params: Value,
    ) -> Result<RequestOutcome, Stop> {
        if self.state == Handshake::AwaitingGreeting {
            let what = "respond to `initialize` first: {\"result\": {\"protocol\": 1}}";
            return Ok(RequestOutcome::Continues(Err(RpcError::new(INVALID_REQUEST, what))));
        }
        self.call_count += 1;
        let call_id = format!("request-{}", self.call_count);
        let replied = match method {
            ASK_METHOD => return self.ask_model(session, params).await,
            "tool/call" => return self.call_tool(session, &call_id, params).await,
            "finish" => return Ok(finish_trial(params)),
            "sandbox/exec" => match rpc::parse_params(params) {
                Ok(asked) => actions::run_command(session, &call_id, asked, self.limits).await,
                Err(error) => Ok(Err(error)),
            },
            "sandbox/read" => match rpc::parse_params(params) {
                Ok(asked) => actions::read_file(session, &call_id, asked, self.limits).await,
                Err(error) => Ok(Err(error)),
            },
            "sandbox/write" => match rpc::parse_params(params) {
                Ok(asked) => actions::write_file(session, &call_id, asked, self.limits).await,
                Err(error) => Ok(Err(error)),
            },
            _ => {
                let shown: String = method.chars().take(80).collect();
                let known =
                    "model/ask, tool/call, sandbox/exec, sandbox/read, sandbox/write, finish";
                let what = format!("unknown method `{shown}`; methods: {known}");
                Ok(Err(RpcError::new(METHOD_NOT_FOUND, what)))
            }
        };
        to_request_outcome(replied)
    }

    async fn ask_model(
        &mut self,
        session: &mut dyn Session,
        params: Value,
    ) -> Result<RequestOutcome, Stop> {
        let asked: AskParams = match rpc::parse_params(stringify_arguments(params)) {
            Ok(asked) => asked,
            Err(error) => return Ok(RequestOutcome::Continues(Err(error))),
        };
        if asked.messages.is_empty() {
            let error = RpcError::new(INVALID_PARAMS, "params: `messages`: must not be empty");
            return Ok(RequestOutcome::Continues(Err(error)));
        }
        let tools = asked.tools.unwrap_or_else(|| self.specs.clone());
        match session.ask(&ModelRequest { messages: asked.messages, tools }).await {
            Ok(answer) => {
                let mut told = json!({
                    "content": answer.content,
                    "tool_calls": answer.tool_calls,
                    "extra": answer.extra,
                    "finish_reason": answer.finish_reason,
                    "usage": answer.usage,
                });
                // The turn in the endpoint's own format. The agent must send it back.
                if let Some(native) = &answer.native {
                    told["native"] = json!(native);
                }
                self.last_response = Some(answer);
                Ok(RequestOutcome::Continues(Ok(told)))
            }
            Err(stop) => to_request_outcome(Err(stop)),
        }
    }

    async fn call_tool(
        &mut self,
        session: &mut dyn Session,
        call_id: &str,
        params: Value,
    ) -> Result<RequestOutcome, Stop> {
        let CallParams { id, name, arguments } = match rpc::parse_params(params) {
            Ok(call) => call,
            Err(error) => return Ok(RequestOutcome::Continues(Err(error))),
        };
        let arguments = match arguments {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let call = ToolCall { id: id.unwrap_or_else(|| call_id.to_owned()), name, arguments };
        let called = match self.tools.call(session, &call).await {
            Ok(called) => called,
            Err(stop) => return to_request_outcome(Err(stop)),
        };
        let told = json!({
            "output": called.shown_output,
            "exit_status": called.exit_status,
            "submitted": called.is_submitted,
        });
        Ok(match called.is_submitted {
            true => RequestOutcome::Ends(Ok(told), Ok(Finish::Submitted)),
            false => RequestOutcome::Continues(Ok(told)),
        })
    }

    async fn handle_notification(
        &mut self,
        session: &mut dyn Session,
        method: &str,
        params: &Value,
    ) -> Result<(), Stop> {
        // Ignore other notifications: they come from a later protocol version and need no response.
        if method != "log" || self.log_count >= self.limits.log_texts {
            return Ok(());
        }
        self.log_count += 1;
        let text = match &params["text"] {
            Value::String(text) => text.clone(),
            _ => params.to_string(),
        };
        let mut end = text.len().min(self.limits.log_bytes);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        session.note(Map::from_iter([("agent_log".to_owned(), text[..end].into())])).await
    }
}

/// Converts a [`Stop`] to a response and an ending. A fault or an interruption gets no response.
fn to_request_outcome(result: ActionResult) -> Result<RequestOutcome, Stop> {
    let stop = match result {
        Ok(reply) => return Ok(RequestOutcome::Continues(reply)),
        Err(stop) => stop,
    };
    let told = |scope: BudgetScope, kind: proctor_types::BudgetKind| {
        let what = format!("the trial is over: it reached the limit on {kind}");
        let data = json!({ "reason": "budget", "kind": kind, "scope": scope });
        RpcError::new(TRIAL_OVER, what).data(data)
    };
    let error = match &stop {
        Stop::Budget(kind) => told(BudgetScope::Trial, *kind),
        Stop::SharedBudget(scope, kind) => told(*scope, *kind),
        Stop::Refused(why) => {
            let what =
                format!("the trial is over: the model's endpoint refused the request: {why}");
            RpcError::new(TRIAL_OVER, what).data(json!({ "reason": "refused" }))
        }
        Stop::Fault(_) | Stop::Cancelled => return Err(stop),
    };
    Ok(RequestOutcome::Ends(Err(error), Err(stop)))
}

fn finish_trial(params: Value) -> RequestOutcome {
    match rpc::parse_params::<FinishParams>(params) {
        Ok(FinishParams { submit: true, .. }) => {
            RequestOutcome::Ends(Ok(json!({})), Ok(Finish::Submitted))
        }
        Ok(FinishParams { submit: false, why }) => {
            let why: String = why.unwrap_or_else(|| "gave up".into()).chars().take(300).collect();
            RequestOutcome::Ends(Ok(json!({})), Ok(agent_exit(ExitCause::Finished, why)))
        }
        Err(error) => RequestOutcome::Continues(Err(error)),
    }
}

/// Waits until the agent has exited or the time is up. Rejects the agent's requests meanwhile.
async fn wait_for_exit(agent: &mut Agent, end: &Result<Finish, Stop>, timeout: Duration) {
    let reason = match end {
        Ok(_) => json!({ "reason": "finished" }),
        Err(Stop::Refused(_)) => json!({ "reason": "refused" }),
        Err(_) => json!({ "reason": "budget" }),
    };
    let refusing = async {
        loop {
            match agent.next_event().await {
                Ok(AgentEvent::Line(line)) => {
                    if let Ok(RpcMessage::Request { id, .. }) = RpcMessage::parse(&line) {
                        let error =
                            RpcError::new(TRIAL_OVER, "the trial is over").data(reason.clone());
                        agent.send(&rpc::reply(&id, Err(error)));
                    }
                }
                // It does not matter for the result how the agent exits.
                Ok(AgentEvent::TooLong | AgentEvent::Exited(_)) | Err(_) => return,
            }
        }
    };
    let _ = tokio::time::timeout(timeout, refusing).await;
}

/// Converts a call's arguments to text, as the model wrote them, because the agent may have parsed
/// them.
fn stringify_arguments(mut params: Value) -> Value {
    let messages = params.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            if let Some(arguments) = call.get_mut("arguments")
                && arguments.is_object()
            {
                *arguments = arguments.to_string().into();
            }
        }
    }
    params
}
