//! Prepares the work directory for a task whose agent starts without the source.

use proctor_sandbox_api::{SandboxHandle, wire::RawPath};
use proctor_types::{Fault, FromScratch};

/// Empties the work directory, including dotfiles, and adds the few files that the task provides
/// to the agent.
pub(crate) async fn reset_workdir(
    handle: &SandboxHandle,
    workdir: &RawPath,
    from_scratch: &FromScratch,
) -> Result<(), Fault> {
    let entries =
        handle.list(workdir).await.map_err(|error| error.to_fault("listing the work directory"))?;
    for entry in entries {
        let path = workdir.join(&entry.name);
        handle
            .remove(&path)
            .await
            .map_err(|error| error.to_fault("emptying the work directory"))?;
    }
    for (path, text) in &from_scratch.files {
        let full = workdir.join(&RawPath::from(path.as_str()));
        handle
            .write_beneath(workdir, &full, text.as_bytes(), Some(0o644))
            .await
            .map_err(|error| error.to_fault(format!("writing {path}")))?;
    }
    Ok(())
}
