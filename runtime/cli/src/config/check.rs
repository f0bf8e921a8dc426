//! Values that have the right type and still cannot be meant.

use proctor_types::{Budget, SandboxSpec};

use crate::{config::ConfigFile, error::UserError};

/// Fewer MiB than this do not start an interpreter.
const LEAST_MEMORY_MB: u64 = 32;
/// More MiB than this (a pebibyte) are a mistyped number.
const MOST_MB: u64 = 1 << 30;
/// More seconds than this (a hundred years) are no limit, and overflow clocks.
const MOST_SECONDS: f64 = 3.2e9;

/// The first value that cannot be meant, by its key.
pub fn check(file: &ConfigFile) -> Result<(), UserError> {
    if file.attempts == 0 {
        return Err(UserError::new("key `attempts`: must be 1 or more"));
    }
    if file.jobs == 0 {
        return Err(UserError::new("key `jobs`: must be 1 or more"));
    }
    for (index, arm) in file.arms.iter().enumerate() {
        let place = |table: &str| format!("arms.{index} ({}): key `{table}", arm.name);
        budget(&arm.budget, &place("budget"))?;
        sandbox(&arm.sandbox, &place("sandbox"))?;
    }
    for (name, model) in &file.models {
        for (key, value) in [("temperature", model.temperature), ("top_p", model.top_p)] {
            if value.is_some_and(|value| !value.is_finite()) {
                return Err(UserError::new(format!("key `models.\"{name}\".{key}`: not a number")));
            }
        }
    }
    Ok(())
}

fn budget(budget: &Budget, place: &str) -> Result<(), UserError> {
    for (key, seconds) in [
        ("wall_seconds", budget.wall_seconds),
        ("working_seconds", budget.working_seconds),
        ("command_seconds", budget.command_seconds),
    ] {
        if seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds <= MOST_SECONDS)) {
            return Err(UserError::new(format!("{place}.{key}`: not a number of seconds above 0"))
                .mend("leave the key out for no limit"));
        }
    }
    if budget.cost_usd.is_some_and(|dollars| !(dollars >= 0.0 && dollars.is_finite())) {
        return Err(UserError::new(format!("{place}.cost_usd`: not an amount of US dollars"))
            .mend("leave the key out for no limit"));
    }
    Ok(())
}

fn sandbox(limits: &SandboxSpec, place: &str) -> Result<(), UserError> {
    if !(limits.cpus >= 0.01 && limits.cpus <= 4096.0) {
        return Err(UserError::new(format!("{place}.cpus`: {} is no quota", limits.cpus))
            .mend("CPUs from 0.01 up; 1.0 is one whole CPU"));
    }
    if !(LEAST_MEMORY_MB..=MOST_MB).contains(&limits.memory_mb) {
        let what = format!("{place}.memory_mb`: {} MiB cannot be meant", limits.memory_mb);
        return Err(UserError::new(what).mend(format!("from {LEAST_MEMORY_MB} to {MOST_MB}")));
    }
    if !(1..=MOST_MB).contains(&limits.disk_mb) {
        let what = format!("{place}.disk_mb`: {} MiB cannot be meant", limits.disk_mb);
        return Err(UserError::new(what).mend(format!("from 1 to {MOST_MB}")));
    }
    if limits.processes < 2 {
        let what = format!("{place}.processes`: {} leaves none for commands", limits.processes);
        return Err(UserError::new(what).mend("the room agent is one; 512 is the default"));
    }
    Ok(())
}
