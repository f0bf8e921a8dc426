//! Looks through an environment for what a task hides, once, in a sandbox that nobody else will use.

use proctor_sandbox_api::{Backend, Prepared, SandboxHandle, SandboxRequest, wire::RawPath};
use proctor_setup::{LayerFindings, ToolFiles, check_named};
use proctor_types::{Fault, Layer, SandboxSpec, Task};
use serde::Deserialize;

use crate::{launch::Launch, probe::isolated};

const TOOLS: &str = include_str!("../python/tools.py");

#[derive(Deserialize)]
struct Tools {
    loaded: Vec<String>,
    declared: Vec<String>,
}

/// Which copies of the task's hidden content the environment holds, and which of them the test tools need.
///
/// # Errors
///
/// A fault of the sandbox where it cannot be opened or searched, of the setup where the mask does not fit.
pub async fn find_leaks(
    backend: &dyn Backend,
    environment: &Prepared,
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
        check_named(handle, task).await?;
        if task.harbor.is_some() {
            return Ok(LayerFindings::nothing());
        }
        let mut findings = LayerFindings::take(handle, task).await?;
        if findings.has_leaks() {
            // Before anything is masked: the work directory may be one of the tool's modules.
            findings.tools = tools(handle, task).await?;
        }
        findings.look_at_workdir(handle, task).await?;
        Ok(findings)
    };
    let found = work.await;
    // What was found is known, whatever becomes of the sandbox; the next run removes what is left.
    let _ = sandbox.close().await;
    found
}

/// Nothing where the tests are not pytest's, or the interpreter does not run: then nothing is kept for
/// it, and the grading says what is missing.
async fn tools(handle: &SandboxHandle, task: &Task) -> Result<ToolFiles, Fault> {
    let passing = |fault: Fault| match fault.layer {
        Layer::Sandbox => Err(fault),
        _ => Ok(()),
    };
    let launch = match Launch::read(handle, &task.test_command, &task.env).await {
        Ok(launch) => launch,
        Err(fault) => return passing(fault).map(|()| ToolFiles::default()),
    };
    let user = task.user.as_deref();
    let out = isolated(handle, &launch, &task.workdir, &task.env, user, TOOLS, b"").await;
    let out = match out {
        Ok(out) => out,
        Err(fault) => return passing(fault).map(|()| ToolFiles::default()),
    };
    let Ok(tools) = serde_json::from_slice::<Tools>(&out) else { return Ok(ToolFiles::default()) };
    let paths = |files: Vec<String>| files.into_iter().map(RawPath::from).collect();
    Ok(ToolFiles { loaded: paths(tools.loaded), declared: paths(tools.declared) })
}
