//! A command with interactive input and output.

use std::collections::VecDeque;

use super::{SandboxError, SandboxHandle, call::Call, inbox::Event};
use crate::{
    Command,
    wire::{CommandExit, Reply, Request, RunRequest, channel},
};

/// A command with interactive input and output. Dropping it kills the command and everything it
/// started.
pub struct RunningCommand {
    call: Call,
    unsent_input: VecDeque<u8>,
}

/// An event of a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandEvent {
    /// Bytes of standard output.
    Stdout(Vec<u8>),
    /// Bytes of standard error.
    Stderr(Vec<u8>),
    /// The command ended; no more events follow.
    Exited(CommandExit),
}

impl SandboxHandle {
    /// Starts an interactive command. Uses only the arguments, directory, variables, user and time
    /// limit of [`Command`].
    ///
    /// # Errors
    /// Fails if the channel is broken or the request is too large. A missing program is not an
    /// error: the command then exits with status 127.
    pub fn start(&self, command: Command) -> Result<RunningCommand, SandboxError> {
        let command = self.with_default_env(command);
        let limit = command.time_limit;
        let request = Request::Run(RunRequest {
            argv: command.argv,
            cwd: command.cwd,
            env: command.env,
            stdin: true,
            results: false,
            time_limit_ms: limit
                .map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1)),
            user: command.user,
            reap_all: false,
            fallback: None,
            merged: false,
        });
        let call = Call::open(&self.link, &request)?;
        Ok(RunningCommand { call, unsent_input: command.stdin.into() })
    }
}

impl RunningCommand {
    /// Queues bytes for standard input. [`RunningCommand::next_event`] sends them while it waits.
    pub fn queue_input(&mut self, bytes: &[u8]) {
        self.unsent_input.extend(bytes);
    }

    /// Returns the number of queued bytes that are not yet sent.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent_input.len()
    }

    /// Sends queued input until at most `max_unsent` bytes are left, without receiving anything.
    /// Returns immediately if the command has ended.
    ///
    /// Cancel-safe.
    pub async fn drain(&mut self, max_unsent: usize) {
        self.call.send_until(&mut self.unsent_input, max_unsent).await;
    }

    /// Waits for the next event. Meanwhile, sends queued input as fast as the command reads it.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// Fails if the sandbox is gone or rejected the start.
    pub async fn next_event(&mut self) -> Result<CommandEvent, SandboxError> {
        loop {
            return match self.call.next_event_with_input(&mut self.unsent_input).await? {
                Event::Data(channel::STDOUT, bytes) => Ok(CommandEvent::Stdout(bytes)),
                Event::Data(channel::STDERR, bytes) => Ok(CommandEvent::Stderr(bytes)),
                Event::Data(..) => Err(self.call.close_with_protocol_error("unrequested results")),
                Event::End => continue,
                Event::Reply(Ok(Reply::Exited(exited))) => Ok(CommandEvent::Exited(exited)),
                Event::Reply(Ok(_)) => {
                    Err(self.call.close_with_protocol_error("expected the reply to a command"))
                }
                Event::Reply(Err(refusal)) => Err(SandboxError::Refused(refusal)),
            };
        }
    }
}
