//! Parses a test command and finds its Python interpreter.

use std::collections::BTreeMap;

use proctor_sandbox_api::{
    SandboxError, SandboxHandle,
    wire::{RawPath, RefusalKind},
};
use proctor_types::{Fault, FaultCause, FaultLayer};

/// How pytest is started: `interpreter... [-m pytest] arguments...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The interpreter and the interpreter's own flags.
    pub interpreter: Vec<String>,
    /// Whether the working directory is on the import path. `python -m pytest` adds the directory,
    /// `pytest` does not.
    pub cwd_on_path: bool,
    pub arguments: Vec<String>,
}

/// Maximum length of a `#!` line, in bytes.
const SHEBANG_LIMIT: usize = 4096;

/// Maximum size of a launcher script, in bytes.
const SCRIPT_LIMIT: u64 = 1 << 20;

impl Launch {
    /// Accepts `python [flags] -m pytest ...` and `pytest ...`.
    ///
    /// Rejects commands that start pytest in another way (a shell line, a wrapper), because the
    /// recorder could not start before the graded code.
    pub(crate) async fn from_command(
        handle: &SandboxHandle,
        command: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<Self, Fault> {
        if let Some(launch) = Self::parse_module_command(command) {
            return Ok(launch);
        }
        let Some(script) = command.first().filter(|_| Self::is_script(command)) else {
            return Err(not_pytest_fault(command));
        };
        let interpreter = read_shebang(handle, script, env).await?.ok_or_else(|| {
            invalid_command_fault(command, "the script does not start with `#!` and an interpreter")
        })?;
        Ok(Self { interpreter, cwd_on_path: false, arguments: command[1..].to_vec() })
    }

    fn is_script(command: &[String]) -> bool {
        let first = command.first().and_then(|first| first.rsplit('/').next());
        matches!(first, Some("pytest" | "py.test"))
    }

    fn parse_module_command(command: &[String]) -> Option<Self> {
        let at = command
            .windows(2)
            .position(|pair| pair[0] == "-m" && matches!(pair[1].as_str(), "pytest" | "py.test"))?;
        let name = command.first()?.rsplit('/').next()?;
        (at > 0 && (name.starts_with("python") || name.starts_with("pypy"))).then(|| Self {
            interpreter: command[..at].to_vec(),
            cwd_on_path: true,
            arguments: command[at + 2..].to_vec(),
        })
    }
}

/// Whether [`Launch::from_command`] accepts a test command. Does not check that the script exists.
pub(crate) fn starts_pytest(command: &[String]) -> bool {
    Launch::is_script(command) || Launch::parse_module_command(command).is_some()
}

async fn read_shebang(
    handle: &SandboxHandle,
    script: &str,
    env: &BTreeMap<String, String>,
) -> Result<Option<Vec<String>>, Fault> {
    let path = env.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
    let candidates: Vec<String> = if script.contains('/') {
        vec![script.to_owned()]
    } else {
        path.split(':').map(|folder| format!("{folder}/{script}")).collect()
    };
    for candidate in candidates {
        let text = match handle.read(&RawPath::from(candidate), SCRIPT_LIMIT).await {
            Ok(text) => text,
            Err(SandboxError::Refused(refusal)) if refusal.why == RefusalKind::NotFound => continue,
            Err(error) => return Err(error.to_fault("reading the test command's script")),
        };
        let head = &text[..text.len().min(SHEBANG_LIMIT)];
        let line =
            String::from_utf8_lossy(head.split(|byte| *byte == b'\n').next().unwrap_or(head));
        let words: Vec<String> =
            line.strip_prefix("#!").unwrap_or("").split_whitespace().map(str::to_owned).collect();
        return Ok((!words.is_empty()).then_some(words));
    }
    Ok(None)
}

pub(crate) fn not_pytest_fault(command: &[String]) -> Fault {
    invalid_command_fault(command, "it is not `python -m pytest ...` or `pytest ...`")
}

fn invalid_command_fault(command: &[String], reason: &str) -> Fault {
    Fault::new(
        FaultLayer::Grade,
        format!("the test command {command:?} cannot be graded: {reason}"),
    )
    .cause(FaultCause::Invalid)
    .hint(
        "set `test_command` to [\"python\", \"-m\", \"pytest\", ...], or describe the results \
             of another runner in `test_results`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn launch_separates_interpreter_flags_from_pytest_arguments() {
        let launch =
            Launch::parse_module_command(&words("/venv/bin/python -X dev -m pytest -q")).unwrap();
        assert_eq!(launch.interpreter, words("/venv/bin/python -X dev"));
        assert_eq!(launch.arguments, ["-q"]);
        assert!(launch.cwd_on_path);
    }

    #[test]
    fn launch_rejects_other_launchers() {
        assert_eq!(Launch::parse_module_command(&words("coverage run -m pytest")), None);
        assert_eq!(Launch::parse_module_command(&words("-m pytest")), None);
        assert_eq!(Launch::parse_module_command(&words("make test")), None);
        assert!(!starts_pytest(&words("./tests/runtests.py --verbosity 2")));
        assert!(!starts_pytest(&[]));
        assert!(
            starts_pytest(&words("/opt/bin/pytest -rA"))
                && starts_pytest(&words("python -m pytest"))
        );
    }
}
