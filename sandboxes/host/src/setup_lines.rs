//! Runs an environment's setup commands in the same way on every back end.

use std::time::{Duration, Instant};

use proctor_sandbox_api::{Command, CommandOutput, LayerSpec, SandboxHandle};
use proctor_types::{Fault, FaultCause, FaultLayer};

use crate::host_base;

/// Maximum number of characters to quote from a failed command's output.
const MAX_QUOTED_CHARS: usize = 4_000;

/// Runs the setup commands in order and stops at the first that fails. Kills processes that a
/// command leaves behind.
///
/// # Errors
/// Returns an environment fault that names the failed command and quotes the end of its output.
pub async fn run(handle: &SandboxHandle, spec: &LayerSpec) -> Result<(), Fault> {
    let started = Instant::now();
    for (index, line) in spec.setup.iter().enumerate() {
        let number = index + 1;
        let left = spec.time_limit.saturating_sub(started.elapsed()).max(Duration::from_millis(1));
        let mut command = Command::shell(line).cwd(spec.workdir.clone()).time_limit(left);
        command.reap_all = true;
        for (key, value) in host_base::setup_env().iter().chain(&spec.env) {
            command = command.env(key, value.as_str());
        }
        tracing::debug!(number, line, "setup");
        let done = handle.run(command).await.map_err(|error| {
            Fault::new(
                FaultLayer::Environment,
                format!("setup command {number} (`{line}`): {error}"),
            )
        })?;
        if !done.success() {
            return Err(setup_command_fault(number, line, &done));
        }
    }
    Ok(())
}

fn setup_command_fault(line_number: usize, line: &str, command_output: &CommandOutput) -> Fault {
    let how =
        match (command_output.exit.timed_out, command_output.exit.code, command_output.exit.signal)
        {
            (true, ..) => "timed out".to_owned(),
            (_, Some(code), _) => format!("ended with exit status {code}"),
            (_, None, Some(signal)) => format!("was killed by signal {signal}"),
            (_, None, None) => "did not end on its own".to_owned(),
        };
    let output = [&command_output.stdout, &command_output.stderr].map(|stream| {
        let bytes = if stream.is_complete() { &stream.head } else { &stream.tail };
        String::from_utf8_lossy(bytes).into_owned()
    });
    let output = output.concat();
    let skipped = output.chars().count().saturating_sub(MAX_QUOTED_CHARS);
    let tail: String = output.chars().skip(skipped).collect();
    let said = match tail.trim_end() {
        "" => " and printed nothing".to_owned(),
        tail => format!(":\n{tail}"),
    };
    let what = format!("setup command {line_number} (`{line}`) {how}{said}");
    let fault =
        Fault::new(FaultLayer::Environment, what).cause(match FaultCause::from_output(&tail) {
            FaultCause::Other => FaultCause::SetupLine,
            known => known,
        });
    match tail.contains("ensurepip is not available") || tail.contains("No module named ensurepip")
    {
        true => {
            fault.hint("install python3-venv in the image or, if the base is the host, on the host")
        }
        false => fault.hint(
            "fix the task's `environment.setup`; each line runs as root in the work directory",
        ),
    }
}
