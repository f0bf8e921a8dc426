//! The conversation with an agent: Proctor's requests to the agent, the handling of the agent's
//! requests, and the end of the conversation.

use std::collections::VecDeque;

use async_trait::async_trait;
use proctor_sandbox_api::wire::Exited;
use proctor_scaffold_api::{Finish, Session, Stop};
use proctor_types::{Answer, ExitCause};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{client::Client, terminals::Ended};
use crate::{
    agent::{Agent, AgentEvent},
    conversation::{self, Protocol, Watch},
    ending::{ended, with_words},
    limits::Limits,
    own::End,
    rpc::{self, Error, Message, OVER},
};

/// The supported version of the Agent Client Protocol.
pub(super) const PROTOCOL: u64 = 1;
/// The protocol's error code for an agent that requires a login first.
const LOGIN: i64 = -32000;

/// Proctor's pending request to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Initialize,
    Authenticate,
    NewSession,
    Prompt,
}

pub(super) struct Talk {
    limits: &'static Limits,
    prompt: String,
    stage: Stage,
    /// The id of Proctor's pending request.
    number: u64,
    /// The login methods that the agent offers.
    logins: Vec<String>,
    session_id: Value,
    client: Client,
}

/// The agent and the state of the conversation with it.
struct Peer<'a> {
    talk: &'a mut Talk,
    agent: &'a mut Agent,
}

/// An event from the agent.
enum Event {
    Agent(AgentEvent),
    /// A command started by the agent has exited.
    Terminal(Ended),
}

#[async_trait]
impl Protocol for Peer<'_> {
    type Event = Event;

    async fn next(&mut self) -> Result<Event, End> {
        tokio::select! {
            heard = self.agent.next() => heard.map(Event::Agent).map_err(End::Broken),
            done = self.talk.client.terminals.next() => Ok(Event::Terminal(done)),
        }
    }

    async fn handle(
        &mut self,
        event: Event,
        watch: &mut Watch,
        session: &mut dyn Session,
    ) -> Result<Option<Finish>, End> {
        Ok(self.talk.handle(self.agent, event, watch, session).await?)
    }

    async fn leave(&mut self) -> Finish {
        self.talk.cancel(self.agent).await
    }

    fn is_busy(&self) -> bool {
        self.talk.client.terminals.busy()
    }

    fn errors(&self) -> Vec<u8> {
        self.agent.errors()
    }
}

impl Talk {
    pub(super) fn new(limits: &'static Limits, prompt: String) -> Self {
        Self {
            limits,
            prompt,
            stage: Stage::Initialize,
            number: 0,
            logins: Vec::new(),
            session_id: Value::Null,
            client: Client::new(limits),
        }
    }

    pub(super) async fn run(
        &mut self,
        agent: &mut Agent,
        watch: &mut Watch,
        session: &mut dyn Session,
    ) -> Result<Finish, End> {
        let about = json!({
            "protocolVersion": PROTOCOL,
            "clientCapabilities": {
                "fs": { "readTextFile": true, "writeTextFile": true },
                "terminal": true,
            },
            "clientInfo": { "name": "proctor", "version": env!("CARGO_PKG_VERSION") },
        });
        self.ask(agent, Stage::Initialize, about);
        let mut peer = Peer { talk: &mut *self, agent: &mut *agent };
        let end = conversation::run(&mut peer, watch, session).await?;
        if let Some(note) = self.client.updates.end() {
            session.note(note).await?;
        }
        Ok(end)
    }

    async fn handle(
        &mut self,
        agent: &mut Agent,
        event: Event,
        watch: &mut Watch,
        session: &mut dyn Session,
    ) -> Result<Option<Finish>, Stop> {
        let line = match event {
            Event::Agent(AgentEvent::Line(line)) => line,
            Event::Agent(AgentEvent::TooLong) => return Ok(Some(watch.too_long())),
            Event::Agent(AgentEvent::Exited(exit)) => return Ok(Some(gone(&exit, agent))),
            Event::Terminal(done) => {
                watch.active();
                self.client.terminal_ended(agent, session, done).await?;
                return Ok(None);
            }
        };
        match Message::read(&line) {
            Ok(Message::Request { id, method, params }) => {
                // If the agent has exited, do not run a request that changes the tree: nothing
                // would read the response.
                if agent.has_exited() {
                    return Ok(None);
                }
                watch.count(&session.traffic());
                let reply = self.client.request(agent, session, &id, &method, params).await?;
                let Some(reply) = reply else { return Ok(None) };
                watch.answered(reply.is_err());
                agent.send(&rpc::reply(&id, reply));
                Ok(watch.loops("request", "its last request to the model"))
            }
            Ok(Message::Notice { method, params }) if method == "session/update" => {
                for note in self.client.updates.take(&params["update"]) {
                    session.note(note).await?;
                }
                Ok(None)
            }
            // A notification from a later version or an extension. It needs no response.
            Ok(Message::Notice { .. }) => Ok(None),
            Ok(Message::Answer { id, result }) => {
                watch.active();
                Ok(self.answered(agent, session, &id, result))
            }
            Err(wrong) => {
                let end = watch.wrong_line(&line);
                if end.is_none() {
                    agent.send(&wrong);
                }
                Ok(end)
            }
        }
    }

    fn ask(&mut self, agent: &mut Agent, stage: Stage, params: Value) {
        let method = match stage {
            Stage::Initialize => "initialize",
            Stage::Authenticate => "authenticate",
            Stage::NewSession => "session/new",
            Stage::Prompt => "session/prompt",
        };
        (self.stage, self.number) = (stage, self.number + 1);
        agent.send(&rpc::request(self.number, method, params));
    }

