//! Handles failures for all trials: counts faults, waits between tries, and waits for unavailable
//! back ends.

use std::{sync::Arc, time::Instant};

use proctor_sandbox_api::{Backend, PreparedEnvironment};
use proctor_setup::{LayerFindings, with_image_settings};
use proctor_types::{Arm, Fault, FaultCause, FaultLayer, TrialId};
use tokio::time::sleep;

use crate::{
    CancelSignal, PlannedTask, Progress, RunContext, fault_policy::ScopeKind, halts::TrialLocation,
};

/// A trial's prepared environment.
pub(crate) struct TrialEnvironment {
    /// The task, completed with values from its image.
    pub(crate) planned_task: PlannedTask,
    pub(crate) environment: PreparedEnvironment,
    /// Findings of the environment's leak check.
    pub(crate) findings: Arc<LayerFindings>,
}

impl RunContext {
    /// Returns the environment of a trial, building it if needed, and its leak-check findings.
    /// After the run starts to wind down, no trial waits for a build or a check.
    pub(crate) async fn prepare_environment(
        &self,
        id: &TrialId,
        planned_task: &PlannedTask,
        arm: &Arm,
    ) -> Result<TrialEnvironment, Fault> {
        tokio::select! {
            // Poll this branch first, because an environment that already exists is returned
            // without waiting.
            biased;
            made = self.build_environment(id, planned_task, arm) => made,
            () = self.cancel.wait_for_wind_down() => Err(CancelSignal::cancelled_fault()),
        }
    }

    /// Builds or finds the environment. Reports a new build and clears the fault count of builds.
    async fn build_environment(
        &self,
        id: &TrialId,
        planned_task: &PlannedTask,
        arm: &Arm,
    ) -> Result<TrialEnvironment, Fault> {
        let backend = self.backend(arm.sandbox.kind)?.as_ref();
        let (task, base_dir) = (planned_task.task.as_ref(), &planned_task.base_dir);
        let (environment, image, built) =
            self.environments.get(backend, task, base_dir, &self.fault_policy).await?;
        if let Some(seconds) = built {
            self.halts.clear_faults(&TrialLocation::new(arm, id), ScopeKind::Builds);
            self.send_progress(Progress::EnvironmentBuilt { task: task.id.to_string(), seconds });
        }
        let task = Arc::new(with_image_settings(task, &image)?);
        let found =
            self.leak_checks.get(backend, &environment, &task, &arm.sandbox, &self.fault_policy);
        let findings = found.await?;
        let planned = PlannedTask { task, base_dir: base_dir.clone() };
        Ok(TrialEnvironment { planned_task: planned, environment, findings })
    }

    /// Counts a fault that ended a trial toward the thresholds at which trials are halted.
    pub(crate) fn count_fault(&self, location: &TrialLocation, fault: &Fault) {
        self.halts.count_fault(&self.fault_policy, location, fault);
    }

    /// Waits for an unavailable back end. Returns the try's fault, or a back-end fault if the back
    /// end is still unavailable after the policy's maximum wait. As a result, an engine restart
    /// costs each trial at most one try, and a longer outage makes the whole run wait only once.
    pub(crate) async fn wait_for_back_end(
        &self,
        backend: &dyn Backend,
        location: &TrialLocation,
        fault: Fault,
    ) -> Fault {
        let of_sandbox = matches!(
            fault.layer,
            FaultLayer::Sandbox | FaultLayer::Environment | FaultLayer::Grade
        );
        if !of_sandbox
            || matches!(
                fault.cause,
                FaultCause::Refused | FaultCause::Cancelled | FaultCause::Invalid
            )
        {
            return fault;
        }
        let (patience, look) = self.fault_policy.back_end_waits();
        let begun = Instant::now();
        loop {
            let Err(gone) = backend.check_availability().await else { return fault };
            let halted = self.halts.halting_fault(location, true).is_some();
            let waits = gone.cause == FaultCause::BackEndGone && begun.elapsed() < patience;
            if halted || !waits || self.cancel.is_stopping() {
                return gone.context(&fault.what);
            }
            self.wait_before_retry(look).await;
        }
    }

    /// Waits before another try. Stopping the run ends the wait early.
    pub(crate) async fn wait_before_retry(&self, duration: std::time::Duration) {
        tokio::select! {
            () = sleep(duration) => {}
            () = self.cancel.wait_for_stop() => {}
        }
    }
}
