//! If a scaffold's loop is a user's program, this program has its own sandbox. The sandbox is
//! separate from the task's sandbox, and the leak check scans both for the same secrets.

use std::{sync::Arc, time::Duration};

use proctor_sandbox_api::{
    Backend, Base, LayerSpec, PreparedEnvironment, Sandbox, SandboxRequest, wire::RawPath,
};
use proctor_scaffold_api::OwnSandbox;
use proctor_setup::{LayerFindings, Preparation, Purpose};
use proctor_types::{Arm, Environment, Fault, FaultCause, FaultLayer, SandboxKind, Task};

use crate::RunContext;

/// Time limit for building the program's layer. The layer is a single empty directory, so a short
/// limit is enough.
const BUILD_TIME_LIMIT: Duration = Duration::from_secs(60);

/// Everything needed to open the sandbox of a user's program in a trial.
pub(crate) struct ProgramSandbox {
    own_sandbox: OwnSandbox,
    environment: PreparedEnvironment,
    /// The trial's task, in which the program's environment replaces the task's.
    task: Task,
    findings: Arc<LayerFindings>,
}

impl ProgramSandbox {
    /// Returns the sandbox that the arm's scaffold requests, or `None` if it requests none.
    /// `findings` come from the task's sandbox and identify the task's secrets.
    pub(crate) async fn for_arm(
        context: &RunContext,
        arm: &Arm,
        task: &Task,
        findings: &LayerFindings,
    ) -> Result<Option<Self>, Fault> {
        let settings = arm.settings_table();
        let wanted = context.scaffold(arm)?.own_sandbox(&settings);
        let wanted = wanted.map_err(|(what, hint)| {
            Fault::new(FaultLayer::Setup, what).cause(FaultCause::Invalid).hint(hint)
        })?;
        let Some(wanted) = wanted else { return Ok(None) };
        let backend = context.backend(SandboxKind::Native)?.as_ref();
        let workdir = RawPath::from(wanted.workdir.as_str());
        let spec = LayerSpec {
            base: Base::Host,
            source: None,
            setup: Vec::new(),
            workdir,
            env: Vec::new(),
            time_limit: BUILD_TIME_LIMIT,
        };
        let environment =
            context.environments.get_shared(backend, &spec, &context.fault_policy).await?;
        let environment_of_it = Environment { base: Some("host".into()), ..Environment::default() };
        let task = Task { environment: environment_of_it, ..task.clone() };
        let searched =
            async || search_own_sandbox(backend, &environment, &wanted, &task, findings).await;
        let place = format!("{} {}", environment.digest, wanted.digest);
        let findings = context
            .leak_checks
            .get_for_sandbox(backend, &place, &task, &context.fault_policy, searched)
            .await?;
        Ok(Some(Self { own_sandbox: wanted, environment, task, findings }))
    }

    /// Opens the sandbox. Removes copies of the task's hidden content or rejects the sandbox,
    /// depending on the arm's policy.
    pub(crate) async fn open(
        &self,
        context: &RunContext,
        arm: &Arm,
        label: &str,
    ) -> Result<Box<dyn Sandbox>, Fault> {
        let preparation = Preparation {
            backend: context.backend(SandboxKind::Native)?.as_ref(),
            environment: &self.environment,
            task: &self.task,
            findings: &self.findings,
            limits: &self.own_sandbox.limits,
            mounts: &self.own_sandbox.mounts,
            label: format!("agent of {label}"),
        };
        let ready = preparation.open(Purpose::Driving(arm.leak_check.on_finding)).await;
        ready.map(|ready| ready.sandbox).map_err(|fault| fault.context("the agent's own sandbox"))
    }
}

async fn search_own_sandbox(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    own_sandbox: &OwnSandbox,
    task: &Task,
    findings: &LayerFindings,
) -> Result<LayerFindings, Fault> {
    let request = SandboxRequest {
        environment: environment.clone(),
        limits: own_sandbox.limits.clone(),
        mounts: own_sandbox.mounts.clone(),
        purpose: format!("the leak check of the agent's sandbox for {}", task.id),
    };
    let mut sandbox = backend.open(&request).await?;
    let found = findings.search_program_sandbox(sandbox.handle(), task).await;
    // Keep the findings even if closing fails. The next run removes leftovers.
    let _ = sandbox.close().await;
    found
}