    fn open_session(&mut self, agent: &mut Agent, session: &dyn Session) {
        let cwd = &session.brief().workdir;
        self.ask(agent, Stage::NewSession, json!({ "cwd": cwd, "mcpServers": [] }));
    }

    /// Handles a response to Proctor's request: sends the next request or ends the conversation.
    fn answered(
        &mut self,
        agent: &mut Agent,
        session: &dyn Session,
        id: &Value,
        result: Result<Value, Value>,
    ) -> Option<Finish> {
        if *id != json!(self.number) {
            let why = "it responded to a request that was not made".to_owned();
            return Some(ended(ExitCause::Crashed, why));
        }
        let result = match (self.stage, result) {
            (_, Ok(result)) => result,
            (Stage::NewSession, Err(error))
                if error["code"] == json!(LOGIN) && !self.logins.is_empty() =>
            {
                // The API key is in the agent's environment, whatever the login method is called.
                // The first method may open a browser.
                let by_key = |login: &&String| login.contains("key") || login.contains("api");
                let login = self.logins.iter().find(by_key).unwrap_or(&self.logins[0]).clone();
                self.logins.clear();
                self.ask(agent, Stage::Authenticate, json!({ "methodId": login }));
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
                return Some(ended(ExitCause::Crashed, with_words(why, &agent.errors())));
            }
        };
        match self.stage {
            Stage::Initialize => {
                if result["protocolVersion"] != json!(PROTOCOL) {
                    let why = format!(
                        "it uses protocol version {}, but Proctor uses version {PROTOCOL}",
                        result["protocolVersion"]
                    );
                    return Some(ended(ExitCause::Crashed, why));
                }
                let methods = result["authMethods"].as_array();
                let ids = methods.into_iter().flatten().filter_map(|one| one["id"].as_str());
                self.logins = ids.map(str::to_owned).collect();
                self.open_session(agent, session);
            }
            Stage::Authenticate => self.open_session(agent, session),
            Stage::NewSession => {
                self.session_id = result["sessionId"].clone();
                let text = std::mem::take(&mut self.prompt);
                let prompt = json!([{ "type": "text", "text": text }]);
                let params = json!({ "sessionId": self.session_id, "prompt": prompt });
                self.ask(agent, Stage::Prompt, params);
            }
            Stage::Prompt => {
                let reason = result["stopReason"].as_str().unwrap_or("no reason");
                return Some(turn_ended(reason, session.traffic().answer.as_ref()));
            }
        }
        None
    }

    /// Notifies the agent that the trial is over and gives it time to exit. Its requests are no
    /// longer performed.
    async fn cancel(&mut self, agent: &mut Agent) -> Finish {
        self.client.terminals.stop();
        let params = json!({ "sessionId": self.session_id });
        agent.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }));
        let mut left: VecDeque<Value> = VecDeque::new();
        let leaving = async {
            loop {
                while let Some(id) = left.pop_front() {
                    let error = Error::new(OVER, "the trial is over");
                    agent.send(&rpc::reply(&id, Err(error)));
                }
                match agent.next().await {
                    Ok(AgentEvent::Line(line)) => match Message::read(&line) {
                        Ok(Message::Request { id, method, .. })
                            if method == "session/request_permission" =>
                        {
                            let outcome = json!({ "outcome": { "outcome": "cancelled" } });
                            agent.send(&rpc::reply(&id, Ok(outcome)));
                        }
                        Ok(Message::Request { id, .. }) => left.push_back(id),
                        Ok(Message::Answer { .. }) => return,
                        Ok(Message::Notice { .. }) | Err(_) => {}
                    },
                    // However the agent exits, the result no longer changes.
                    Ok(AgentEvent::TooLong | AgentEvent::Exited(_)) | Err(_) => return,
                }
            }
        };
        let _ = timeout(self.limits.leave(), leaving).await;
        ended(ExitCause::Finished, "the trial had ended".into())
    }
}

/// Returns the ending of a program that exited before its turn ended.
fn gone(exit: &Exited, agent: &Agent) -> Finish {
    let status = proctor_sandbox_api::ending_of(exit);
    let why = format!("it ended with {status} before its turn ended");
    ended(ExitCause::Crashed, with_words(why, &agent.errors()))
}

/// Returns the ending that corresponds to the end of the agent's turn.
fn turn_ended(reason: &str, last: Option<&Answer>) -> Finish {
    let Some(last) = last else {
        let why = format!("it ended its turn ({reason}) before any response from the model");
        return ended(ExitCause::Crashed, why);
    };
    let empty = last.content.trim().is_empty() && last.tool_calls.is_empty();
    match reason {
        "end_turn" if empty => {
            ended(ExitCause::EmptyTurn, "it ended its turn after an empty response".into())
        }
        "end_turn" => Finish::Submitted,
        _ => {
            let shown: String = reason.chars().filter(|c| !c.is_control()).take(80).collect();
            ended(ExitCause::Finished, format!("it ended its turn with `{shown}`"))
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
        let answer = |content: &str| Answer {
            content: content.into(),
            tool_calls: Vec::new(),
            extra: Map::new(),
            native: None,
            finish_reason: None,
            refused: false,
            usage: Usage::default(),
            cost_usd: None,
        };
        let cause = |reason: &str, last: Option<&Answer>| match turn_ended(reason, last) {
            Finish::Submitted => None,
            Finish::Exited { cause, .. } => Some(cause),
        };
        assert_eq!(cause("end_turn", Some(&answer("Done."))), None);
        assert_eq!(cause("end_turn", Some(&answer(" "))), Some(ExitCause::EmptyTurn));
        assert_eq!(cause("end_turn", None), Some(ExitCause::Crashed));
        assert_eq!(cause("max_tokens", Some(&answer("x"))), Some(ExitCause::Finished));
    }
}
