//! Opens a sandbox in the state that a trial had at some moment, so that a user can inspect it.

use std::sync::Arc;

use proctor_record::{Tree, TrialDir};
use proctor_sandbox_api::{Sandbox, wire::RawPath};
use proctor_setup::{Preparation, Purpose, ReadySandbox, prepare_for_agent};
use proctor_types::{Arm, Fault, FaultCause, FaultLayer, Task, TrialId};

use crate::{
    ForkPoint, GradingSandbox, PlannedTask, RunContext, TrialPrefixes,
    error::record_fault,
    fault_handling::TrialEnvironment,
    restore::restore_workdir,
    task_sandbox::{reserved_limits, sandbox_limits},
    trial::recorded_patch,
};

/// A point in time of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the agent's first response.
    Begin,
    /// After this step's tool calls.
    AfterStep(u64),
    /// When the trial ended or was interrupted.
    End,
    /// After the trial's patch was applied in a grading sandbox and the tests ran there.
    AfterGrading,
}

/// Opens the sandbox with the trial's limits and without network. Also returns the task, completed
/// with values from its image.
///
/// # Errors
/// Returns any fault that a trial can encounter. Also fails if the step does not exist or the
/// record is incomplete.
pub async fn open_trial_sandbox(
    context: &RunContext,
    id: &TrialId,
    planned_task: &PlannedTask,
    arm: &Arm,
    moment: Moment,
) -> Result<(Box<dyn Sandbox>, Arc<Task>), Fault> {
    let backend = context.backend(arm.sandbox.kind)?.as_ref();
    let TrialEnvironment { planned_task: planned, environment, findings } =
        context.prepare_environment(id, planned_task, arm).await?;
    let task = planned.task.as_ref();
    let dir = context.run.trial_dir(id);
    if moment == Moment::AfterGrading {
        let patch = recorded_patch(context, id, &dir)?;
        let grading = GradingSandbox {
            backend,
            environment: &environment,
            findings: &findings,
            limits: &sandbox_limits(arm, task),
            reservation: &reserved_limits(arm, task),
            purpose: format!("shell in {id}"),
            cancel: &context.cancel,
            capacity: &context.capacity,
        };
        let frozen = context.frozen_tests.get(&grading, task).await?;
        let options =
            proctor_grade::GradeOptions { frozen_ids: frozen, ..context.grade_options.clone() };
        let sandbox = grading.grade_and_keep_open(task, &patch, &options).await?;
        return Ok((sandbox, Arc::clone(&planned.task)));
    }
    let tree = match moment {
        Moment::AfterStep(step) => Some(find_tree_after_step(context, id, step)?),
        Moment::End => Some(TrialPrefixes::read(&context.run, id)?.final_tree().to_owned()),
        Moment::Begin | Moment::AfterGrading => None,
    };
    let preparation = Preparation {
        backend,
        environment: &environment,
        task,
        findings: &findings,
        limits: &sandbox_limits(arm, task),
        mounts: &context.scaffold(arm)?.mounts(),
        label: format!("shell in {id}"),
    };
    let on_finding = arm.leak_check.on_finding;
    let ReadySandbox { mut sandbox, hidden_copies: hidden } =
        preparation.open(Purpose::Driving(on_finding)).await?;
    let ready = async {
        let handle = sandbox.handle();
        prepare_for_agent(handle, task, &findings, &hidden, on_finding).await?;
        match &tree {
            None => Ok(()),
            Some(tree) => restore_tree(context, &dir, handle, &planned, tree).await,
        }
    };
    match ready.await {
        Ok(()) => {
            let task = Arc::clone(&planned.task);
            Ok((sandbox, task))
        }
        Err(fault) => {
            // Report the first fault, even if closing the sandbox fails too.
            let _ = sandbox.close().await;
            Err(fault)
        }
    }
}

fn find_tree_after_step(context: &RunContext, id: &TrialId, step: u64) -> Result<String, Fault> {
    let point = ForkPoint::read(&context.run, id, step)?.map_err(|why| {
        Fault::new(FaultLayer::Record, format!("step {step}: {why}"))
            .cause(FaultCause::Invalid)
            .hint("`proctor show RUN TASK ARM ATTEMPT` lists its steps")
    })?;
    Ok(point.tree_hash().to_owned())
}

async fn restore_tree(
    context: &RunContext,
    dir: &TrialDir,
    handle: &proctor_sandbox_api::SandboxHandle,
    planned_task: &PlannedTask,
    tree: &str,
) -> Result<(), Fault> {
    let blobs = context.run.trial_blobs(dir);
    let tree = Tree::load(&blobs, tree).map_err(record_fault)?;
    let workdir = RawPath::from(planned_task.task.workdir.as_str());
    restore_workdir(handle, &workdir, &blobs, &tree, planned_task.task.user.as_deref()).await
}
