//! Runs an environment's set-up lines in the same way on every back end.

use std::time::{Duration, Instant};

use proctor_sandbox_api::{Command, CommandOutput, LayerSpec, SandboxHandle};
use proctor_types::{Cause, Fault, Layer};

use crate::host_base;

/// Maximum number of characters to quote from a failed line's output.
const MAX_QUOTED_CHARS: usize = 4_000;

/// Runs the lines in order and stops at the first that fails. Kills processes that a line leaves
/// behind.
///
/// # Errors
/// Returns an environment fault that names the failed line and quotes the end of its output.
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
        tracing::debug!(number, line, "set-up");
        let done = handle.run(command).await.map_err(|error| {
            Fault::new(Layer::Environment, format!("set-up line {number} (`{line}`): {error}"))
        })?;
        if !done.success() {
            return Err(setup_line_fault(number, line, &done));
        }
    }
    Ok(())
}

fn setup_line_fault(number: usize, line: &str, done: &CommandOutput) -> Fault {
    let how = match (done.exited.timed_out, done.exited.code, done.exited.signal) {
        (true, ..) => "timed out".to_owned(),
        (_, Some(code), _) => format!("ended with exit status {code}"),
        (_, None, Some(signal)) => format!("was killed by signal {signal}"),
        (_, None, None) => "did not end on its own".to_owned(),
    };
    let output = [&done.stdout, &done.stderr].map(|stream| {
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
    let what = format!("set-up line {number} (`{line}`) {how}{said}");
    let fault = Fault::new(Layer::Environment, what).cause(match Cause::from_output(&tail) {
        Cause::Other => Cause::SetupLine,
        known => known,
    });
    match tail.contains("ensurepip is not available") || tail.contains("No module named ensurepip")
    {
        true => fault.hint("install python3-venv in the image, or on the host of a host base"),
        false => fault.hint(
            "fix the task's `environment.setup`; each line runs as root in the work directory",
        ),
    }
}
