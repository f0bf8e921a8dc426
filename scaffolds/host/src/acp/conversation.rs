//! The conversation with an agent: Proctor's requests to the agent, the agent's requests to
//! Proctor, and how the conversation ends.

use std::collections::VecDeque;

use async_trait::async_trait;
use proctor_sandbox_api::wire::CommandExit;
use proctor_scaffold_api::{Finish, Session, Stop};
use proctor_types::{ExitCause, ModelResponse};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{client::AcpClient, terminals::TerminalExit};
use crate::{
    agent::{Agent, AgentEvent},
    conversation::{self, Protocol, Watchdog},
    ending::{agent_exit, with_last_line},
    limits::Limits,
    own_sandbox::EarlyEnd,
    rpc::{self, RpcError, RpcMessage, TRIAL_OVER},
};

/// The version of the Agent Client Protocol that Proctor supports.
pub(super) const PROTOCOL: u64 = 1;
/// The protocol's error code if the agent requires a login first.
const AUTH_REQUIRED: i64 = -32000;

/// Proctor's request to the agent that is waiting for a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Initialize,
    Authenticate,
    NewSession,
    Prompt,
}

pub(super) struct AcpConversation {
    limits: &'static Limits,
    prompt: String,
    stage: Stage,
    /// The id of the request that Proctor is waiting for.
    request_id: u64,
    /// The login methods that the agent offers.
    login_methods: Vec<String>,
    session_id: Value,
    client: AcpClient,
}

/// The agent, and the state of the conversation with it.
struct AcpProtocol<'a> {
    conversation: &'a mut AcpConversation,
    agent: &'a mut Agent,
}

/// An event from the agent.
enum Event {
    Agent(AgentEvent),
    /// A command that the agent started has exited.
    Terminal(TerminalExit),
}

#[async_trait]
impl Protocol for AcpProtocol<'_> {
    type Event = Event;

    async fn next(&mut self) -> Result<Event, EarlyEnd> {
        tokio::select! {
            heard = self.agent.next_event() => heard.map(Event::Agent).map_err(EarlyEnd::SandboxLost),
            done = self.conversation.client.terminals.next_exit() => Ok(Event::Terminal(done)),
        }
    }

    async fn handle(
        &mut self,
        event: Event,
        watch: &mut Watchdog,
        session: &mut dyn Session,
    ) -> Result<Option<Finish>, EarlyEnd> {
        Ok(self.conversation.handle(self.agent, event, watch, session).await?)
    }

    async fn shut_down(&mut self) -> Finish {
        self.conversation.cancel(self.agent).await
    }

    fn is_busy(&self) -> bool {
        self.conversation.client.terminals.has_running()
    }

    fn stderr(&self) -> Vec<u8> {
        self.agent.stderr()
    }
}

impl AcpConversation {
    pub(super) fn new(limits: &'static Limits, prompt: String) -> Self {
        Self {
            limits,
            prompt,
            stage: Stage::Initialize,
            request_id: 0,
            login_methods: Vec::new(),
            session_id: Value::Null,
            client: AcpClient::new(limits),
        }
    }

    pub(super) async fn run(
        &mut self,
        agent: &mut Agent,
        watch: &mut Watchdog,
        session: &mut dyn Session,
    ) -> Result<Finish, EarlyEnd> {
        let about = json!({
            "protocolVersion": PROTOCOL,
            "clientCapabilities": {
                "fs": { "readTextFile": true, "writeTextFile": true },
                "terminal": true,
            },
            "clientInfo": { "name": "proctor", "version": env!("CARGO_PKG_VERSION") },
        });
        self.send_request(agent, Stage::Initialize, about);
        let mut peer = AcpProtocol { conversation: &mut *self, agent: &mut *agent };
        let end = conversation::run(&mut peer, watch, session).await?;
        if let Some(note) = self.client.updates.flush() {
            session.note(note).await?;
        }
        Ok(end)
    }

