//! Compares a plan's limits and platforms with this machine. Warns about limits that exceed the
//! machine's resources, and rejects limits that are so large that they must be a mistake.

use std::env::consts::ARCH;

use proctor_run::PlannedTask;
use proctor_sandbox_api::Machine;
use proctor_types::{Arm, MAX_RESOURCE_RATIO, SandboxKind, UserError, count_with_noun};

use crate::error::{ArmLocator, format_ids};

/// Maps Rust's names of architectures to the names that Docker platforms use.
const ARCHITECTURES: [(&str, &[&str]); 4] = [
    ("x86_64", &["amd64", "x86_64"]),
    ("aarch64", &["arm64", "aarch64"]),
    ("powerpc64", &["ppc64le", "ppc64"]),
    ("s390x", &["s390x"]),
];

/// A limit of a sandbox, and how much of the limited resource the machine has.
struct MachineLimit {
    key: &'static str,
    unit: &'static str,
    machine_amount: f64,
    arm_limit: fn(&Arm) -> f64,
    task_limit: fn(&PlannedTask) -> f64,
}

fn machine_limits(machine: Machine) -> [MachineLimit; 2] {
    [
        MachineLimit {
            key: "memory_mb",
            unit: "MiB of memory",
            machine_amount: machine.memory_mb as f64,
            arm_limit: |arm| arm.sandbox.memory_mb as f64,
            task_limit: |planned| {
                let memory = planned.task.resources.as_ref().and_then(|one| one.memory_mb);
                memory.map_or(0.0, |need| need.ceiling() as f64)
            },
        },
        MachineLimit {
            key: "cpus",
            unit: "CPUs",
            machine_amount: machine.cpus,
            arm_limit: |arm| arm.sandbox.cpus,
            task_limit: |planned| {
                let cpus = planned.task.resources.as_ref().and_then(|one| one.cpus);
                cpus.map_or(0.0, |need| need.ceiling())
            },
        },
    ]
}

/// Rejects native sandboxes for tasks that need another architecture, and limits that are so large
/// that the unit must be wrong.
pub fn check_limits(
    arms: &[Arm],
    tasks: &[PlannedTask],
    add_location: ArmLocator<'_>,
) -> Result<(), UserError> {
    check_platforms(arms, tasks, add_location)?;
    let here: Vec<&Arm> = arms.iter().filter(|arm| runs_on_this_machine(arm)).collect();
    if here.is_empty() {
        return Ok(());
    }
    for limit in machine_limits(Machine::detect_total()) {
        let most = limit.machine_amount * MAX_RESOURCE_RATIO;
        let absurd = |wanted: f64| {
            UserError::new(format!(
                "{wanted} {} for one sandbox is more than {MAX_RESOURCE_RATIO} times what this \
                 machine has ({:.0})",
                limit.unit, limit.machine_amount
            ))
        };
        if let Some(arm) = here.iter().find(|arm| (limit.arm_limit)(arm) > most) {
            let key = format!("sandbox.{}", limit.key);
            let error = absurd((limit.arm_limit)(arm)).hint("check the unit: memory_mb is in MiB");
            return Err(add_location(arm, &key, error));
        }
        if let Some(planned) = tasks.iter().find(|planned| (limit.task_limit)(planned) > most) {
            let UserError { message: what, .. } = absurd((limit.task_limit)(planned));
            let what = format!("task {}: resources.{}: {what}", planned.task.id, limit.key);
            return Err(UserError::new(what)
                .hint("correct the value in the task's row; memory_mb is in MiB"));
        }
    }
    Ok(())
}

/// Returns warnings to show below a plan, about limits that exceed the machine's resources and
/// therefore have no effect.
pub fn limit_warnings(arms: &[Arm], tasks: &[PlannedTask]) -> Vec<String> {
    let here: Vec<&Arm> = arms.iter().filter(|arm| runs_on_this_machine(arm)).collect();
    let mut lines = Vec::new();
    for limit in machine_limits(Machine::detect_total()).iter().filter(|_| !here.is_empty()) {
        let of_arms = here.iter().map(|arm| (limit.arm_limit)(arm)).fold(0.0, f64::max);
        let over: Vec<&PlannedTask> = tasks
            .iter()
            .filter(|planned| (limit.task_limit)(planned) > limit.machine_amount)
            .collect();
        let most = over.iter().map(|planned| (limit.task_limit)(planned)).fold(of_arms, f64::max);
        if most <= limit.machine_amount {
            continue;
        }
        let whose = match over.len() {
            0 => "a sandbox".to_owned(),
            count => {
                let ids = format_ids(over.iter().map(|planned| planned.task.id.as_str()));
                format!("{} ({ids})", count_with_noun(count, "task"))
            }
        };
        lines.push(format!(
            "warning: a limit of {most} {} for {whose} exceeds this machine's {:.0}, so the limit has \
             no effect",
            limit.unit, limit.machine_amount
        ));
    }
    lines
}

/// Whether the arm's sandboxes run on this machine. Docker sandboxes may run on a remote engine.
fn runs_on_this_machine(arm: &Arm) -> bool {
    let elsewhere = || std::env::var("DOCKER_HOST").is_ok_and(|host| !host.starts_with("unix:"));
    arm.sandbox.kind == SandboxKind::Native || !elsewhere()
}

fn check_platforms(
    arms: &[Arm],
    tasks: &[PlannedTask],
    add_location: ArmLocator<'_>,
) -> Result<(), UserError> {
    let Some(arm) = arms.iter().find(|arm| arm.sandbox.kind == SandboxKind::Native) else {
        return Ok(());
    };
    let others: Vec<(&str, &str)> = tasks
        .iter()
        .filter_map(|planned| Some((planned.task.id.as_str(), planned.task.platform.as_deref()?)))
        .filter(|(_, platform)| !matches_this_platform(platform))
        .collect();
    let Some((_, platform)) = others.first() else { return Ok(()) };
    let (verb, ids) = (
        if others.len() == 1 { "is" } else { "are" },
        format_ids(others.iter().map(|(id, _)| *id)),
    );
    let what = format!(
        "{} {verb} for {platform}, but native sandboxes run on this machine's platform (linux/{ARCH}): {ids}",
        count_with_noun(others.len(), "task")
    );
    let error = UserError::new(what).hint(
        "use Docker, which may emulate the platform, or a machine with that platform; or exclude \
         these tasks (append `#ids=FILE` to the dataset)",
    );
    Err(add_location(arm, "sandbox.kind", error))
}

fn matches_this_platform(platform: &str) -> bool {
    let mut parts = platform.split('/');
    let names = ARCHITECTURES.iter().find(|(arch, _)| *arch == ARCH).map(|(_, names)| *names);
    parts.next() == Some("linux")
        && parts.next().is_some_and(|arch| names.is_none_or(|names| names.contains(&arch)))
}
