//! What all trials share when something fails: environments that are built again, the count of faults, and
//! waits - between the tries of a trial, and for a back end that is away.

use std::{sync::Arc, time::Instant};

use proctor_sandbox_api::{Backend, Prepared};
use proctor_setup::{LayerFindings, on_image};
use proctor_types::{Arm, Cause, Fault, Layer, TrialId};
use tokio::time::sleep;

use crate::{Cancel, PlannedTask, Progress, RunContext, fault_policy::ScopeKind, halts::Affected};

/// The environment of a trial.
pub(crate) struct TrialEnvironment {
    /// The task with what it takes from its image.
    pub(crate) planned: PlannedTask,
    pub(crate) environment: Prepared,
    /// What its leak check found.
    pub(crate) findings: Arc<LayerFindings>,
}

impl RunContext {
    /// The environment of a trial, built or built again where it is not there, and what its leak check found. Once
    /// the run winds down, no trial waits for a build or a check.
    pub(crate) async fn environment(
        &self,
        id: &TrialId,
        planned: &PlannedTask,
        arm: &Arm,
    ) -> Result<TrialEnvironment, Fault> {
        tokio::select! {
            // First: what is there already can be had without waiting.
            biased;
            made = self.made_environment(id, planned, arm) => made,
            () = self.cancel.winding_down() => Err(Cancel::fault()),
        }
    }

    /// A build is told, and shows that builds are well.
    async fn made_environment(
        &self,
        id: &TrialId,
        planned: &PlannedTask,
        arm: &Arm,
    ) -> Result<TrialEnvironment, Fault> {
        let backend = self.backend(arm.sandbox.kind)?.as_ref();
        let (task, base_dir) = (planned.task.as_ref(), &planned.base_dir);
        let (environment, image, built) =
            self.environments.get(backend, task, base_dir, &self.faults).await?;
        if let Some(seconds) = built {
            self.halts.well(&Affected::of(arm, id), ScopeKind::Builds);
            self.tell(Progress::EnvironmentBuilt { task: task.id.to_string(), seconds });
        }
        let task = Arc::new(on_image(task, &image)?);
        let found = self.leak_checks.get(backend, &environment, &task, &arm.sandbox, &self.faults);
        let findings = found.await?;
        let planned = PlannedTask { task, base_dir: base_dir.clone() };
        Ok(TrialEnvironment { planned, environment, findings })
    }

    /// Counts a fault that ended a trial.
    pub(crate) fn met(&self, affected: &Affected, fault: &Fault) {
        self.halts.note(&self.faults, affected, fault);
    }

    /// What a fault of a try comes to: itself, or that of the whole back end, where that does not come
    /// back for as long as the policy waits. An engine that is being restarted costs each trial a try;
    /// one that is gone costs the run no more than this one wait.
    pub(crate) async fn look_behind(
        &self,
        backend: &dyn Backend,
        affected: &Affected,
        fault: Fault,
    ) -> Fault {
        let of_sandbox = matches!(fault.layer, Layer::Sandbox | Layer::Environment | Layer::Grade);
        if !of_sandbox || matches!(fault.cause, Cause::Refused | Cause::Cancelled | Cause::Invalid)
        {
            return fault;
        }
        let (patience, look) = self.faults.back_end();
        let begun = Instant::now();
        loop {
            let Err(gone) = backend.check().await else { return fault };
            let halted = self.halts.of(affected, true).is_some();
            let waits = gone.cause == Cause::BackEndGone && begun.elapsed() < patience;
            if halted || !waits || self.cancel.is_told() {
                return gone.context(&fault.what);
            }
            self.pause(look).await;
        }
    }

    /// Waits before another try. An interruption ends the wait.
    pub(crate) async fn pause(&self, length: std::time::Duration) {
        tokio::select! {
            () = sleep(length) => {}
            () = self.cancel.told() => {}
        }
    }
}
