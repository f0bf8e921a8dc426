//! The client's `terminal/*` methods, which run background commands in the task's sandbox.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use proctor_sandbox_api::{CommandEvent, RunningCommand, SandboxError, wire::CommandExit};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::AbortHandle};

/// The agent's open terminals. Dropping this value kills the commands that are still running.
pub(super) struct Terminals {
    open_terminals: BTreeMap<String, Terminal>,
    count: u64,
    exit_sender: mpsc::UnboundedSender<TerminalExit>,
    exit_receiver: mpsc::UnboundedReceiver<TerminalExit>,
}

/// A terminal and its command.
pub(super) struct Terminal {
    pub(super) call_id: String,
    pub(super) start: Instant,
    /// The ids of requests that are waiting for the command to exit.
    pub(super) waiting_requests: Vec<Value>,
    /// How the command exited.
    pub(super) exit: Option<CommandExit>,
    output: Arc<Mutex<OutputTail>>,
    abort_handle: AbortHandle,
}

/// Sent when a command exits.
pub(super) struct TerminalExit {
    pub(super) id: String,
    pub(super) result: Result<CommandExit, SandboxError>,
}

/// The end of a command's output: the protocol requires that the start is cut off.
#[derive(Debug, Default)]
struct OutputTail {
    bytes: VecDeque<u8>,
    max_bytes: usize,
    is_truncated: bool,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.abort_handle.abort();
    }
}

impl Terminals {
    pub(super) fn new() -> Self {
        let (exit_sender, exit_receiver) = mpsc::unbounded_channel();
        Self { open_terminals: BTreeMap::new(), count: 0, exit_sender, exit_receiver }
    }

    /// Watches a command that was started, and returns the id of its terminal.
    pub(super) fn add(
        &mut self,
        command: RunningCommand,
        call_id: String,
        max_bytes: usize,
    ) -> String {
        self.count += 1;
        let id = format!("terminal-{}", self.count);
        let output = Arc::new(Mutex::new(OutputTail { max_bytes, ..OutputTail::default() }));
        let watching =
            watch_command(command, Arc::clone(&output), id.clone(), self.exit_sender.clone());
        let running = tokio::spawn(watching).abort_handle();
        let begun = Instant::now();
        let terminal = Terminal {
            call_id,
            start: begun,
            waiting_requests: Vec::new(),
            exit: None,
            output,
            abort_handle: running,
        };
        self.open_terminals.insert(id.clone(), terminal);
        id
    }

    pub(super) fn get(&mut self, id: &str) -> Option<&mut Terminal> {
        self.open_terminals.get_mut(id)
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Terminal> {
        self.open_terminals.remove(id)
    }

    pub(super) fn len(&self) -> usize {
        self.open_terminals.len()
    }

    /// Returns whether any command is running.
    pub(super) fn has_running(&self) -> bool {
        self.open_terminals.values().any(|terminal| terminal.exit.is_none())
    }

    /// Waits for the next command to exit. Cancel-safe.
    pub(super) async fn next_exit(&mut self) -> TerminalExit {
        match self.exit_receiver.recv().await {
            Some(ended) => ended,
            // Unreachable, because the sender is a field of this struct.
            None => std::future::pending().await,
        }
    }

    /// Kills all commands.
    pub(super) fn kill_all(&mut self) {
        self.open_terminals.clear();
    }
}

impl Terminal {
    /// Kills the terminal's command. Returns whether the command was still running.
    pub(super) fn kill(&mut self) -> bool {
        self.abort_handle.abort();
        let ran = self.exit.is_none();
        if ran {
            self.exit = Some(CommandExit { signal: Some(9), ..CommandExit::default() });
        }
        ran
    }

    fn lock(&self) -> MutexGuard<'_, OutputTail> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn text(&self) -> String {
        self.lock().text()
    }

    /// Creates the response to `terminal/output`.
    pub(super) fn output_response(&self) -> Value {
        let output = self.lock();
        let mut told = json!({ "output": output.text(), "truncated": output.is_truncated });
        if let Some(exit) = &self.exit {
            told["exitStatus"] = exit_status_json(exit);
        }
        told
    }
}

/// Describes how a command exited, in the protocol's format. A command that timed out counts as
/// killed.
pub(super) fn exit_status_json(exit: &CommandExit) -> Value {
    let code = exit.code.filter(|code| *code >= 0 && !exit.timed_out);
    let signal = match (exit.timed_out, exit.signal) {
        (true, _) => Some("SIGKILL".to_owned()),
        (false, signal) => signal.map(|number| number.to_string()),
    };
    json!({ "exitCode": code, "signal": signal })
}

impl OutputTail {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let over = self.bytes.len().saturating_sub(self.max_bytes);
        self.is_truncated |= over > 0;
        self.bytes.drain(..over);
    }

    fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        // Drop the rest of a character whose start was cut off.
        let torn = |byte: &&u8| self.is_truncated && **byte & 0xc0 == 0x80;
        let start = bytes.iter().take(3).take_while(torn).count();
        String::from_utf8_lossy(&bytes[start..]).into_owned()
    }
}

async fn watch_command(
    mut command: RunningCommand,
    output: Arc<Mutex<OutputTail>>,
    id: String,
    exit_sender: mpsc::UnboundedSender<TerminalExit>,
) {
    let how = loop {
        match command.next_event().await {
            Ok(CommandEvent::Stdout(bytes) | CommandEvent::Stderr(bytes)) => {
                output.lock().unwrap_or_else(PoisonError::into_inner).push(&bytes);
            }
            Ok(CommandEvent::Exited(exited)) => break Ok(exited),
            Err(error) => break Err(error),
        }
    };
    // If this fails, the conversation is over and the receiver was dropped.
    let _ = exit_sender.send(TerminalExit { id, result: how });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_keeps_the_end_starting_at_a_whole_character() {
        let mut output = OutputTail { max_bytes: 5, ..OutputTail::default() };
        output.push("abé".as_bytes());
        assert_eq!((output.text().as_str(), output.is_truncated), ("abé", false));
        output.push("cde".as_bytes());
        assert_eq!((output.text().as_str(), output.is_truncated), ("écde", true));
        output.push("f".as_bytes());
        assert_eq!(output.text(), "cdef");
    }

    #[test]
    fn status_reports_a_timed_out_command_as_killed() {
        let exit = |code, signal, timed_out| CommandExit {
            code,
            signal,
            timed_out,
            ..CommandExit::default()
        };
        assert_eq!(
            exit_status_json(&exit(Some(3), None, false)),
            json!({"exitCode": 3, "signal": null})
        );
        assert_eq!(
            exit_status_json(&exit(None, Some(9), false)),
            json!({"exitCode": null, "signal": "9"})
        );
        let late = exit_status_json(&exit(Some(0), None, true));
        assert_eq!(late, json!({"exitCode": null, "signal": "SIGKILL"}));
    }
}
