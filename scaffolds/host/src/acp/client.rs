//! Handles the requests that the agent sends to its client: files and terminals in the task's
//! sandbox, and permissions.

use proctor_sandbox_api::{Command, wire::CommandExit};
use proctor_scaffold_api::{Session, Stop};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    files,
    terminals::{TerminalExit, Terminals, exit_status_json},
    updates::UpdateRecorder,
};
use crate::{
    actions::{CallRecorder, resolve_path},
    agent::Agent,
    limits::Limits,
    rpc::{self, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError, SANDBOX_REJECTED},
};

/// Proctor in the role of the agent's client.
pub(super) struct AcpClient {
    limits: &'static Limits,
    pub(super) terminals: Terminals,
    pub(super) updates: UpdateRecorder,
    /// Number of calls so far in the trial. The calls' ids in the record are based on it.
    call_count: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateTerminalParams {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<EnvVariable>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    output_byte_limit: Option<usize>,
}

#[derive(Deserialize)]
struct EnvVariable {
    name: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TerminalParams {
    terminal_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionParams {
    #[serde(default)]
    tool_call: Value,
    options: Vec<PermissionOption>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionOption {
    option_id: String,
    kind: String,
}

/// The response to a request from the agent; `None` if it is sent later.
type ClientResponse = Option<Result<Value, RpcError>>;

impl AcpClient {
    pub(super) fn new(limits: &'static Limits) -> Self {
        Self {
            limits,
            terminals: Terminals::new(),
            updates: UpdateRecorder::new(limits),
            call_count: 0,
        }
    }

    /// Performs and records a request from the agent. Returns `None` if the response is sent later.
    pub(super) async fn handle_request(
        &mut self,
        agent: &mut Agent,
        session: &mut dyn Session,
        id: &Value,
        method: &str,
        params: Value,
    ) -> Result<ClientResponse, Stop> {
        self.call_count += 1;
        let call_id = format!("request-{}", self.call_count);
        let reply = match method {
            "fs/read_text_file" => match rpc::parse_params(params) {
                Ok(asked) => files::read_file(session, &call_id, asked, self.limits).await?,
                Err(error) => Err(error),
            },
            "fs/write_text_file" => match rpc::parse_params(params) {
                Ok(asked) => files::write_file(session, &call_id, asked, self.limits).await?,
                Err(error) => Err(error),
            },
            "session/request_permission" => match rpc::parse_params(params) {
                Ok(asked) => {
                    let (outcome, note) = self.grant_permission(&asked);
                    if let Some(note) = note {
                        session.note(note).await?;
                    }
                    Ok(outcome)
                }
                Err(error) => Err(error),
            },
            "terminal/create" => match rpc::parse_params(params) {
                Ok(asked) => self.create_terminal(session, call_id, asked).await?,
                Err(error) => Err(error),
            },
            _ if method.starts_with("terminal/") => {
                return self.handle_terminal_request(agent, session, id, method, params).await;
            }
            _ => {
                let shown: String = method.chars().take(80).collect();
                Err(RpcError::new(METHOD_NOT_FOUND, format!("unknown method `{shown}`")))
            }
        };
        Ok(Some(reply))
    }

    /// Allows every request once: the agent is confined to the sandbox, and there is no user to
    /// ask.
    fn grant_permission(
        &mut self,
        permission: &PermissionParams,
    ) -> (Value, Option<serde_json::Map<String, Value>>) {
        let of = |kind: &str| permission.options.iter().find(|option| option.kind == kind);
        let chosen = of("allow_once").or_else(|| of("allow_always"));
        let outcome = match chosen {
            Some(option) => json!({ "outcome": "selected", "optionId": option.option_id }),
            None => json!({ "outcome": "cancelled" }),
        };
        let chosen = chosen.map_or(Value::Null, |option| json!(option.option_id));
        let note = self.updates.permission_note(&permission.tool_call["title"], &chosen);
        (json!({ "outcome": outcome }), note)
    }

    async fn create_terminal(
        &mut self,
        session: &mut dyn Session,
        call_id: String,
        params: CreateTerminalParams,
    ) -> Result<Result<Value, RpcError>, Stop> {
        if self.terminals.len() >= self.limits.terminals {
            let most = self.limits.terminals;
            let what = format!("{most} terminals are open; release one first");
            return Ok(Err(RpcError::new(SANDBOX_REJECTED, what)));
        }
        let variables = params.env.iter().flat_map(|one| [&one.name, &one.value]);
        let mut words = params.args.iter().chain([&params.command]).chain(variables);
        if params.command.is_empty() || words.any(|word| word.contains('\0')) {
            let what = "params: `command`: must not be empty or contain a NUL byte";
            return Ok(Err(RpcError::new(INVALID_PARAMS, what)));
        }
        let brief = session.brief().clone();
        // If an agent sends no arguments, `command` contains the whole command line, so run it in a
        // shell.
        let mut command = match params.args.is_empty() {
            true => Command::shell(&params.command),
            false => {
                Command::new([&params.command].into_iter().chain(&params.args).map(String::as_str))
            }
        };
        command = command.time_limit(brief.command_timeout);
        command = command.cwd(resolve_path(&brief, params.cwd.as_deref().unwrap_or_default()));
        for (key, value) in &brief.env {
            command = command.env(key, value.as_str());
        }
        for EnvVariable { name, value } in &params.env {
            command = command.env(name, value.as_str());
        }
        command.user.clone_from(&brief.user);
        let mut arguments = json!({ "command": params.command });
        if !params.args.is_empty() {
            arguments["args"] = json!(params.args);
        }
        if let Some(cwd) = &params.cwd {
            arguments["cwd"] = json!(cwd);
        }
        let recorded = CallRecorder::begin(session, &call_id, TERMINAL_TOOL, arguments).await?;
        let running = match session.sandbox().start(command) {
            Ok(running) => running,
            Err(error) => return recorded.finish_rejected(session, error, SANDBOX_REJECTED).await,
        };
        let most = params.output_byte_limit.unwrap_or(usize::MAX).min(self.limits.output_bytes);
        let id = self.terminals.add(running, call_id, most);
        Ok(Ok(json!({ "terminalId": id })))
    }

    /// Handles a request that refers to an open terminal.
    async fn handle_terminal_request(
        &mut self,
        agent: &mut Agent,
        session: &mut dyn Session,
        request: &Value,
        method: &str,
        params: Value,
    ) -> Result<ClientResponse, Stop> {
        let id = match rpc::parse_params::<TerminalParams>(params) {
            Ok(asked) => asked.terminal_id,
            Err(error) => return Ok(Some(Err(error))),
        };
        let Some(terminal) = self.terminals.get(&id) else {
            let shown: String = id.chars().take(80).collect();
            let what = format!("params: `terminalId`: no terminal {shown} is open");
            return Ok(Some(Err(RpcError::new(INVALID_PARAMS, what))));
        };
        Ok(Some(Ok(match method {
            "terminal/output" => terminal.output_response(),
            "terminal/wait_for_exit" => match &terminal.exit {
                Some(exit) => exit_status_json(exit),
                None => {
                    terminal.waiting_requests.push(request.clone());
                    return Ok(None);
                }
            },
            "terminal/kill" | "terminal/release" => {
                if terminal.kill() {
                    self.close_terminal(agent, session, &id).await?;
                }
                if method == "terminal/release" {
                    self.terminals.remove(&id);
                }
                json!({})
            }
            _ => {
                let shown: String = method.chars().take(80).collect();
                let what = format!("unknown method `{shown}`");
                return Ok(Some(Err(RpcError::new(METHOD_NOT_FOUND, what))));
            }
        })))
    }

    /// Handles the exit of one of the agent's commands.
    pub(super) async fn handle_terminal_exit(
        &mut self,
        agent: &mut Agent,
        session: &mut dyn Session,
        terminal_exit: TerminalExit,
    ) -> Result<(), Stop> {
        // If the terminal was killed in the meantime, it is already closed.
        let open = self.terminals.get(&terminal_exit.id).filter(|terminal| terminal.exit.is_none());
        let Some(terminal) = open else { return Ok(()) };
        terminal.exit = Some(match terminal_exit.result {
            Ok(exit) => exit,
            Err(error) if error.is_broken() => {
                return Err(error.to_fault(TERMINAL_TOOL).into());
            }
            // Report status 127, as a shell does if it cannot start a command.
            Err(_) => CommandExit { code: Some(127), ..CommandExit::default() },
        });
        self.close_terminal(agent, session, &terminal_exit.id).await
    }

    /// Closes a terminal: responds to the requests that wait for it, and completes its record.
    async fn close_terminal(
        &mut self,
        agent: &mut Agent,
        session: &mut dyn Session,
        id: &str,
    ) -> Result<(), Stop> {
        let Some(terminal) = self.terminals.get(id) else { return Ok(()) };
        let exit = terminal.exit.clone().unwrap_or_default();
        for waiting in terminal.waiting_requests.drain(..) {
            agent.send(&rpc::reply(&waiting, Ok(exit_status_json(&exit))));
        }
        let recorded = CallRecorder::from_start(&terminal.call_id, TERMINAL_TOOL, terminal.start);
        let code = exit.code.filter(|_| !exit.timed_out);
        recorded.finish(session, terminal.text(), None, code).await
    }
}

/// The tool name that the record uses for commands from the agent.
const TERMINAL_TOOL: &str = "terminal/create";