    async fn handle(
        &mut self,
        agent: &mut Agent,
        event: Event,
        watch: &mut Watchdog,
        session: &mut dyn Session,
    ) -> Result<Option<Finish>, Stop> {
        let line = match event {
            Event::Agent(AgentEvent::Line(line)) => line,
            Event::Agent(AgentEvent::TooLong) => return Ok(Some(watch.finish_for_long_line())),
            Event::Agent(AgentEvent::Exited(exit)) => {
                return Ok(Some(finish_after_early_exit(&exit, agent)));
            }
            Event::Terminal(done) => {
                watch.note_activity();
                self.client.handle_terminal_exit(agent, session, done).await?;
                return Ok(None);
            }
        };
        match RpcMessage::parse(&line) {
            Ok(RpcMessage::Request { id, method, params }) => {
                // If the agent has exited, don't run a request that could change the tree, because
                // nothing would read the response.
                if agent.has_exited() {
                    return Ok(None);
                }
                watch.count_request(&session.traffic());
                let reply =
                    self.client.handle_request(agent, session, &id, &method, params).await?;
                let Some(reply) = reply else { return Ok(None) };
                watch.record_response(reply.is_err());
                agent.send(&rpc::reply(&id, reply));
                Ok(watch.detect_loop("request", "its last request to the model"))
            }
            Ok(RpcMessage::Notification { method, params }) if method == "session/update" => {
                for note in self.client.updates.add_update(&params["update"]) {
                    session.note(note).await?;
                }
                Ok(None)
            }
            // Ignore notifications from later protocol versions and extensions: they need no
            // response.
            Ok(RpcMessage::Notification { .. }) => Ok(None),
            Ok(RpcMessage::Response { id, result }) => {
                watch.note_activity();
                Ok(self.handle_response(agent, session, &id, result))
            }
            Err(wrong) => {
                let end = watch.count_invalid_line(&line);
                if end.is_none() {
                    agent.send(&wrong);
                }
                Ok(end)
            }
        }
    }

    fn send_request(&mut self, agent: &mut Agent, stage: Stage, params: Value) {
        let method = match stage {
            Stage::Initialize => "initialize",
            Stage::Authenticate => "authenticate",
            Stage::NewSession => "session/new",
            Stage::Prompt => "session/prompt",
        };
        (self.stage, self.request_id) = (stage, self.request_id + 1);
        agent.send(&rpc::request(self.request_id, method, params));
    }

    fn open_session(&mut self, agent: &mut Agent, session: &dyn Session) {
        let cwd = &session.brief().workdir;
        self.send_request(agent, Stage::NewSession, json!({ "cwd": cwd, "mcpServers": [] }));
    }

    /// Handles the response to a request from Proctor: sends the next request or ends the
    /// conversation.
    fn handle_response(
        &mut self,
        agent: &mut Agent,
        session: &dyn Session,
        id: &Value,
        result: Result<Value, Value>,
    ) -> Option<Finish> {
        if *id != json!(self.request_id) {
            let why = "it responded to a request that was not made".to_owned();
            return Some(agent_exit(ExitCause::Crashed, why));
        }
        let result = match (self.stage, result) {
            (_, Ok(result)) => result,
            (Stage::NewSession, Err(error))
                if error["code"] == json!(AUTH_REQUIRED) && !self.login_methods.is_empty() =>
            {
                // Choose a login method that uses a key: the API key is in the agent's environment,
                // under whatever name the agent expects. The first method in the list might open a
                // browser.
                let by_key = |login: &&String| login.contains("key") || login.contains("api");
                let login = self
                    .login_methods
                    .iter()
                    .find(by_key)
                    .unwrap_or(&self.login_methods[0])
                    .clone();
                self.login_methods.clear();
                self.send_request(agent, Stage::Authenticate, json!({ "methodId": login }));
                return None;
            }
            (stage, Err(error)) => {
                let said = error["message"].as_str().unwrap_or("no message").chars();
                let said: String = said.filter(|c| !c.is_control()).take(300).collect();
                let what = match stage {
                    Stage::Initialize => "initialize",
                    Stage::Authenticate => "authenticate",
                    Stage::NewSession => "session/new",
                    Stage::Prompt => "session/prompt",
                };
                let why = format!("it responded to `{what}` with an error: {said}");
                return Some(agent_exit(ExitCause::Crashed, with_last_line(why, &agent.stderr())));
            }
        };
        match self.stage {
            Stage::Initialize => {
                if result["protocolVersion"] != json!(PROTOCOL) {
                    let why = format!(
                        "it uses protocol version {}, but Proctor uses version {PROTOCOL}",
                        result["protocolVersion"]
                    );
                    return Some(agent_exit(ExitCause::Crashed, why));
                }
                let methods = result["authMethods"].as_array();
                let ids = methods.into_iter().flatten().filter_map(|one| one["id"].as_str());
                self.login_methods = ids.map(str::to_owned).collect();
                self.open_session(agent, session);
            }
            Stage::Authenticate => self.open_session(agent, session),
            Stage::NewSession => {
                self.session_id = result["sessionId"].clone();
                let text = std::mem::take(&mut self.prompt);
                let prompt = json!([{ "type": "text", "text": text }]);
                let params = json!({ "sessionId": self.session_id, "prompt": prompt });
                self.send_request(agent, Stage::Prompt, params);
            }
            Stage::Prompt => {
                let reason = result["stopReason"].as_str().unwrap_or("no reason");
                return Some(finish_after_turn(reason, session.traffic().last_response.as_ref()));
            }
        }
        None
    }

