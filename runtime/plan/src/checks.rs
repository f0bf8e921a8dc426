//! Checks a plan before anything starts.
//!
//! Without these checks, every trial that cannot work would first build its environment and only
//! then end with a fault. Mistakes that can be detected from the tasks and arms alone are reported
//! here as usage errors, even if the user only asked to see the plan.

use std::{collections::BTreeSet, path::Path};

use proctor_egress::Policy;
use proctor_run::{PlannedTask, has_interfaces, missing_hints, visible_tests};
use proctor_sandbox_api::Base;
use proctor_scaffold_api::{Scaffold, ScaffoldSource};
use proctor_types::{
    Arm, EVENT_VERSION, Event, Fault, NetworkMode, SandboxKind, Task, UserError, count_with_noun,
};

pub use crate::error::{ArmLocator, format_ids};
use crate::machine_limits;

/// Rejects tasks that one of the arms cannot run.
pub fn check_plan(
    scaffolds: &dyn ScaffoldSource,
    arms: &[Arm],
    tasks: &[PlannedTask],
    backend_hint: &str,
    add_location: ArmLocator<'_>,
) -> Result<(), UserError> {
    check_sandboxes(arms, tasks, backend_hint, add_location)?;
    check_gradable(tasks)?;
    for arm in arms {
        check_gold(arm, tasks).map_err(|error| add_location(arm, "scaffold", error))?;
        check_egress(arm, tasks)?;
    }
    for (name, scaffold) in scaffolds.scaffolds_for_arms(arms)? {
        for arm in arms.iter().filter(|arm| arm.scaffold == name) {
            check_user(arm, scaffold.as_ref(), tasks)
                .map_err(|error| add_location(arm, "scaffold", error))?;
        }
    }
    Ok(())
}

/// Rejects tasks whose sandbox this machine or the arms' back end cannot start.
pub fn check_sandboxes(
    arms: &[Arm],
    tasks: &[PlannedTask],
    backend_hint: &str,
    add_location: ArmLocator<'_>,
) -> Result<(), UserError> {
    machine_limits::check_limits(arms, tasks, add_location)?;
    check_bases(arms, tasks, backend_hint, add_location)
}

/// Rejects an arm's `[statement]` key that has no effect on any task. `tasks` contains all tasks of
/// the plan.
pub fn check_statement(arm: &Arm, tasks: &[PlannedTask]) -> Result<(), (&'static str, UserError)> {
    let any = |holds: &dyn Fn(&Task) -> bool| tasks.iter().any(|planned| holds(&planned.task));
    if !arm.statement.interfaces && !any(&has_interfaces) {
        let error = UserError::new("has no effect: no statement has an interfaces section");
        let hint = "remove the key; tasks from FeatureBench, FEA-Bench and `proctor collect` have such a section";
        return Err(("interfaces", error.hint(hint)));
    }
    if arm.statement.hints && !any(&|task| missing_hints(task).is_some()) {
        let error =
            UserError::new("has no effect: no task has hints that are missing from its statement");
        let hint = "remove the key; FEA-Bench's tasks have such hints, and other datasets accept `#hints=true`";
        return Err(("hints", error.hint(hint)));
    }
    if arm.statement.tests && !any(&|task| !visible_tests(task).is_empty()) {
        let error =
            UserError::new("has no effect: no task hides a file with its fail-to-pass tests");
        let hint = "remove the key; tests that a patch adds for grading cannot be shown";
        return Err(("tests", error.hint(hint)));
    }
    Ok(())
}

/// Rejects an agent that cannot run as the user that a task specifies.
fn check_user(arm: &Arm, scaffold: &dyn Scaffold, tasks: &[PlannedTask]) -> Result<(), UserError> {
    for planned in tasks {
        let Some((what, hint)) = scaffold.unsupported_user_reason(planned.task.user.as_deref())
        else {
            continue;
        };
        let what = format!("{what}, but task `{}` specifies no other user", planned.task.id);
        return Err(UserError::new(format!("{what} (arm {})", arm.name)).hint(hint));
    }
    Ok(())
}

/// Rejects tasks whose base or source is missing, and tasks with an image if the back end does not
/// support images. `backend_hint` tells the user how to choose another back end.
fn check_bases(
    arms: &[Arm],
    tasks: &[PlannedTask],
    backend_hint: &str,
    add_location: ArmLocator<'_>,
) -> Result<(), UserError> {
    let (mut images, mut builds) = (Vec::<(&str, String)>::new(), Vec::<(&str, String)>::new());
    let mistake = |fault: Fault| UserError { message: fault.what, hint: fault.hint };
    for planned in tasks {
        proctor_setup::check_source(&planned.task, &planned.base_dir).map_err(mistake)?;
        let base = proctor_setup::sandbox_base(&planned.task, &planned.base_dir);
        match base.map_err(mistake)? {
            Base::Image(image) => images.push((planned.task.id.as_str(), image)),
            Base::Dockerfile(folder) => {
                builds.push((planned.task.id.as_str(), folder.display().to_string()));
            }
            Base::Host | Base::Folder(_) | Base::Archive(_) => {}
        }
    }
    let native = arms.iter().find(|arm| arm.sandbox.kind == SandboxKind::Native);
    if let (Some(arm), Some((_, folder))) = (native, builds.first()) {
        let (count, ids) = (builds.len(), format_ids(builds.iter().map(|(id, _)| *id)));
        let verb = if count == 1 { "is" } else { "are" };
        let what = format!(
            "{} {verb} built from `environment.dockerfile` (`{folder}`), which native sandboxes do not support: {ids}",
            count_with_noun(count, "task")
        );
        let hint = format!(
            "{backend_hint}; without Docker, build the image elsewhere, save it to an archive (`docker \
             save -o FILE IMAGE`) and set `environment.image` to the archive"
        );
        return Err(add_location(arm, "sandbox.kind", UserError::new(what).hint(hint)));
    }
    let (Some(arm), Some((_, image))) = (native, images.first()) else { return Ok(()) };
    let (count, ids) = (images.len(), format_ids(images.iter().map(|(id, _)| *id)));
    let verb = if count == 1 { "needs" } else { "need" };
    let what = format!(
        "{} {verb} a Docker image (`{image}`), which native sandboxes do not support: {ids}",
        count_with_noun(count, "task")
    );
    let error = UserError::new(what).hint(format!(
        "{backend_hint}; without Docker, save the image to an archive (`docker save -o FILE IMAGE`) and \
         use the archive instead"
    ));
    Err(add_location(arm, "sandbox.kind", error))
}

