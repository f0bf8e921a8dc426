//! A command that is talked to while it runs.

use std::collections::VecDeque;

use super::{
    SandboxError, SandboxHandle,
    call::{Call, Event},
};
use crate::{
    Command,
    wire::{Exited, Reply, Request, RunRequest, channel},
};

/// A command whose input and output are a conversation. Dropping it kills the command with all that it started.
pub struct Running {
    call: Call,
    unsent: VecDeque<u8>,
}

/// What a running command did next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Bytes of its standard output.
    Output(Vec<u8>),
    /// Bytes of its standard error.
    Error(Vec<u8>),
    /// It ended; nothing comes after that.
    Exited(Exited),
}

impl SandboxHandle {
    /// Starts a command that is talked to. Of [`Command`] counts what says how it is started: arguments, folder,
    /// variables, user and time limit.
    ///
    /// # Errors
    /// The channel is broken, or the request does not fit it. A program that is not there is told as one that
    /// exited with 127.
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
        });
        let call = Call::open(&self.link, &request)?;
        Ok(Running { call, unsent: command.stdin.into() })
    }
}

impl Running {
    /// Queues bytes for its standard input. They are sent while [`Running::next`] waits.
    pub fn say(&mut self, bytes: &[u8]) {
        self.unsent.extend(bytes);
    }

    /// Bytes that it has not taken yet and that are still queued here.
    pub fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Sends until no more than `most` bytes are queued, and takes nothing from the command meanwhile. Returns at once
    /// where it has ended.
    ///
    /// Safe to be dropped at any await.
    pub async fn drain(&mut self, most: usize) {
        self.call.send_from(&mut self.unsent, most).await;
    }

    /// What it does next. What was said to it is sent meanwhile, as fast as it takes it.
    ///
    /// Safe to be dropped at any await, and asked again.
    ///
    /// # Errors
    /// The sandbox is gone, or refused to start the command.
    pub async fn next(&mut self) -> Result<Said, SandboxError> {
        loop {
            return match self.call.step_from(&mut self.unsent).await? {
                Event::Data(channel::STDOUT, bytes) => Ok(Said::Output(bytes)),
                Event::Data(channel::STDERR, bytes) => Ok(Said::Error(bytes)),
                Event::Data(..) => Err(self.call.left("results that were not asked for")),
                Event::End => continue,
                Event::Reply(Ok(Reply::Exited(exited))) => Ok(Said::Exited(exited)),
                Event::Reply(Ok(_)) => Err(self.call.left("not the reply of a command")),
                Event::Reply(Err(refusal)) => Err(SandboxError::Refused(refusal)),
            };
        }
    }
}
