//! A command and its result.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use crate::wire::{CommandExit, RawPath};

/// A command to run in a sandbox. Its environment is exactly `env`; it inherits no variables.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program and its arguments. A program name without a slash is looked up in `PATH`.
    pub argv: Vec<RawPath>,
    /// The working directory; `/` by default.
    pub cwd: RawPath,
    /// All environment variables.
    pub env: BTreeMap<String, RawPath>,
    /// Standard input; empty means no input.
    pub stdin: Vec<u8>,
    /// After this time, every process of the command is killed, including those that left the
    /// process group.
    pub time_limit: Option<Duration>,
    /// The user who runs the command: a name from the sandbox's `/etc/passwd`, or a numeric
    /// `uid[:gid]`. Defaults to the sandbox's root.
    pub user: Option<String>,
    /// How many bytes to keep in memory from the start of each output stream. Further bytes are
    /// written to the spill file, or dropped if there is none.
    pub head_cap: usize,
    /// How many bytes to keep in memory from the end of each output stream, if the stream is longer
    /// than `head_cap`.
    pub tail_cap: usize,
    /// Base name of the spill files for output streams longer than `head_cap`: `<spill>.stdout`
    /// and `<spill>.stderr`, up to `spill_cap` bytes each.
    pub spill_base: Option<PathBuf>,
    /// Maximum size of each spill file in bytes; 64 MiB by default.
    pub spill_cap: u64,
    /// Whether to open the results pipe (descriptor 3) for the command and collect its content in
    /// [`CommandOutput::results`].
    pub has_results_pipe: bool,
    /// Whether to kill every process left in the sandbox when the command exits. Used for grading.
    pub reap_all: bool,
    /// The program to run if the first argument does not exist.
    pub fallback: Option<RawPath>,
    /// Whether to redirect standard error to standard output. With separate streams, the order of
    /// writes is lost.
    pub merge_outputs: bool,
}

impl Command {
    /// Creates a command with a standard `PATH`, `HOME=/root`, no input and no time limit. The host
    /// keeps 1 MiB of each output stream.
    pub fn new<I, S>(argv: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<RawPath>,
    {
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let env = [("PATH", path), ("HOME", "/root"), ("LANG", "C.UTF-8")];
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: RawPath::from("/"),
            env: env.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect(),
            stdin: Vec::new(),
            time_limit: None,
            user: None,
            head_cap: 1 << 20,
            tail_cap: 64 << 10,
            spill_base: None,
            spill_cap: 64 << 20,
            has_results_pipe: false,
            reap_all: false,
            fallback: None,
            merge_outputs: false,
        }
    }

    /// Creates a command that runs `line` with `/bin/sh -c`.
    pub fn shell(line: &str) -> Self {
        Self::new(["/bin/sh", "-c", line])
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<RawPath>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Sets one environment variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: impl Into<RawPath>) -> Self {
        self.env.insert(key.to_owned(), value.into());
        self
    }

    /// Sets the time limit.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }
}

/// One captured output stream.
#[derive(Debug, Clone, Default)]
pub struct CapturedOutput {
    /// The start of the stream, at most `head_cap` bytes.
    pub head: Vec<u8>,
    /// Number of bytes in the whole stream.
    pub total_bytes: u64,
    /// The end of the stream, at most `tail_cap` bytes, if `head` is incomplete.
    pub tail: Vec<u8>,
    /// The file with the complete stream, if the stream exceeded the cap and could be written to a
    /// file.
    pub spill_file: Option<PathBuf>,
}

impl CapturedOutput {
    /// Returns the head as text. Invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.head).into_owned()
    }

    /// Returns whether the head contains the whole stream.
    pub fn is_complete(&self) -> bool {
        self.head.len() as u64 == self.total_bytes
    }
}

/// The result of a finished command.
#[derive(Debug, Clone, Default)]
pub struct CommandOutput {
    /// How the command ended.
    pub exit: CommandExit,
    /// Standard output.
    pub stdout: CapturedOutput,
    /// Standard error.
    pub stderr: CapturedOutput,
    /// What the command wrote to its results pipe.
    pub results: Vec<u8>,
}

/// Describes how a command ended, for messages: `exit status 1`, `signal 9`, `timeout`.
pub fn describe_exit(exit: &CommandExit) -> String {
    match (exit.code, exit.signal) {
        _ if exit.timed_out => "timeout".to_owned(),
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit status".to_owned(),
    }
}

impl CommandOutput {
    /// Returns whether the command exited with status 0.
    pub fn success(&self) -> bool {
        self.exit.code == Some(0) && !self.exit.timed_out
    }
}
