//! `proctor run CONFIG --out RUN --extend`: adds arms, tasks and attempts to a run and runs only
//! the missing trials.
//!
//! Arms are identified by their factors, tasks by their content. An arm with a changed factor is a
//! new arm. A changed task is rejected. Existing trials are not rewritten.

use std::{collections::BTreeSet, path::Path};

use proctor_config::RunConfig;
use proctor_record::{RunDir, now};
use proctor_run::Plan;
use proctor_scaffold_api::ProgressSink;
use proctor_types::{
    Arm, CONFIG_VERSION, RunChange, RunRecord, RunTask, Selection, UserError, count_with_noun,
};
use serde_json::{Map, Value};

use crate::{Continuation, PlanError, ReopenedRun, limit_changes::describe_limit_changes, rules};

/// A run to extend, with its new plan and the size of the old plan.
pub struct Extension {
    pub run: RunDir,
    pub record: RunRecord,
    old_arm_count: usize,
    old_task_count: usize,
    old_attempts: u32,
    /// See [`describe_limit_changes`].
    limit_changes: Vec<String>,
}

/// Opens the run and applies the configuration to its plan.
///
/// # Errors
/// Fails if there is no run, if it uses another version of the rules, or if workers use it.
pub fn open(
    out: &Path,
    run_config: &RunConfig,
    say: ProgressSink<'_>,
) -> Result<Extension, PlanError> {
    if !RunDir::open_read_only(out).is_ok_and(|run| run.path().is_dir()) {
        let what = format!("--extend: {} is not a run directory", out.display());
        let hint = "omit --extend to start a run there, or pass the run's folder";
        return Err(UserError::new(what).hint(hint).into());
    }
    let ReopenedRun { run, record, .. } = ReopenedRun::open(out, Continuation::NewTrials, say)?;
    merge_configuration(run, record, run_config, say)
}

/// Like `open`, but does not lock the run and writes nothing.
///
/// # Errors
/// Fails in the same cases as `open`, except that workers may use the run.
pub fn open_read_only(
    out: &Path,
    run_config: &RunConfig,
    say: ProgressSink<'_>,
) -> Result<Extension, PlanError> {
    let run = RunDir::open_read_only(out)?;
    let record = run.read_run()?;
    rules::require_current_rules(&run, &record)?;
    merge_configuration(run, record, run_config, say)
}

fn merge_configuration(
    run: RunDir,
    mut record: RunRecord,
    run_config: &RunConfig,
    say: ProgressSink<'_>,
) -> Result<Extension, PlanError> {
    let out = run.path();
    let (tasks, attempts) = (record.tasks.len(), record.attempts);
    let old_arms = record.arms.clone();
    let grading = &run_config.file.grading;
    let same_certificate = grading.certificate == record.config.grading.certificate;
    if grading.flaky != record.flaky || !same_certificate {
        let what =
            format!("--extend: {} was graded with a different [grading] table", out.display());
        let hint = "restore [grading], or start a new run: verdicts with different [grading] tables cannot be compared";
        return Err(UserError::new(what).hint(hint).into());
    }
    merge_arms(&mut record, run_config, say)?;
    run.reject_colliding_arms(record.arms.iter().map(|arm| &arm.id))?;
    record.attempts = record.attempts.max(run_config.file.attempts);
    record.jobs = run_config.file.jobs;
    Ok(Extension {
        run,
        old_arm_count: old_arms.len(),
        limit_changes: describe_limit_changes(&old_arms, &record.arms),
        record,
        old_task_count: tasks,
        old_attempts: attempts,
    })
}

impl Extension {
    /// Adds tasks that the plan does not contain yet. Rejects tasks that have changed.
    pub fn add_tasks(&mut self, tasks: Vec<RunTask>) -> Result<(), UserError> {
        for task in tasks {
            match self.record.tasks.iter().find(|known| known.task.id == task.task.id) {
                None => self.record.tasks.push(task),
                Some(known) if known.digest == task.digest => {}
                Some(_) => {
                    let what = format!(
                        "--extend: the task `{}` has changed since the run was planned",
                        task.task.id
                    );
                    let hint = "start a new run; within a run, a task must not change";
                    return Err(UserError::new(what).hint(hint));
                }
            }
        }
        Ok(())
    }

    /// Returns the names of the trials that would run.
    ///
    /// # Errors
    /// Fails if the run cannot be read.
    pub fn missing_trial_names(&self) -> Result<Vec<String>, PlanError> {
        let mut missing = Vec::new();
        for (id, _, arm) in Plan::from_record(&self.record).trials() {
            if self.run.check_trial(&id).verdict.is_none() {
                missing.push(format!("{}/{}/{}", id.task, arm.name, id.attempt));
            }
        }
        Ok(missing)
    }

