//! Arguments for several machines: `worker`, `submit`, `cancel`.

use std::{collections::BTreeMap, path::PathBuf};

use clap::{Args, ValueEnum};

use super::run::RunArgs;

#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// The run directory, on a file system that all workers share.
    pub run: PathBuf,
    /// Number of parallel trials. Default: as many as this process's CPUs and memory allow, at most the run's `jobs`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub jobs: Option<u64>,
    /// Time until this process must end, in Slurm's format: `30` (minutes), `1:30:00`, `2-12:00:00`, UNLIMITED. Trials
    /// that may take longer are not started.
    #[arg(long, value_name = "TIME")]
    pub time_left: Option<String>,
    /// Run finished trials again if their records were removed or moved.
    #[arg(long)]
    pub confirm: bool,
}

#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// The scheduler to use.
    #[arg(long, value_enum)]
    pub engine: EngineName,
    /// Number of workers to queue.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub workers: u32,
    /// Set an option of the engine. Slurm: partition, account, qos, time, mem, cpus, gres, constraint, extra. Kubernetes:
    /// image, claim, mount, namespace, mem, cpus, secret, service_account, privileged.
    #[arg(long = "engine-set", value_name = "KEY=VALUE", value_parser = parse_setting)]
    pub engine_set: Vec<(String, String)>,
    #[command(flatten)]
    pub run: RunArgs,
}

impl SubmitArgs {
    /// Returns the engine's settings. If a key is repeated, its last value wins.
    pub fn settings(&self) -> BTreeMap<String, String> {
        self.engine_set.iter().cloned().collect()
    }

    /// Returns the first planning option that was given, if any.
    pub fn planning_option(&self) -> Option<&'static str> {
        let args = &self.run;
        let given = [
            ("--set", !args.set.is_empty()),
            ("--model", args.model.is_some()),
            ("--tasks", !args.tasks.is_empty()),
            ("--arms", !args.arms.is_empty()),
            ("--limit", args.limit.is_some()),
            ("--jobs", args.jobs.is_some()),
            ("--out", args.out.is_some()),
            ("--extend", args.extend),
            ("--check-tasks", args.check_tasks.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// A scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// An array job of workers.
    Slurm,
    /// A Job's manifest, with --dry-run.
    Kubernetes,
}

impl EngineName {
    pub fn name(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Kubernetes => "kubernetes",
        }
    }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let wrong = || "expected KEY=VALUE, such as partition=gpu".to_owned();
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    match key.is_empty() {
        true => Err(wrong()),
        false => Ok((key.to_owned(), value.to_owned())),
    }
}
