//! The user's program in its own sandbox. The program and Proctor exchange lines.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use proctor_sandbox_api::{
    Command, CommandEvent, RunningCommand, SandboxError, SandboxHandle, wire::CommandExit,
};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    limits::Limits,
    lines::{LineSplitter, TooLong},
};

/// The program's working directory.
pub(crate) const WORKDIR: &str = "/work";
/// Maximum number of bytes of responses to queue for a program that does not read them.
const MAX_UNREAD_BYTES: usize = 1 << 20;
/// Number of bytes to keep from the end of stderr.
const STDERR_TAIL_BYTES: usize = 64 << 10;
/// After the program has exited, stderr is read until no output has arrived for this long.
const STDERR_QUIET_TIME: Duration = Duration::from_millis(100);
/// Maximum time for reading stderr after the program has exited.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct Agent {
    command: RunningCommand,
    lines: LineSplitter,
    exit: Option<CommandExit>,
    stderr: StderrBuffer,
}

/// An event from the program.
pub(crate) enum AgentEvent {
    Line(Vec<u8>),
    /// The program wrote a line that exceeds the limit.
    TooLong,
    Exited(CommandExit),
}

/// Creates the program's command with its environment variables.
pub(crate) fn program_command(words: &[String], env: &[(String, String)]) -> Command {
    let command = Command::new(words.iter().map(String::as_str)).cwd(WORKDIR).env("HOME", WORKDIR);
    env.iter().fold(command, |command, (key, value)| command.env(key, value.as_str()))
}

impl Agent {
    pub(crate) fn start(
        sandbox: &Arc<SandboxHandle>,
        command: Command,
        limits: &Limits,
    ) -> Result<Self, SandboxError> {
        Ok(Self {
            command: sandbox.start(command)?,
            lines: LineSplitter::new(limits.line_bytes),
            exit: None,
            stderr: StderrBuffer::new(limits.stderr_bytes),
        })
    }

    /// Queues a message for the program. [`Self::next_event`] sends it while waiting.
    pub(crate) fn send(&mut self, message: &Value) {
        self.command.queue_input(format!("{message}\n").as_bytes());
    }

    /// Waits for the next event. Lines that were written before the exit come first.
    ///
    /// If the agent does not read its responses, its output is not read either. Otherwise,
    /// responses to further requests would pile up here.
    ///
    /// Cancel-safe.
    pub(crate) async fn next_event(&mut self) -> Result<AgentEvent, SandboxError> {
        self.command.drain(MAX_UNREAD_BYTES).await;
        loop {
            if let Some(line) = self.lines.next_line() {
                return Ok(AgentEvent::Line(line));
            }
            if let Some(exited) = &self.exit {
                return Ok(AgentEvent::Exited(exited.clone()));
            }
            match self.command.next_event().await? {
                CommandEvent::Stdout(bytes) => {
                    if self.lines.push(&bytes) == Err(TooLong) {
                        return Ok(AgentEvent::TooLong);
                    }
                }
                CommandEvent::Stderr(bytes) => self.stderr.push(&bytes),
                CommandEvent::Exited(exited) => {
                    self.lines.finish();
                    self.exit = Some(exited);
                }
            }
        }
    }

    /// Returns whether the program has exited. There may still be unread lines.
    pub(crate) fn has_exited(&self) -> bool {
        self.exit.is_some()
    }

    /// Returns what was read from stderr so far.
    pub(crate) fn stderr(&self) -> Vec<u8> {
        self.stderr.text()
    }

    /// Returns what the program wrote to stderr, at the end of the conversation. Stdout and stderr
    /// are separate pipes, so text on stderr may arrive after a line on stdout that was written
    /// later.
    pub(crate) async fn final_stderr(&mut self) -> Vec<u8> {
        let listen = async {
            while self.exit.is_none() {
                match timeout(STDERR_QUIET_TIME, self.command.next_event()).await {
                    Ok(Ok(CommandEvent::Stderr(bytes))) => self.stderr.push(&bytes),
                    Ok(Ok(CommandEvent::Stdout(_))) => {}
                    Ok(Ok(CommandEvent::Exited(exited))) => self.exit = Some(exited),
                    Ok(Err(_)) | Err(_) => return,
                }
            }
        };
        let _ = timeout(STDERR_DRAIN_TIMEOUT, listen).await;
        self.stderr.text()
    }
}

/// The start and the end of what the program wrote to stderr.
struct StderrBuffer {
    max_bytes: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    missing_bytes: u64,
}

impl StderrBuffer {
    fn new(max_bytes: usize) -> Self {
        Self { max_bytes, head: Vec::new(), tail: VecDeque::new(), missing_bytes: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = self.max_bytes.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(STDERR_TAIL_BYTES);
        self.missing_bytes += over as u64;
        self.tail.drain(..over);
    }

    fn text(&self) -> Vec<u8> {
        let mut text = self.head.clone();
        if self.missing_bytes > 0 {
            text.extend(format!("\n[{} bytes are missing here]\n", self.missing_bytes).bytes());
        }
        text.extend(&self.tail);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stderr_keeps_the_head_and_tail_of_long_output() {
        let mut errors = StderrBuffer::new(4);
        errors.push(b"abc");
        errors.push(b"def");
        assert_eq!(errors.text(), b"abcdef");
        errors.push(&vec![b'x'; STDERR_TAIL_BYTES]);
        let text = String::from_utf8(errors.text()).unwrap();
        assert!(text.starts_with("abcd\n[2 bytes are missing here]\nx"), "{}", &text[..40]);
        assert_eq!(text.len(), 4 + "\n[2 bytes are missing here]\n".len() + STDERR_TAIL_BYTES);
    }
}
