//! How all trials react to failures: rebuild environments, count faults, and wait between tries or
//! for an unavailable back end.

use std::{sync::Arc, time::Instant};

use proctor_sandbox_api::{Backend, Prepared};
use proctor_setup::{LayerFindings, on_image};
use proctor_types::{Arm, Cause, Fault, Layer, TrialId};
use tokio::time::sleep;

use crate::{Cancel, PlannedTask, Progress, RunContext, fault_policy::ScopeKind, halts::Affected};

/// The environment of a trial.
pub(crate) struct TrialEnvironment {
    /// The task with the values from its image.
    pub(crate) planned: PlannedTask,
    pub(crate) environment: Prepared,
    /// Findings of its leak check.
    pub(crate) findings: Arc<LayerFindings>,
}

impl RunContext {
    /// The environment of a trial, built if it is missing, and the findings of its leak check. Once
    /// the run winds down, no trial waits for a build or a check.
    pub(crate) async fn environment(
        &self,
        id: &TrialId,
        planned: &PlannedTask,
        arm: &Arm,
    ) -> Result<TrialEnvironment, Fault> {
        tokio::select! {
            // First branch: an existing environment needs no waiting.
            biased;
            made = self.made_environment(id, planned, arm) => made,
            () = self.cancel.winding_down() => Err(Cancel::fault()),
        }
    }

    /// Reports a build; a successful one clears the fault count of builds.
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

    /// Returns the fault of a try, or a fault of the whole back end if that stays unavailable for
    /// as long as the policy waits. Restarting an engine costs each trial one try; an engine that
    /// is gone costs the run only this one wait.
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