    /// Summarizes the additions, and the shared limits that change, in one line.
    pub fn summary(&self) -> String {
        let added = [
            count_with_noun(self.record.arms.len() - self.old_arm_count, "arm"),
            count_with_noun(self.record.tasks.len() - self.old_task_count, "task"),
            count_with_noun(self.record.attempts - self.old_attempts, "attempt"),
        ];
        let mut parts = vec![format!("added: {}", added.join(", "))];
        parts.extend(self.limit_changes.iter().cloned());
        parts.join("; ")
    }

    /// Writes the extended plan.
    pub fn write_plan(&mut self, selection: Option<Selection>) -> Result<(), PlanError> {
        let change = format!("extended: {}", self.summary());
        self.record.changes.push(RunChange {
            at: now(),
            proctor: env!("CARGO_PKG_VERSION").into(),
            change,
        });
        self.record.selection = selection.or(self.record.selection.take());
        self.run.write_run(&self.record)?;
        Ok(())
    }
}

/// Merges the configuration's arms into the record. Existing arms get the current endpoints, and
/// new arms are appended.
fn merge_arms(
    record: &mut RunRecord,
    run_config: &RunConfig,
    say: ProgressSink<'_>,
) -> Result<(), PlanError> {
    let mut config = run_config.file.to_record()?;
    let written = std::mem::take(&mut config.arms);
    let mut kept = record.config.arms.clone();
    let mut names: BTreeSet<String> = record.arms.iter().map(|arm| arm.name.clone()).collect();
    let mut added = Vec::new();
    for (arm, mut file) in run_config.arms.iter().zip(written) {
        let (name, is_new) = match record.arms.iter_mut().find(|known| known.id == arm.id) {
            Some(known) => {
                // Endpoint, price and shared limits are not factors, so the latest values apply.
                let name = known.name.clone();
                *known = Arm { name: name.clone(), ..arm.clone() };
                (name, false)
            }
            None => (unique_arm_name(arm, &record.arms, &names, say), true),
        };
        file.name.clone_from(&name);
        if is_new {
            names.insert(name.clone());
            added.push(Arm { name, ..arm.clone() });
            kept.push(file);
        } else if let Some(known) = kept.iter_mut().find(|one| one.name == name) {
            *known = file;
        }
    }
    for arm in &record.arms {
        if !run_config.arms.iter().any(|one| one.id == arm.id) {
            say(format!(
                "note: arm `{}` is not in the configuration or not matched by --arms; this arm \
                 stays unchanged",
                arm.name
            ));
        }
    }
    record.arms.extend(added);
    // The run's shared limits apply to all arms, so update the existing arms too.
    let shared = run_config.file.budget.run;
    record.arms.iter_mut().for_each(|arm| arm.budget.run = shared);
    // Keep the endpoints of models that only earlier arms use.
    for (name, model) in &record.config.models {
        config.models.entry(name.clone()).or_insert_with(|| model.clone());
    }
    config.arms = kept;
    record.config = config;
    record.config_version = CONFIG_VERSION;
    Ok(())
}

/// Returns the name of a new arm. If an arm of the run already has that name, appends the factors
/// that differ.
fn unique_arm_name(
    arm: &Arm,
    arms: &[Arm],
    names: &BTreeSet<String>,
    say: ProgressSink<'_>,
) -> String {
    let Some(other) = arms.iter().find(|one| one.name == arm.name) else { return arm.name.clone() };
    let (mut before, mut after) = (Map::new(), Map::new());
    flatten_factors("", &other.factors(), &mut before);
    flatten_factors("", &arm.factors(), &mut after);
    let short = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let differs = after.iter().filter(|(key, value)| before.get(*key) != Some(*value));
    let parts: Vec<_> = differs
        .filter(|(key, value)| !key.starts_with("prompts") && short(value).len() <= 40)
        .map(|(key, value)| format!("{}={}", key.rsplit('.').next().unwrap_or(key), short(value)))
        .take(3)
        .collect();
    let base = [std::slice::from_ref(&arm.name), &parts[..]].concat().join("/");
    let unique = (2..).map(|number| format!("{base}#{number}"));
    let name = std::iter::once(base.clone()).chain(unique).find(|name| !names.contains(name));
    let name = name.unwrap_or(base);
    say(format!(
        "note: the run already has an arm `{}` with different factors, so the new arm is named `{name}`",
        arm.name
    ));
    name
}

fn flatten_factors(prefix: &str, value: &Value, out: &mut Map<String, Value>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let dot = if prefix.is_empty() { "" } else { "." };
                flatten_factors(&format!("{prefix}{dot}{key}"), value, out);
            }
        }
        value => drop(out.insert(prefix.to_owned(), value.clone())),
    }
}
