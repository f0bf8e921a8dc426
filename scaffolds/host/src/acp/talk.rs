//! The conversation: Proctor's requests to the agent, the handling of the agent's requests, and the
//! ending.

use std::collections::VecDeque;

use proctor_sandbox_api::wire::Exited;
use proctor_scaffold_api::{Finish, Session, Stop};
use proctor_types::{Answer, ExitCause, plural};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::client::Client;
use crate::{
    agent::{Agent, Heard},
    ending::{ended, with_words},
    limits::Limits,
    own::{End, Quiet},
    rpc::{self, Error, Message, OVER},
    settings::Settings,
};

/// The version of the Agent Client Protocol.
pub(super) const PROTOCOL: u64 = 1;
/// The protocol's error code: the agent requires a login first.
const LOGIN: i64 = -32000;

/// Our request that the agent has not answered yet.
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
    quiet: Quiet,
    stage: Stage,
    /// The id of our request.
    number: u64,
    /// Ways to log in the agent.
    logins: Vec<String>,
    session_id: Value,
    client: Client,
    wrong_lines: u32,
    /// Consecutive requests that were answered with an error.
    errors: u32,
    /// Requests since its last model request.
    requests: u32,
    /// Model requests so far.
    model_requests: u64,
}

impl Talk {
    pub(super) fn new(limits: &'static Limits, settings: &Settings, prompt: String) -> Self {
        Self {
            limits,
            prompt,
            quiet: Quiet::new(settings.idle_seconds),
            stage: Stage::Initialize,
            number: 0,
            logins: Vec::new(),
            session_id: Value::Null,
            client: Client::new(limits),
            wrong_lines: 0,
            errors: 0,
            requests: 0,
            model_requests: 0,
        }
    }

    pub(super) async fn run(
        &mut self,
        agent: &mut Agent,
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
        let end = self.listen(agent, session).await?;
        if let Some(note) = self.client.updates.end() {
            session.note(note).await?;
        }
        Ok(end)
    }

    async fn listen(
        &mut self,
        agent: &mut Agent,
        session: &mut dyn Session,
    ) -> Result<Finish, End> {
        loop {
            let line = tokio::select! {
                heard = agent.next() => match heard.map_err(End::Broken)? {
                    Heard::Line(line) => line,
                    Heard::TooLong => {
                        let most = self.limits.line_bytes;
                        let why = format!("it wrote a line of more than {most} bytes");
                        return Ok(ended(ExitCause::Crashed, why));
                    }
                    Heard::Exited(exit) => return Ok(gone(&exit, agent)),
                },
                done = self.client.terminals.next() => {
                    self.quiet.seen();
                    self.client.terminal_ended(agent, session, done).await?;
                    continue;
                }
                () = session.ending() => return Ok(self.cancel(agent).await),
                () = sleep(self.quiet.tick()) => {
                    if self.client.terminals.busy() {
                        self.quiet.seen();
                    }
                    match self.quiet.end(&session.traffic(), self.limits) {
                        Some(end) => return Ok(with_last_words(end, agent)),
                        None => continue,
                    }
                }
            };
            match Message::read(&line) {
                Ok(Message::Request { id, method, params }) => {
                    if let Some(end) = self.asked(agent, session, id, &method, params).await? {
                        return Ok(end);
                    }
                }
                Ok(Message::Notice { method, params }) if method == "session/update" => {
                    for note in self.client.updates.take(&params["update"]) {
                        session.note(note).await?;
                    }
                }
                // From a later version, or an extension: no response is expected.
                Ok(Message::Notice { .. }) => {}
                Ok(Message::Answer { id, result }) => {
                    self.quiet.seen();
                    if let Some(end) = self.answered(agent, session, &id, result) {
                        return Ok(end);
                    }
                }
                Err(wrong) => {
                    self.wrong_lines += 1;
                    if self.wrong_lines >= self.limits.wrong_lines {
                        let lines = plural(self.wrong_lines, "line");
                        let shown: String = String::from_utf8_lossy(&line)
                            .chars()
                            .filter(|c| !c.is_control())
                            .take(80)
                            .collect();
                        let why = format!(
                            "it wrote {lines} to standard output that are not messages, last: {shown}"
                        );
                        return Ok(ended(ExitCause::Crashed, why));
                    }
                    agent.send(&wrong);
                }
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

    /// Handles a response to our request: the next request, or the end.
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
                // Its key is in its environment, under any name; the first way may be a browser.
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

    /// Handles a request of the agent. Returns the end of an agent that loops.
    async fn asked(
        &mut self,
        agent: &mut Agent,
        session: &mut dyn Session,
        id: Value,
        method: &str,
        params: Value,
    ) -> Result<Option<Finish>, Stop> {
        // Nothing would read the response to a request that changes the tree.
        if agent.has_exited() {
            return Ok(None);
        }
        let seen = session.traffic().requests;
        if std::mem::replace(&mut self.model_requests, seen) != seen {
            self.requests = 0;
        }
        self.requests += 1;
        let Some(reply) = self.client.request(agent, session, &id, method, params).await? else {
            return Ok(None);
        };
        match &reply {
            Ok(_) => {
                self.errors = 0;
                self.quiet.seen();
            }
            Err(_) => self.errors += 1,
        }
        agent.send(&rpc::reply(&id, reply));
        let why = if self.errors >= self.limits.errors_in_a_row {
            let requests = plural(self.errors, "request");
            format!("{requests} in a row ended in an error")
        } else if self.requests >= self.limits.requests_without_answer {
            let requests = plural(self.requests, "request");
            format!("it made {requests} without a request to the model")
        } else {
            return Ok(None);
        };
        Ok(Some(ended(ExitCause::Loop, why)))
    }

    /// The trial is over: notifies the agent and gives it time to exit. Its requests are no longer
    /// performed.
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
                    Ok(Heard::Line(line)) => match Message::read(&line) {
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
                    // However it ends, it changes nothing any more.
                    Ok(Heard::TooLong | Heard::Exited(_)) | Err(_) => return,
                }
            }
        };
        let _ = timeout(self.limits.leave(), leaving).await;
        ended(ExitCause::Finished, "the trial had ended".into())
    }
}

/// The program ended before its turn did.
fn gone(exit: &Exited, agent: &Agent) -> Finish {
    let status = proctor_sandbox_api::ending_of(exit);
    let why = format!("it ended with {status} before its turn ended");
    ended(ExitCause::Crashed, with_words(why, &agent.errors()))
}

fn with_last_words(end: Finish, agent: &Agent) -> Finish {
    match end {
        Finish::Exited { cause, why } => {
            Finish::Exited { cause, why: with_words(why, &agent.errors()) }
        }
        Finish::Submitted => Finish::Submitted,
    }
}

/// Interprets the end of the agent's turn.
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
