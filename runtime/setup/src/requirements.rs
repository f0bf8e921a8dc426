//! Checks that a sandbox has the work directory and user that the task specifies, before anything
//! runs there.

use proctor_sandbox_api::{Command, SandboxError, SandboxHandle, wire::RawPath};
use proctor_types::{Fault, FaultCause, FaultLayer, Task};

/// Checks that the work directory and the user of a task exist.
///
/// # Errors
/// Fails if one of them is missing. Every sandbox of the task would fail in the same way, so the
/// fault stops all trials of the task.
pub async fn check_workdir_and_user(handle: &SandboxHandle, task: &Task) -> Result<(), Fault> {
    let missing = |what: String, hint: &str| {
        Err(Fault::new(FaultLayer::Setup, what)
            .context(&task.id)
            .cause(FaultCause::Missing)
            .hint(hint))
    };
    // The work directory of a task that starts from scratch may be created later.
    if task.from_scratch.is_none() {
        let found = handle.stat(&RawPath::new(task.workdir.as_bytes())).await;
        let found = found.map_err(|error| error.to_fault("checking the work directory"))?;
        if found.is_none() {
            let what = format!("the sandbox has no work directory {}", task.workdir);
            return missing(what, "fix the task's `workdir`, or its setup commands");
        }
    }
    if let Some(user) = &task.user {
        let mut command = Command::new(["true"]);
        command.user = Some(user.clone());
        match handle.run(command).await {
            // The command could run as the user. It does not matter whether its program exists.
            Ok(_) => {}
            Err(SandboxError::Refused(refusal)) => {
                let hint = "fix the task's `user`; `proctor doctor` shows whether sandboxes \
                            support other users on this machine";
                return missing(refusal.what, hint);
            }
            Err(error) => return Err(error.to_fault("checking the user")),
        }
    }
    if !task.should_chown_folders() {
        return Ok(());
    }
    check_ownership(handle, task).await
}

/// Checks that the task's user owns the work directory and the home directory.
async fn check_ownership(handle: &SandboxHandle, task: &Task) -> Result<(), Fault> {
    let (Some(user), Some(home)) = (&task.user, task.user_home()) else { return Ok(()) };
    let line = r#"[ -O . ] && [ -w . ] && [ -O "$HOME/." ] && [ -w "$HOME/." ]"#;
    let mut command = Command::shell(line).cwd(task.workdir.as_str()).env("HOME", home.as_str());
    command.user = Some(user.clone());
    let done = handle.run(command).await;
    let done = done.map_err(|error| error.to_fault("checking the user's folders"))?;
    // Any other status means that the shell itself is missing, so ignore it.
    if done.exit.code != Some(1) {
        return Ok(());
    }
    let workdir = &task.workdir;
    let what = format!("the task's user {user} does not own both {workdir} and {home}");
    Err(Fault::new(FaultLayer::Setup, what).context(&task.id).cause(FaultCause::Invalid).hint(
        "setup gives the user ownership of both folders, so check for mounts and read-only \
             folders",
    ))
}