    /// Tells the agent that the trial is over and gives it time to exit. Rejects its requests.
    async fn cancel(&mut self, agent: &mut Agent) -> Finish {
        self.client.terminals.kill_all();
        let params = json!({ "sessionId": self.session_id });
        agent.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }));
        let mut left: VecDeque<Value> = VecDeque::new();
        let leaving = async {
            loop {
                while let Some(id) = left.pop_front() {
                    let error = RpcError::new(TRIAL_OVER, "the trial is over");
                    agent.send(&rpc::reply(&id, Err(error)));
                }
                match agent.next_event().await {
                    Ok(AgentEvent::Line(line)) => match RpcMessage::parse(&line) {
                        Ok(RpcMessage::Request { id, method, .. })
                            if method == "session/request_permission" =>
                        {
                            let outcome = json!({ "outcome": { "outcome": "cancelled" } });
                            agent.send(&rpc::reply(&id, Ok(outcome)));
                        }
                        Ok(RpcMessage::Request { id, .. }) => left.push_back(id),
                        Ok(RpcMessage::Response { .. }) => return,
                        Ok(RpcMessage::Notification { .. }) | Err(_) => {}
                    },
                    // It does not matter for the result how the agent exits.
                    Ok(AgentEvent::TooLong | AgentEvent::Exited(_)) | Err(_) => return,
                }
            }
        };
        let _ = timeout(self.limits.exit_timeout(), leaving).await;
        agent_exit(ExitCause::Finished, "it was still running when the trial ended".into())
    }
}

/// Returns how the trial ended if the program exited before its turn ended.
fn finish_after_early_exit(exit: &CommandExit, agent: &Agent) -> Finish {
    let status = proctor_sandbox_api::describe_exit(exit);
    let why = format!("it ended with {status} before its turn ended");
    agent_exit(ExitCause::Crashed, with_last_line(why, &agent.stderr()))
}

/// Returns how the trial ended if the agent ended its turn for this reason.
fn finish_after_turn(reason: &str, last_response: Option<&ModelResponse>) -> Finish {
    let Some(last) = last_response else {
        let why = format!("it ended its turn ({reason}) before any response from the model");
        return agent_exit(ExitCause::Crashed, why);
    };
    let empty = last.content.trim().is_empty() && last.tool_calls.is_empty();
    match reason {
        "end_turn" if empty => {
            agent_exit(ExitCause::EmptyTurn, "it ended its turn after an empty response".into())
        }
        "end_turn" => Finish::Submitted,
        _ => {
            let shown: String = reason.chars().filter(|c| !c.is_control()).take(80).collect();
            agent_exit(ExitCause::Finished, format!("it ended its turn with `{shown}`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::Usage;
    use serde_json::Map;

    use super::*;

    #[test]
    fn acp_end_of_turn_submits_only_after_a_response() {
        let answer = |content: &str| ModelResponse {
            content: content.into(),
            tool_calls: Vec::new(),
            extra: Map::new(),
            native: None,
            finish_reason: None,
            refused: false,
            usage: Usage::default(),
            cost_usd: None,
        };
        let cause =
            |reason: &str, last: Option<&ModelResponse>| match finish_after_turn(reason, last) {
                Finish::Submitted => None,
                Finish::Exited { cause, .. } => Some(cause),
            };
        assert_eq!(cause("end_turn", Some(&answer("Done."))), None);
        assert_eq!(cause("end_turn", Some(&answer(" "))), Some(ExitCause::EmptyTurn));
        assert_eq!(cause("end_turn", None), Some(ExitCause::Crashed));
        assert_eq!(cause("max_tokens", Some(&answer("x"))), Some(ExitCause::Finished));
    }
}
