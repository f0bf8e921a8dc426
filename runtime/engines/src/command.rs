//! Runs scheduler commands with a timeout, because they may hang while the controller is down.

use std::{
    io::{self, Read},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::EngineError;

/// Interval between checks for the end of a command.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

#[derive(Debug)]
pub(crate) enum CommandError {
    NotFound,
    TimedOut,
    Io(io::Error),
}

impl CommandError {
    pub(crate) fn to_engine_error(&self, program: &str) -> EngineError {
        match self {
            Self::NotFound => EngineError::new(format!("{program} is not on this machine's PATH"))
                .hint(
                    "submit from a login node of the cluster, or install Slurm's client programs",
                ),
            Self::TimedOut => {
                EngineError::new(format!("{program}: the controller is not responding"))
                    .hint("try again; queued and running jobs are not affected")
            }
            Self::Io(error) => EngineError::new(format!("{program}: {error}")),
        }
    }
}

/// Runs a command. Kills the command if it has not exited after the time `timeout`.
pub(crate) fn run_command(
    command: &mut Command,
    timeout: Duration,
) -> Result<CommandOutput, CommandError> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => CommandError::NotFound,
        _ => CommandError::Io(error),
    })?;
    let (out, err) = (spawn_reader(child.stdout.take()), spawn_reader(child.stderr.take()));
    let Some(status) = wait_until_exit(&mut child, timeout).map_err(CommandError::Io)? else {
        return Err(CommandError::TimedOut);
    };
    let text = |reader: thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
    };
    Ok(CommandOutput { status, stdout: text(out), stderr: text(err) })
}

fn spawn_reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn wait_until_exit(child: &mut Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + timeout;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            let _ = child.kill();
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_returns_output_and_kills_hanging_commands() {
        let said = run_command(
            Command::new("sh").args(["-c", "echo a; echo b >&2; exit 3"]),
            POLL_INTERVAL * 500,
        );
        let said = said.unwrap();
        assert_eq!(
            (said.status.code(), said.stdout.trim(), said.stderr.trim()),
            (Some(3), "a", "b")
        );
        let hangs = run_command(Command::new("sleep").arg("60"), POLL_INTERVAL * 5);
        assert!(matches!(hangs, Err(CommandError::TimedOut)));
        let gone = run_command(&mut Command::new("proctor-no-such-program"), POLL_INTERVAL);
        assert!(matches!(gone, Err(CommandError::NotFound)));
    }
}
