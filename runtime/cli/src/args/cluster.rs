//! Arguments of the commands for several machines: `worker` and `submit`.

use std::{collections::BTreeMap, path::PathBuf};

use clap::{Args, ValueEnum};

use super::run::RunArgs;

#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// The run directory, on a file system that all workers share.
    pub run: PathBuf,
    /// Number of trials to run in parallel. Default: as many as the CPUs and memory available to
    /// this process allow, up to the run's `jobs` setting.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub jobs: Option<u64>,
    /// Time until this process must exit, in Slurm's format: `30` (minutes), `1:30:00`,
    /// `2-12:00:00` or UNLIMITED. The worker doesn't start a trial that might not finish in time.
    #[arg(long, value_name = "TIME")]
    pub time_left: Option<String>,
    /// Re-run finished trials whose records were deleted or moved.
    #[arg(long)]
    pub confirm: bool,
}

#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// The scheduler to use.
    #[arg(long, value_enum)]
    pub engine: EngineName,
    /// Number of workers to submit.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub workers: u32,
    /// Set a scheduler option. Keys for Slurm: partition, account, qos, time, mem, cpus, gres,
    /// constraint, extra. Keys for Kubernetes: image, claim, mount, namespace, mem, cpus, secret,
    /// service_account, privileged.
    #[arg(long = "engine-set", value_name = "KEY=VALUE", value_parser = parse_engine_setting)]
    pub engine_set: Vec<(String, String)>,
    #[command(flatten)]
    pub run: RunArgs,
}

impl SubmitArgs {
    /// Returns the engine's settings. If a key is repeated, its last value wins.
    pub fn engine_settings(&self) -> BTreeMap<String, String> {
        self.engine_set.iter().cloned().collect()
    }

    /// Returns the name of an option that was passed although it only applies when a run is
    /// planned, or `None` if there is no such option. `--set` doesn't count, because it can also
    /// change shared limits and endpoints of an existing run.
    pub fn first_planning_option(&self) -> Option<&'static str> {
        let args = &self.run;
        let given = [
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
    /// Submit the workers as one array job.
    Slurm,
    /// Print a Job manifest. Requires --dry-run.
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

fn parse_engine_setting(text: &str) -> Result<(String, String), String> {
    let wrong = || "expected KEY=VALUE, such as partition=gpu".to_owned();
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    match key.is_empty() {
        true => Err(wrong()),
        false => Ok((key.to_owned(), value.to_owned())),
    }
}
