//! `proctor tasks validate`: whether a dataset can be trusted on this host.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use proctor_core::Plan;
use proctor_report::Report;
use proctor_types::{Budget, LeakCheckSpec, NetworkPolicy, SandboxKind, SandboxSpec};

use crate::{
    args::Dataset,
    assemble::{self, Flakes, Grading},
    commands::{carry_out::carry_out, certificate, report, run},
    config::{self, ArmFile, ConfigFile, GradingFile},
    error::{CommandError, UserError},
    home, tasks,
};

/// The arm that runs gold with half of everything, for the certificate.
pub const REDUCED: &str = "gold, reduced";

/// What is asked of one validation.
pub struct Validation {
    pub dataset: Dataset,
    /// How often gold and noop run.
    pub repeat: u32,
    pub kind: SandboxKind,
    pub jobs: usize,
    pub out: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
}

/// Gold must resolve every task and noop none, each time; anything else is exit status 1.
pub async fn validate(asked: Validation) -> Result<ExitCode, CommandError> {
    let Validation { repeat, kind, jobs, .. } = asked;
    if asked.certificate.is_some() && repeat < 2 {
        return Err(UserError::new("--certificate needs --repeat of at least 2")
            .hint("one run cannot tell a flaky test from a steady one")
            .into());
    }
    let temporary = tempfile::tempdir()?;
    let out = asked.out.as_deref().unwrap_or(temporary.path());
    let cache = home::cache()?;
    let backend = assemble::backend(kind, &cache).await?;
    let planned = tasks::load(&asked.dataset.tasks, Path::new("."), &cache, &backend).await?;
    let resolved = config::resolve(
        config_of(&asked),
        &config::Written::default(),
        &|name| proctor_scaffolds::builtin(name),
        proctor_scaffolds::names(),
    )?;
    let (run_dir, _) = run::start(out, &resolved.file, resolved.arms.clone(), &planned)?;
    let plan = Plan {
        tasks: planned,
        arms: resolved.arms.into_iter().map(Arc::new).collect(),
        attempts: repeat,
    };
    // Each repetition counts only if it really runs.
    let backends = BTreeMap::from([(kind, backend)]);
    carry_out(run_dir, plan, jobs, backends, &cache, Grading::Anew, Flakes::default()).await?;
    if let Some(file) = &asked.certificate {
        let made = certificate::of_run(out)?;
        certificate::tell(&made);
        certificate::write(file, &made)?;
    }
    let invalid = invalid(&report::of_run(out)?);
    if invalid.is_empty() {
        eprintln!("valid: gold resolves every task and noop none, {repeat} of {repeat} times");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("invalid:\n  {}", invalid.join("\n  "));
    Ok(ExitCode::from(1))
}

/// Trials whose verdict is not what their arm's must be. The reduced runs judge the tests, not the
/// task.
fn invalid(report: &Report) -> Vec<String> {
    let mut invalid = Vec::new();
    for trial in &report.tasks {
        let name = report.arms.iter().find(|arm| arm.arm == trial.arm).map(|arm| arm.name.as_str());
        let is_gold = match name {
            Some("gold") => true,
            Some("noop") => false,
            _ => continue,
        };
        if trial.resolved != Some(is_gold) {
            let arm = if is_gold { "gold" } else { "noop" };
            let found = match trial.resolved {
                Some(true) => "resolves it",
                Some(false) => "does not resolve it",
                None => "has no verdict",
            };
            invalid.push(format!("{}, attempt {}: {arm} {found}", trial.task, trial.attempt));
        }
    }
    invalid
}

fn config_of(asked: &Validation) -> ConfigFile {
    let sandbox = SandboxSpec { kind: asked.kind, ..SandboxSpec::default() };
    let mut arms = vec![config::plain_arm("gold", &sandbox), config::plain_arm("noop", &sandbox)];
    if asked.certificate.is_some() {
        let half = SandboxSpec {
            cpus: sandbox.cpus / 2.0,
            memory_mb: sandbox.memory_mb / 2,
            ..sandbox.clone()
        };
        arms.push(ArmFile { name: REDUCED.into(), ..config::plain_arm("gold", &half) });
    }
    ConfigFile {
        tasks: asked.dataset.tasks.clone(),
        attempts: asked.repeat,
        jobs: asked.jobs,
        arms,
        sandbox,
        network: NetworkPolicy::default(),
        leak_check: LeakCheckSpec::default(),
        budget: Budget::default(),
        models: BTreeMap::new(),
        endpoints: BTreeMap::new(),
        grading: GradingFile::default(),
    }
}
