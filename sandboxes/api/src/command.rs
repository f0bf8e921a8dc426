//! A command and its result.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use crate::wire::{CommandExit, RawPath};

/// A command. Its environment is exactly `env`; it inherits no variables.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program and its arguments. A program name without a slash is looked up in `PATH`.
    pub argv: Vec<RawPath>,
    /// Its working directory; defaults to `/`.
    pub cwd: RawPath,
    /// All environment variables.
    pub env: BTreeMap<String, RawPath>,
    /// Standard input; empty means no input.
    pub stdin: Vec<u8>,
    /// After this time, every process of the command is killed, even one that left the process group.
    pub time_limit: Option<Duration>,
    /// A user name in the sandbox or a numeric `uid[:gid]`. Defaults to the sandbox's root.
    pub user: Option<String>,
    /// Number of bytes kept in memory from the start of each output stream. The rest is spilled or
    /// dropped.
    pub output_cap: usize,
    /// Number of bytes kept in memory from the end of each output stream if the head is incomplete.
    pub tail_cap: usize,
    /// Base name of the files for output streams that exceed the cap: `<spill>.stdout` and
    /// `<spill>.stderr`, up to `spill_cap` bytes each.
    pub spill: Option<PathBuf>,
    /// Maximum bytes of each spilled file; defaults to 64 MiB.
    pub spill_cap: u64,
    /// Opens the results pipe (descriptor 3) and collects it in [`CommandOutput::results`].
    pub results: bool,
    /// Kills every process left in the sandbox when the command exits. Used for grading.
    pub reap_all: bool,
    /// Program to run if the first argument does not exist.
    pub fallback: Option<RawPath>,
    /// Redirects standard error to standard output. With two separate streams the order of writes
    /// is lost.
    pub merged: bool,
}

impl Command {
    /// Creates a command with a plain `PATH`, `HOME=/root`, no input and no time limit. It keeps 1
    /// MiB of each output stream.
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
            output_cap: 1 << 20,
            tail_cap: 64 << 10,
            spill: None,
            spill_cap: 64 << 20,
            results: false,
            reap_all: false,
            fallback: None,
            merged: false,
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

/// One captured stream.
#[derive(Debug, Clone, Default)]
pub struct CapturedOutput {
    /// The start, at most `output_cap` bytes.
    pub head: Vec<u8>,
    /// Number of bytes written.
    pub total: u64,
    /// The last bytes (at most `tail_cap`) if the head is incomplete.
    pub tail: Vec<u8>,
    /// The file with the complete stream, if it exceeded the cap and could be written.
    pub spill: Option<PathBuf>,
}

impl CapturedOutput {
    /// Returns the head as text. Invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.head).into_owned()
    }

    /// Returns whether the head is the complete output.
    pub fn is_complete(&self) -> bool {
        self.head.len() as u64 == self.total
    }
}

/// A finished command.
#[derive(Debug, Clone, Default)]
pub struct CommandOutput {
    /// How the command ended.
    pub exited: CommandExit,
    /// Standard output.
    pub stdout: CapturedOutput,
    /// Standard error.
    pub stderr: CapturedOutput,
    /// What the command wrote to the results pipe.
    pub results: Vec<u8>,
}

/// Describes how a command ended, for messages: `exit status 1`, `signal 9`, `timeout`.
pub fn describe_exit(exited: &CommandExit) -> String {
    match (exited.code, exited.signal) {
        _ if exited.timed_out => "timeout".to_owned(),
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit status".to_owned(),
    }
}

impl CommandOutput {
    /// Returns whether the command exited with status 0.
    pub fn success(&self) -> bool {
        self.exited.code == Some(0) && !self.exited.timed_out
    }
}
