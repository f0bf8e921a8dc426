//! Computes the limits of a task's sandboxes, checks the task's requirements, and identifies the
//! sandboxes' environment.

use proctor_sandbox_api::{Backend, PreparedEnvironment};
use proctor_setup::{LayerFindings, PREPARATION, ReadySandbox};
use proctor_types::{
    Arm, EnvironmentRecord, Fault, ResourceAmount, SandboxSpec, Task, cpu_variables, sha256_hex,
};

/// Returns the arm's limits. They are raised to the task's memory and CPU limits if those are
/// higher.
pub fn sandbox_limits(arm: &Arm, task: &Task) -> SandboxSpec {
    raise_limits(arm, task, ResourceAmount::ceiling, ResourceAmount::ceiling)
}

/// Returns the CPUs and memory to reserve for a grading: the arm's limits, raised to the task's
/// minimum requirements if those are higher.
pub(crate) fn reserved_limits(arm: &Arm, task: &Task) -> SandboxSpec {
    raise_limits(arm, task, ResourceAmount::floor, ResourceAmount::floor)
}

fn raise_limits(
    arm: &Arm,
    task: &Task,
    cpus: fn(&ResourceAmount<f64>) -> f64,
    memory: fn(&ResourceAmount<u64>) -> u64,
) -> SandboxSpec {
    let mut limits = arm.sandbox.clone();
    if let Some(resources) = &task.resources {
        let needed = resources.cpus.as_ref().map(cpus);
        limits.cpus = needed.map_or(limits.cpus, |cpus| cpus.max(limits.cpus));
        let needed = resources.memory_mb.as_ref().map(memory);
        limits.memory_mb = needed.map_or(limits.memory_mb, |mb| mb.max(limits.memory_mb));
    }
    limits
}

/// Returns a description of the task's environment for the record.
pub(crate) fn environment_record(
    environment: &PreparedEnvironment,
    task: &Task,
    limits: &SandboxSpec,
) -> EnvironmentRecord {
    EnvironmentRecord {
        user: task.user.clone(),
        // Reading the table cannot fail here, because opening the sandbox already read it.
        cpu_variables: cpu_variables(limits.cpus).unwrap_or_default(),
        ..environment.to_record()
    }
}

/// Returns a key for everything in a sandbox that affects a result, except the sandbox's limits:
/// the base, the preparation and the hidden files.
pub(crate) fn environment_key(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    findings: &LayerFindings,
) -> String {
    let parts = [
        backend.name(),
        &environment.digest,
        PREPARATION,
        &backend.agent_digest(),
        &findings.digest(),
    ];
    sha256_hex(parts.join("\n").as_bytes())
}

/// Checks that the sandbox has the files and commands that the task requires. Closes the sandbox if
/// one is missing.
pub(crate) async fn check_requirements(
    mut ready_sandbox: ReadySandbox,
    task: &Task,
) -> Result<ReadySandbox, Fault> {
    match proctor_setup::check_workdir_and_user(ready_sandbox.sandbox.handle(), task).await {
        Ok(()) => Ok(ready_sandbox),
        Err(fault) => {
            // Report the first fault, even if closing the sandbox fails too.
            let _ = ready_sandbox.sandbox.close().await;
            Err(fault)
        }
    }
}
