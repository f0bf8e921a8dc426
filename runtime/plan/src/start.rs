//! Writes a plan into a run directory.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use proctor_config::ConfigFile;
use proctor_record::{RunDir, now};
use proctor_run::PlannedTask;
use proctor_setup::local_source_digest;
use proctor_types::{
    Arm, CONFIG_VERSION, RULES_VERSION, RUN_SCHEMA_VERSION, RunRecord, RunTask, Selection,
    UserError,
};

use crate::{PlanError, host::host_fingerprint, read_certificate};

/// A plan that has no run directory yet.
pub struct NewRun<'a> {
    /// The configuration to store in `run.json`.
    pub file: &'a ConfigFile,
    /// The arms, in plan order.
    pub arms: Vec<Arm>,
    /// The tasks, in plan order.
    pub tasks: &'a [PlannedTask],
    /// Which of the configuration's tasks were selected. `None` if all were.
    pub selection: Option<Selection>,
    /// The SHA-256 of the sandbox agent.
    pub agent_sha256: &'a str,
}

/// Creates the run directory and writes the plan before anything starts.
///
/// # Errors
/// Fails if the directory is not empty or cannot be written.
pub fn create_run(out: &Path, plan_to_write: NewRun<'_>) -> Result<(RunDir, RunRecord), PlanError> {
    let NewRun { file, arms, tasks, selection, agent_sha256: agent } = plan_to_write;
    if out.join("run.json").exists() {
        let what = format!("{} already contains a run", out.display());
        let hint = format!(
            "continue it with `proctor resume {}`, add to it with --extend, or choose another --out",
            out.display()
        );
        return Err(UserError::new(what).hint(hint).into());
    }
    let taken = match std::fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_some().then_some("is not empty"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(_) => Some("is not a readable folder"),
    };
    if let Some(why) = taken {
        let what = format!("--out {}: {why}", out.display());
        return Err(UserError::new(what).hint("choose a new or empty folder").into());
    }
    let certificate = file.grading.certificate.as_deref().map(read_certificate).transpose()?;
    let run = RunDir::create(out)?;
    let record = RunRecord {
        schema_version: RUN_SCHEMA_VERSION,
        rules: RULES_VERSION,
        proctor: env!("CARGO_PKG_VERSION").into(),
        created: now(),
        attempts: file.attempts,
        jobs: file.jobs,
        arms,
        tasks: to_run_tasks(tasks),
        config_version: CONFIG_VERSION,
        config: file.to_record()?,
        host: host_fingerprint(),
        agent: agent.to_owned(),
        certificate,
        flaky: file.grading.flaky,
        selection,
        absent: BTreeSet::new(),
        changes: Vec::new(),
    };
    run.reject_colliding_arms(record.arms.iter().map(|arm| &arm.id))?;
    run.write_run(&record)?;
    Ok((run, record))
}

/// Converts tasks to the form stored in a run's plan.
pub fn to_run_tasks(planned_tasks: &[PlannedTask]) -> Vec<RunTask> {
    // Compute each source directory's digest only once, because computing it reads the whole
    // directory, and hundreds of tasks may share one.
    let mut read: HashMap<(PathBuf, String), Option<String>> = HashMap::new();
    let mut source = |one: &PlannedTask| {
        let source = one.task.source.as_ref()?;
        let key = (one.base_dir.clone(), format!("{source:?}"));
        read.entry(key).or_insert_with(|| local_source_digest(source, &one.base_dir)).clone()
    };
    let one = |planned: &PlannedTask| RunTask {
        task: planned.task.as_ref().clone(),
        digest: planned.task.digest(),
        base_dir: planned.base_dir.clone(),
        source: source(planned),
        host_bound: planned.task.environment.base.as_deref() == Some("host"),
    };
    planned_tasks.iter().map(one).collect()
}
