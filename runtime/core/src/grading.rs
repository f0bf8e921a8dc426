//! Grades patches, each in a fresh room of the task's environment.

use std::collections::BTreeSet;

use proctor_grade::{
    GradeOptions, Graded,
    official::{has_official_run, run_official},
};
use proctor_sandbox_api::{Backend, Prepared, RoomSpec};
use proctor_types::{Arm, Fault, FlakePolicy, Layer, SandboxSpec, Task, TrialId, Verdict};

use crate::{Cancel, House, PlannedTask, Verdicts};

/// The room that a grading is given: the same environment and limits as the trial's.
pub struct GradeRoom<'a> {
    pub backend: &'a dyn Backend,
    pub environment: &'a Prepared,
    pub limits: &'a SandboxSpec,
    pub purpose: String,
    pub cancel: &'a Cancel,
}

/// Opens a room, grades, and closes it whatever came of it; then the same by the benchmark's own
/// procedure, where the task has one. Two rooms: what one leaves would be there for the other.
pub async fn grade_patch(
    room: GradeRoom<'_>,
    task: &Task,
    patch: &[u8],
    options: &GradeOptions,
) -> Result<Graded, Fault> {
    // Laying such a patch over the source would grade something else, and a wrong verdict is worse
    // than none.
    if task.from_scratch.is_some() {
        let what = format!("{}: a task from scratch is not graded yet", task.id);
        return Err(Fault::new(Layer::Grade, what).mend("leave level 2 out of the dataset"));
    }
    let spec = RoomSpec {
        environment: room.environment.clone(),
        limits: room.limits.clone(),
        purpose: room.purpose,
    };
    let mut sandbox = room.backend.open(&spec).await?;
    let graded = tokio::select! {
        graded = proctor_grade::grade(sandbox.room(), task, patch, options) => graded,
        () = room.cancel.told() => Err(Cancel::fault()),
    };
    let closed = sandbox.close().await;
    let graded = graded?;
    closed?;
    if !has_official_run(task) {
        return Ok(graded);
    }
    let mut sandbox = room.backend.open(&spec).await?;
    let official = tokio::select! {
        run = run_official(sandbox.room(), task, patch, options.time_limit) => run,
        () = room.cancel.told() => Err(Cancel::fault()),
    };
    let closed = sandbox.close().await;
    let official = official?;
    closed?;
    Ok(match official {
        Some(run) => graded.beside(run),
        None => graded,
    })
}

/// Grades a trial's patch, once for all: a verdict that is known is taken, and one that only
/// unreliable tests speak against is put to the vote where the run asks for it.
pub(crate) async fn grade_trial(
    house: &House,
    id: &TrialId,
    planned: &PlannedTask,
    arm: &Arm,
    patch: &[u8],
) -> Result<Graded, Fault> {
    let (backend, task) = (house.backend(arm.sandbox.kind)?, planned.task.as_ref());
    let (environment, _) =
        house.environments.get(backend.as_ref(), task, &planned.base_dir).await?;
    let nothing = BTreeSet::new();
    let unreliable = house.unreliable.get(&task.digest()).unwrap_or(&nothing);
    let mut options = house.grading.clone();
    if house.flaky == FlakePolicy::Quarantine {
        options.quarantine.clone_from(unreliable);
    }
    let (name, digest) = (backend.name(), environment.digest.as_str());
    let key = Verdicts::key(name, digest, &arm.sandbox, task, patch, &options.quarantine)?;
    if let Some(graded) = house.verdicts.as_ref().and_then(|verdicts| verdicts.find(&key)) {
        return Ok(graded);
    }
    let grade = async || {
        let room = GradeRoom {
            backend: backend.as_ref(),
            environment: &environment,
            limits: &arm.sandbox,
            purpose: format!("grading {id}"),
            cancel: &house.cancel,
        };
        grade_patch(room, task, patch, &options).await
    };
    let mut graded = grade().await?;
    if house.flaky == FlakePolicy::Vote && only_failed_by(&graded.verdict, unreliable) {
        let (second, third) = (grade().await?, grade().await?);
        if second.verdict.resolved && third.verdict.resolved {
            graded = second;
        }
    }
    if let Some(verdicts) = &house.verdicts {
        verdicts.keep(&key, &graded);
    }
    Ok(graded)
}

/// Whether every test that failed is one of these, and one did.
fn only_failed_by(verdict: &Verdict, unreliable: &BTreeSet<String>) -> bool {
    let failed = || verdict.fail_to_pass.failed.iter().chain(&verdict.pass_to_pass.failed);
    !verdict.resolved && failed().next().is_some() && failed().all(|id| unreliable.contains(id))
}
