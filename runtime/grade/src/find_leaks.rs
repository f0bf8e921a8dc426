//! Scans an environment for a task's hidden content. The scan runs once, in its own sandbox.

use proctor_sandbox_api::{
    Backend, PreparedEnvironment, SandboxHandle, SandboxRequest, wire::RawPath,
};
use proctor_setup::{LayerFindings, ToolFiles, check_workdir_and_user};
use proctor_types::{Fault, FaultLayer, SandboxSpec, Task};
use serde::Deserialize;

use crate::{launch::Launch, probe::run_isolated_script};

const TOOLS_SCRIPT: &str = include_str!("../python/tools.py");

#[derive(Deserialize)]
struct Tools {
    loaded: Vec<String>,
    declared: Vec<String>,
}

/// Returns the environment's copies of the task's hidden content, and which of these copies the
/// test tools need.
///
/// # Errors
///
/// A sandbox fault if the sandbox cannot be opened or searched; a setup fault if the mask does not
/// apply.
pub async fn find_leaks(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    task: &Task,
    limits: &SandboxSpec,
) -> Result<LayerFindings, Fault> {
    let request = SandboxRequest {
        environment: environment.clone(),
        limits: limits.clone(),
        mounts: Vec::new(),
        purpose: format!("the leak check of {}", task.id),
    };
    let mut sandbox = backend.open(&request).await?;
    let handle = sandbox.handle();
    let work = async {
        check_workdir_and_user(handle, task).await?;
        if task.harbor.is_some() {
            return Ok(LayerFindings::empty());
        }
        let mut findings = LayerFindings::search_environment(handle, task).await?;
        if findings.has_leaks() {
            // Do this before masking: the test tool may import modules from the work directory.
            findings.tools = tool_files(handle, task).await?;
        }
        findings.search_workdir(handle, task).await?;
        Ok(findings)
    };
    let found = work.await;
    // Keep the findings even if closing fails. The next run removes leftover sandboxes.
    let _ = sandbox.close().await;
    found
}

/// Returns the files that the test tool loads or declares. The result is empty if the tests do not
/// use pytest or the interpreter does not start. In that case, no copies are kept for the tool, and
/// grading reports what is missing.
async fn tool_files(handle: &SandboxHandle, task: &Task) -> Result<ToolFiles, Fault> {
    let passing = |fault: Fault| match fault.layer {
        FaultLayer::Sandbox => Err(fault),
        _ => Ok(()),
    };
    let launch = match Launch::from_command(handle, &task.test_command, &task.env).await {
        Ok(launch) => launch,
        Err(fault) => return passing(fault).map(|()| ToolFiles::default()),
    };
    let user = task.user.as_deref();
    let out =
        run_isolated_script(handle, &launch, &task.workdir, &task.env, user, TOOLS_SCRIPT, b"")
            .await;
    let out = match out {
        Ok(out) => out,
        Err(fault) => return passing(fault).map(|()| ToolFiles::default()),
    };
    let Ok(tools) = serde_json::from_slice::<Tools>(&out) else { return Ok(ToolFiles::default()) };
    let paths = |files: Vec<String>| files.into_iter().map(RawPath::from).collect();
    Ok(ToolFiles { loaded: paths(tools.loaded), declared: paths(tools.declared) })
}
