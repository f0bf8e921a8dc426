//! Runs commands to completion.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::{
    SandboxError, SandboxHandle,
    call::{Call, Input},
    capture::OutputCapture,
    error::TIME_LIMIT_IGNORED,
    inbox::Event,
};
use crate::{
    Command, CommandOutput,
    wire::{Reply, Request, RunRequest, channel},
};

/// How long the sandbox agent may take to kill a command after its time limit. If it takes longer,
/// the host treats the sandbox as dead. Must be longer than the sandbox agent's own kill timeout.
const KILL_GRACE_PERIOD: Duration = Duration::from_secs(30);

/// Maximum number of bytes to read from the results pipe. Longer output is truncated, so its end
/// record is missing.
const RESULTS_LIMIT: usize = 64 << 20;

impl SandboxHandle {
    /// Runs a command to completion. A command that fails or is not found (exit code 127) is a
    /// result, not an error. Dropping the future cancels the command.
    pub async fn run(&self, command: Command) -> Result<CommandOutput, SandboxError> {
        let command = self.with_default_env(command);
        let limit = command.time_limit;
        let request = Request::Run(RunRequest {
            argv: command.argv,
            cwd: command.cwd,
            env: command.env,
            stdin: !command.stdin.is_empty(),
            results: command.has_results_pipe,
            time_limit_ms: limit
                .map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1)),
            user: command.user,
            reap_all: command.reap_all,
            fallback: command.fallback.clone(),
            merged: command.merge_outputs,
        });
        let spill = command.spill_base.as_deref();
        let caps = (command.head_cap, command.tail_cap);
        let capture = |suffix| OutputCapture::new(caps, spill, suffix, command.spill_cap);
        let (mut stdout, mut stderr) = (capture(".stdout"), capture(".stderr"));
        let mut results = Vec::new();
        let mut call = Call::open(&self.link, &request)?;
        let mut input = match command.stdin.is_empty() {
            true => Input::empty(),
            false => Input::from_bytes(&command.stdin),
        };
        // The agent enforces the time limit. This deadline only detects an agent that fails to do
        // so.
        let deadline =
            limit.and_then(|limit| Instant::now().checked_add(limit + KILL_GRACE_PERIOD));
        loop {
            let event = match deadline {
                None => call.next_event(&mut input).await?,
                Some(at) => match timeout_at(at, call.next_event(&mut input)).await {
                    Ok(event) => event?,
                    Err(_) => {
                        return Err(call.close_with_error(TIME_LIMIT_IGNORED));
                    }
                },
            };
            match event {
                Event::Data(channel::STDOUT, bytes) => stdout.append(&bytes).await,
                Event::Data(channel::STDERR, bytes) => stderr.append(&bytes).await,
                Event::Data(_, bytes) if command.has_results_pipe => {
                    let kept = bytes.len().min(RESULTS_LIMIT - results.len());
                    results.extend_from_slice(&bytes[..kept]);
                }
                Event::Data(..) => {
                    return Err(call.close_with_protocol_error("unrequested results"));
                }
                Event::End => {}
                Event::Reply(Ok(Reply::Exited(exited))) => {
                    let (stdout, stderr) = (stdout.finish().await, stderr.finish().await);
                    return Ok(CommandOutput { exit: exited, stdout, stderr, results });
                }
                Event::Reply(Ok(_)) => {
                    return Err(call.close_with_protocol_error("expected the reply to a command"));
                }
                Event::Reply(Err(refusal)) => return Err(SandboxError::Refused(refusal)),
            }
        }
    }
}
