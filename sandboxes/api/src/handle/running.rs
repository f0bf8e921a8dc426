//! An interactive command.

use std::collections::VecDeque;

use super::{
    SandboxError, SandboxHandle,
    call::{Call, Event},
};
use crate::{
    Command,
    wire::{Exited, Reply, Request, RunRequest, channel},
};

/// A command with interactive input and output. Dropping it kills the command and everything it
/// started.
pub struct Running {
    call: Call,
    unsent: VecDeque<u8>,
}

/// An event of a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Bytes of standard output.
    Output(Vec<u8>),
    /// Bytes of standard error.
    Error(Vec<u8>),
    /// The command ended; no more events follow.
    Exited(Exited),
}

impl SandboxHandle {
    /// Starts an interactive command. Of [`Command`] it uses only the arguments, directory,
    /// variables, user and time limit.
    ///
    /// # Errors
    /// The channel is broken, or the request is too large. A missing program is reported as exit
    /// status 127.
    pub fn start(&self, command: Command) -> Result<Running, SandboxError> {
        let command = self.with_defaults(command);
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
        Ok(Running { call, unsent: command.stdin.into() })
    }
}

impl Running {
    /// Queues bytes for standard input. They are sent while [`Running::next`] waits.
    pub fn say(&mut self, bytes: &[u8]) {
        self.unsent.extend(bytes);
    }

    /// Returns the number of queued bytes that are not yet sent.
    pub fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Sends until at most `most` bytes are queued, without receiving anything. Returns immediately
    /// if the command has ended.
    ///
    /// Cancel-safe.
    pub async fn drain(&mut self, most: usize) {
        self.call.send_from(&mut self.unsent, most).await;
    }

    /// Waits for the next event. Meanwhile, sends queued input as fast as the command reads it.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// The sandbox is gone or rejected the start.
    pub async fn next(&mut self) -> Result<Said, SandboxError> {
        loop {
            return match self.call.step_from(&mut self.unsent).await? {
                Event::Data(channel::STDOUT, bytes) => Ok(Said::Output(bytes)),
                Event::Data(channel::STDERR, bytes) => Ok(Said::Error(bytes)),
                Event::Data(..) => Err(self.call.protocol_error("unrequested results")),
                Event::End => continue,
                Event::Reply(Ok(Reply::Exited(exited))) => Ok(Said::Exited(exited)),
                Event::Reply(Ok(_)) => {
                    Err(self.call.protocol_error("expected the reply to a command"))
                }
                Event::Reply(Err(refusal)) => Err(SandboxError::Refused(refusal)),
            };
        }
    }
}
