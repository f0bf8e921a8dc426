//! Values that have the right type and still cannot be meant.

use proctor_gateway::EndpointRates;
use proctor_types::{Budget, SandboxSpec, SharedLimits};

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
        let prices = model.price.map(|price| [Some(price.input), Some(price.output), price.cached]);
        if prices.into_iter().flatten().flatten().any(|price| !is_money(price)) {
            let what = format!("key `models.\"{name}\".price`: not US dollars per million tokens");
            return Err(UserError::new(what));
        }
    }
    if file.grading.cpus.is_some_and(|cpus| !(cpus > 0.0 && cpus.is_finite())) {
        return Err(UserError::new("key `grading.cpus`: not a number of CPUs above 0")
            .mend("leave the key out for what the machine has"));
    }
    if file.grading.memory_mb == Some(0) {
        return Err(UserError::new("key `grading.memory_mb`: must be 1 or more")
            .mend("leave the key out for what the machine has"));
    }
    for (name, table) in &file.endpoints {
        rates(name, table)?;
    }
    Ok(())
}

fn budget(budget: &Budget, place: &str) -> Result<(), UserError> {
    for (key, seconds) in [
        ("wall_seconds", budget.wall_seconds),
        ("working_seconds", budget.working_seconds),
        ("tool_seconds", budget.tool_seconds),
        ("command_seconds", budget.command_seconds),
    ] {
        if seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds <= MOST_SECONDS)) {
            return Err(UserError::new(format!("{place}.{key}`: not a number of seconds above 0"))
                .mend("leave the key out for no limit"));
        }
    }
    let shared = |limits: Option<SharedLimits>| limits.and_then(|limits| limits.cost_usd);
    for (key, dollars) in [
        ("cost_usd", budget.cost_usd),
        ("arm.cost_usd", shared(budget.arm)),
        ("run.cost_usd", shared(budget.run)),
    ] {
        if dollars.is_some_and(|dollars| !is_money(dollars)) {
            return Err(UserError::new(format!("{place}.{key}`: not an amount of US dollars"))
                .mend("leave the key out for no limit"));
        }
    }
    Ok(())
}

fn is_money(dollars: f64) -> bool {
    dollars >= 0.0 && dollars.is_finite()
}

/// A rate of none would hold every request back for ever.
fn rates(name: &str, rates: &EndpointRates) -> Result<(), UserError> {
    for (key, rate) in [
        ("max_concurrent", rates.max_concurrent),
        ("requests_per_minute", rates.requests_per_minute),
        ("tokens_per_minute", rates.tokens_per_minute),
    ] {
        if rate == Some(0) {
            let what = format!("key `endpoints.{name}.{key}`: must be 1 or more");
            return Err(UserError::new(what).mend("leave the key out for no limit"));
        }
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
