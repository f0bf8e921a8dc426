//! Runs commands and accesses files in the task's sandbox on behalf of the user's program. Sizes
//! are limited, and each action is recorded as a tool call.

use std::time::{Duration, Instant};

use base64::{Engine, prelude::BASE64_STANDARD};
use proctor_sandbox_api::{CapturedOutput, Command, CommandOutput, SandboxError, wire::RawPath};
use proctor_scaffold_api::{FinishedToolCall, Session, Stop, TaskBrief};
use proctor_types::sha256_hex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    limits::Limits,
    rpc::{INVALID_PARAMS, RpcError, SANDBOX_REJECTED},
};

/// The mode of a file that is written with `executable`.
const EXECUTABLE_MODE: u32 = 0o755;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecParams {
    command: CommandParam,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    stdin: Option<String>,
    #[serde(default)]
    timeout: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a string or a list of strings")]
enum CommandParam {
    Line(String),
    Program(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadParams {
    path: String,
    #[serde(default)]
    offset: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteParams {
    path: String,
    content: String,
    #[serde(default)]
    encoding: Encoding,
    #[serde(default)]
    executable: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Encoding {
    #[default]
    Utf8,
    #[serde(rename = "base64")]
    Base64,
}

/// The result of a request: a response or an error. If the trial has ended, a [`Stop`].
pub(crate) type ActionResult = Result<Result<Value, RpcError>, Stop>;

/// Records a request as a tool call.
pub(crate) struct CallRecorder<'a> {
    call_id: &'a str,
    name: &'a str,
    start: Instant,
}

impl<'a> CallRecorder<'a> {
    pub(crate) async fn begin(
        session: &mut dyn Session,
        call_id: &'a str,
        name: &'a str,
        arguments: Value,
    ) -> Result<Self, Stop> {
        session.record_tool_call(call_id, name, arguments).await?;
        Ok(Self { call_id, name, start: Instant::now() })
    }

    /// Creates the record for a request that started earlier.
    pub(crate) fn from_start(call_id: &'a str, name: &'a str, start: Instant) -> Self {
        Self { call_id, name, start }
    }

    /// Records the result. `shown_output` is the text for the event. If it is truncated,
    /// `full_output` is the complete text.
    pub(crate) async fn finish(
        self,
        session: &mut dyn Session,
        shown_output: String,
        full_output: Option<Vec<u8>>,
        exit_status: Option<i32>,
    ) -> Result<(), Stop> {
        let done = FinishedToolCall {
            file_edit: None,
            call_id: self.call_id.to_owned(),
            name: self.name.to_owned(),
            shown_output,
            full_output,
            exit_status,
            duration: self.start.elapsed(),
            is_malformed: false,
        };
        session.record_tool_result(done).await
    }

    /// Records that the sandbox rejected the request. Fails if the sandbox is gone.
    pub(crate) async fn finish_rejected(
        self,
        session: &mut dyn Session,
        error: SandboxError,
        code: i64,
    ) -> ActionResult {
        if error.is_broken() {
            return Err(error.to_fault(self.name).into());
        }
        self.finish(session, error.to_string(), None, None).await?;
        Ok(Err(RpcError::new(code, error.to_string())))
    }
}

pub(crate) async fn run_command(
    session: &mut dyn Session,
    id: &str,
    params: ExecParams,
    limits: &Limits,
) -> ActionResult {
    let brief = session.brief().clone();
    let argv = match &params.command {
        CommandParam::Line(line) => vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()],
        CommandParam::Program(words) => words.clone(),
    };
    if argv.first().is_none_or(String::is_empty) || argv.iter().any(|word| word.contains('\0')) {
        return Ok(Err(RpcError::new(
            INVALID_PARAMS,
            "params: `command`: must have a program and no NUL byte",
        )));
    }
    let limit = match params.timeout {
        None => brief.command_timeout,
        Some(seconds) if seconds.is_finite() && seconds > 0.0 => {
            brief.command_timeout.min(Duration::from_secs_f64(seconds.min(1e9)))
        }
        Some(_) => {
            return Ok(Err(RpcError::new(
                INVALID_PARAMS,
                "params: `timeout`: must be more than 0 seconds",
            )));
        }
    };
    let cwd = resolve_path(&brief, params.cwd.as_deref().unwrap_or_default());
    let words = match &params.command {
        CommandParam::Line(line) => json!(line),
        CommandParam::Program(words) => json!(words),
    };
    let mut arguments = json!({ "command": words });
    if let Some(cwd) = &params.cwd {
        arguments["cwd"] = json!(cwd);
    }
    if let Some(stdin) = &params.stdin {
        arguments["stdin"] = json!(stdin);
    }
    let recorded = CallRecorder::begin(session, id, "sandbox/exec", arguments).await?;
    let mut command = Command::new(argv).cwd(cwd).time_limit(limit);
    for (key, value) in &brief.env {
        command = command.env(key, value.as_str());
    }
    command.user.clone_from(&brief.user);
    command.head_cap = limits.output_bytes;
    command.stdin = params.stdin.unwrap_or_default().into_bytes();
    let done = match session.sandbox().run(command).await {
        Ok(done) => done,
        Err(error) => return recorded.finish_rejected(session, error, SANDBOX_REJECTED).await,
    };
    let status = done.exit.code.filter(|_| !done.exit.timed_out);
    recorded.finish(session, combined_output(&done), None, status).await?;
    Ok(Ok(json!({
        "exit_status": status,
        "signal": done.exit.signal,
        "timed_out": done.exit.timed_out,
        "stdout": done.stdout.text(),
        "stderr": done.stderr.text(),
        "stdout_bytes": done.stdout.total_bytes,
        "stderr_bytes": done.stderr.total_bytes,
    })))
}

fn combined_output(output: &CommandOutput) -> String {
    let part = |stream: &CapturedOutput| stream.text();
    match (output.stdout.total_bytes, output.stderr.total_bytes) {
        (_, 0) => part(&output.stdout),
        (0, _) => part(&output.stderr),
        _ => format!("{}\n[stderr]\n{}", part(&output.stdout), part(&output.stderr)),
    }
}

pub(crate) async fn read_file(
    session: &mut dyn Session,
    id: &str,
    params: ReadParams,
    limits: &Limits,
) -> ActionResult {
    let path = match check_path(session.brief(), &params.path) {
        Ok(path) => path,
        Err(error) => return Ok(Err(error)),
    };
    let arguments = json!({ "path": params.path, "offset": params.offset });
    let recorded = CallRecorder::begin(session, id, "sandbox/read", arguments).await?;
    let bytes =
        match session.sandbox().read_from_offset(&path, params.offset, limits.file_bytes).await {
            Ok(bytes) => bytes,
            Err(error) => return recorded.finish_rejected(session, error, SANDBOX_REJECTED).await,
        };
    let shown = format!("{} bytes, sha256 {}", bytes.len(), sha256_hex(&bytes));
    recorded.finish(session, shown, None, None).await?;
    Ok(Ok(match String::from_utf8(bytes) {
        Ok(text) => json!({ "content": text, "encoding": "utf-8" }),
        Err(error) => {
            let content = BASE64_STANDARD.encode(error.as_bytes());
            json!({ "content": content, "encoding": "base64" })
        }
    }))
}

pub(crate) async fn write_file(
    session: &mut dyn Session,
    id: &str,
    params: WriteParams,
    limits: &Limits,
) -> ActionResult {
    let wrong =
        |what: &str| Ok(Err(RpcError::new(INVALID_PARAMS, format!("params: `content`: {what}"))));
    let bytes = match params.encoding {
        Encoding::Utf8 => params.content.into_bytes(),
        Encoding::Base64 => match BASE64_STANDARD.decode(&params.content) {
            Ok(bytes) => bytes,
            Err(_) => return wrong("is not base64"),
        },
    };
    if bytes.len() as u64 > limits.file_bytes {
        return wrong(&format!("exceeds {} bytes", limits.file_bytes));
    }
    let path = match check_path(session.brief(), &params.path) {
        Ok(path) => path,
        Err(error) => return Ok(Err(error)),
    };
    let arguments =
        json!({ "path": params.path, "bytes": bytes.len(), "executable": params.executable });
    let recorded = CallRecorder::begin(session, id, "sandbox/write", arguments).await?;
    let mode = params.executable.then_some(EXECUTABLE_MODE);
    let owner = session.brief().user.clone();
    let written = session.sandbox().write_as(&path, &bytes, mode, owner.as_deref()).await;
    if let Err(error) = written {
        return recorded.finish_rejected(session, error, SANDBOX_REJECTED).await;
    }
    let shown = format!("{} bytes, sha256 {}", bytes.len(), sha256_hex(&bytes));
    recorded.finish(session, shown, Some(bytes), None).await?;
    Ok(Ok(json!({})))
}

pub(crate) fn check_path(brief: &TaskBrief, path: &str) -> Result<RawPath, RpcError> {
    if path.is_empty() || path.contains('\0') {
        return Err(RpcError::new(
            INVALID_PARAMS,
            "params: `path`: must not be empty or contain a NUL byte",
        ));
    }
    Ok(resolve_path(brief, path))
}

/// Resolves a path. A relative path starts at the work directory.
pub(crate) fn resolve_path(brief: &TaskBrief, path: &str) -> RawPath {
    let workdir = brief.workdir.trim_end_matches('/');
    match path {
        "" => RawPath::from(brief.workdir.as_str()),
        path if path.starts_with('/') => RawPath::from(path),
        path => RawPath::from(format!("{workdir}/{path}")),
    }
}