/// Rejects tasks that Proctor cannot grade, because their trials would cost money and produce no
/// result.
fn check_gradable(tasks: &[PlannedTask]) -> Result<(), UserError> {
    let mut first = None;
    let mut ids = Vec::new();
    for planned in tasks {
        let Err(fault) = proctor_grade::check_gradable(&planned.task) else { continue };
        ids.push(planned.task.id.as_str());
        first.get_or_insert(fault);
    }
    let Some(fault) = first else { return Ok(()) };
    let (count, ids) = (count_with_noun(ids.len(), "task"), format_ids(ids.iter().copied()));
    let hint = fault.hint.map_or(String::new(), |hint| format!("{hint}; or "));
    let what = format!("{count} cannot be graded: {ids}: {}", fault.what);
    Err(UserError::new(what)
        .hint(format!("{hint}exclude these tasks (append `#ids=FILE` to the dataset)")))
}

/// Whether a task has a solution to apply or run.
pub fn has_gold(task: &Task) -> bool {
    let script = task.harbor.as_ref().and_then(|harbor| harbor.solution.as_ref());
    task.gold.is_some() || task.mask.is_some() || script.is_some()
}

/// Rejects a `gold` arm for tasks that have no solution.
fn check_gold(arm: &Arm, tasks: &[PlannedTask]) -> Result<(), UserError> {
    if arm.scaffold != "gold" {
        return Ok(());
    }
    let secret: Vec<&str> = tasks
        .iter()
        .filter(|planned| !has_gold(&planned.task))
        .map(|planned| planned.task.id.as_str())
        .collect();
    if secret.is_empty() {
        return Ok(());
    }
    let (verb, ids) =
        (if secret.len() == 1 { "has" } else { "have" }, format_ids(secret.iter().copied()));
    let what = format!(
        "{} {verb} neither a gold patch, nor a mask, nor `solution/solve.sh`, so `gold` has nothing to apply: \
         {ids}",
        count_with_noun(secret.len(), "task")
    );
    Err(UserError::new(what).hint(
        "run these tasks with other arms, or exclude them (append `#ids=FILE` to the dataset)",
    ))
}

/// If the arm uses an egress proxy, checks that the proxy can enforce each task's `blocked_urls`.
fn check_egress(arm: &Arm, tasks: &[PlannedTask]) -> Result<(), UserError> {
    if arm.network.mode == NetworkMode::Closed {
        return Ok(());
    }
    for planned in tasks {
        Policy::new(&arm.network, &planned.task).map_err(|why| {
            UserError::new(format!("task {}: {why}", planned.task.id))
                .hint("see docs/reference/egress.md for the syntax")
        })?;
    }
    Ok(())
}

/// Rejects a plan that replays a trajectory on another task. The trajectory's actions would run on
/// different files, so the result would be meaningless.
pub fn check_replay(trajectory: &Path, tasks: &[PlannedTask]) -> Result<(), UserError> {
    let shown = trajectory.display();
    let hint =
        "pass the trajectory.jsonl of a trial of this task, or run only the trajectory's task";
    let reading = proctor_record::read_journal(trajectory)
        .map_err(|error| UserError::new(error.to_string()).hint(hint))?;
    if let Some(old) = reading.events.iter().find(|envelope| envelope.v != EVENT_VERSION) {
        let what = format!(
            "{shown} has events of version {}, but this version of Proctor reads version {EVENT_VERSION}",
            old.v
        );
        let hint = "replay it with the version of Proctor that recorded it";
        return Err(UserError::new(what).hint(hint));
    }
    let recorded: BTreeSet<&str> = reading
        .events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::TrialStarted { task, .. } => Some(task.as_str()),
            _ => None,
        })
        .collect();
    if recorded.is_empty() {
        return Err(UserError::new(format!("{shown} does not record a trial")).hint(hint));
    }
    let others: Vec<&str> = tasks
        .iter()
        .map(|planned| planned.task.id.as_str())
        .filter(|id| !recorded.contains(id))
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let of = recorded.into_iter().collect::<Vec<_>>().join(", ");
    let what = format!(
        "{shown} records a trial of task `{of}`, but the plan has {}",
        format_ids(others.iter().copied())
    );
    Err(UserError::new(what).hint(hint))
}
