//! The definition of an attack, a macro for lists of attacks, and shared helpers.

use std::time::Duration;

use proctor_sandbox_api::{
    Command, SandboxHandle,
    wire::{Defense, SnapshotRequest},
};
use proctor_types::SandboxSpec;

use crate::{
    CheckError,
    check::Body,
    fixture::{ensure, expect_success, raw_path},
};

/// One attack.
pub struct Attack {
    pub name: &'static str,
    /// The attack succeeds if these defenses are disabled in a native sandbox and Proctor runs as
    /// the machine's root. Empty if demonstrating this would harm the machine.
    pub prevented_by: &'static [Defense],
    pub(super) limits: fn() -> SandboxSpec,
    pub(super) body: Body,
}

/// Creates a list of attacks from functions and the defenses against them.
macro_rules! list {
    ($($name:ident [$($defense:ident)*]),* $(,)?) => {
        vec![$($crate::attacks::attack::Attack {
            name: stringify!($name),
            prevented_by: &[$(proctor_sandbox_api::wire::Defense::$defense),*],
            limits: $crate::attacks::attack::small_limits,
            body: |fixture| Box::pin($name(fixture)),
        }),*]
    };
}
pub(super) use list;

/// Returns limits that are small enough for an attack to reach them within a second.
pub(super) fn small_limits() -> SandboxSpec {
    SandboxSpec { cpus: 1.0, memory_mb: 256, processes: 64, disk_mb: 64, ..SandboxSpec::default() }
}

/// Python code at the start of every attack program.
const PRELUDE: &str = include_str!("programs/prelude.py");

/// Returns a command that runs an attack's Python program as the sandbox's root.
pub(super) fn attack_command(program: &str, arguments: &[&str]) -> Command {
    let text = format!("{PRELUDE}\n{program}\nprint('done')\n");
    let mut argv = vec!["python3".to_owned(), "-c".to_owned(), text];
    argv.extend(arguments.iter().map(|&argument| argument.to_owned()));
    Command::new(argv.iter().map(String::as_str)).time_limit(Duration::from_secs(120))
}

/// Runs an attack program that makes several attempts. Asserts that it finished and that no attempt
/// succeeded.
pub(super) async fn assert_no_breach(
    handle: &SandboxHandle,
    program: &str,
    arguments: &[&str],
) -> Result<(), CheckError> {
    let done = handle.run(attack_command(program, arguments)).await?;
    let said = expect_success(&done)?;
    let worked: Vec<_> = said.lines().filter(|line| line.starts_with("BREACH")).take(5).collect();
    ensure!(worked.is_empty(), "{}", worked.join("; "));
    ensure!(said.ends_with("done\n"), "the program did not finish: {said:?}");
    Ok(())
}

/// Returns a request for the first snapshot of a directory, limited to a thousand entries.
pub(super) fn snapshot_request(root: &str) -> SnapshotRequest {
    SnapshotRequest {
        root: raw_path(root),
        fresh: true,
        skip: Vec::new(),
        file_limit: 1 << 20,
        entry_limit: 1_000,
        content_limit: 0,
    }
}

/// Asserts that the agent still responds and that commands still run.
pub(super) async fn assert_responsive(handle: &SandboxHandle) -> Result<(), CheckError> {
    let answer = async {
        handle.ping().await?;
        expect_success(&handle.run(Command::shell("echo well")).await?)
    };
    let said = tokio::time::timeout(Duration::from_secs(30), answer).await;
    let said =
        said.map_err(|_| CheckError::Failed("the sandbox is no longer responding".into()))??;
    ensure!(said == "well\n", "{said:?}");
    Ok(())
}

/// Returns whether a defense is active in the sandbox.
pub(super) fn is_defense_active(fixture: &crate::Fixture<'_>, defense: Defense) -> bool {
    fixture.skip_unless_enforced(defense.name()).is_ok()
}
