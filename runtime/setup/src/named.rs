//! Whether a sandbox has what its task names, before anybody works in it.

use proctor_sandbox_api::{Command, SandboxError, SandboxHandle, wire::RawPath};
use proctor_types::{Cause, Fault, Layer, Task};

/// Looks for the work directory and the user of a task.
///
/// # Errors
/// One of them is not there: each sandbox of the task would meet the same, so the fault halts the task.
pub async fn check_named(handle: &SandboxHandle, task: &Task) -> Result<(), Fault> {
    let missing = |what: String, hint: &str| {
        Err(Fault::new(Layer::Setup, what).context(&task.id).cause(Cause::Missing).hint(hint))
    };
    // One that starts from scratch may get its work directory only then.
    if task.from_scratch.is_none() {
        let found = handle.stat(&RawPath::new(task.workdir.as_bytes())).await;
        let found = found.map_err(|error| error.fault("looking for the work directory"))?;
        if found.is_none() {
            let what = format!("its sandbox has no work directory {}", task.workdir);
            return missing(what, "correct the task's `workdir`, or its set-up lines");
        }
    }
    if let Some(user) = &task.user {
        let mut command = Command::new(["true"]);
        command.user = Some(user.clone());
        match handle.run(command).await {
            // Whether there is such a program says nothing here.
            Ok(_) => {}
            Err(SandboxError::Refused(refusal)) => {
                return missing(refusal.what, "correct the task's `user`");
            }
            Err(error) => return Err(error.fault("looking for the user")),
        }
    }
    Ok(())
}
