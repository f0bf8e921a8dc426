//! Commands that run trials: `run`, `rerun`, `fork`, `shell`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::sandbox::SandboxArg;

#[derive(Debug, Args)]
pub struct RunArgs {
    /// A run configuration (TOML), or the name of a built-in one such as `demo`.
    pub config: PathBuf,
    /// Write the run to this directory, which must be new or empty. Default:
    /// `runs/<configuration>-<time>`.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Override one configuration key: `budget.steps=100`, `arms.0.model=...`. A value that is not
    /// valid TOML is treated as a string.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Use this model for every arm: a name from `[models]`, or VENDOR/NAME for a known vendor or a local server
    /// (`openai/gpt-5.1`, `anthropic/claude-sonnet-4-5`, `ollama/qwen3:8b`).
    #[arg(long, value_name = "VENDOR/NAME")]
    pub model: Option<String>,
    /// Add the configuration's arms, tasks and attempts to the run in --out, and run only the
    /// missing trials.
    #[arg(long, requires = "out")]
    pub extend: bool,
    /// Run only tasks whose id matches the glob: `--tasks 'django__*'`. Repeat for more globs.
    #[arg(long, value_name = "GLOB")]
    pub tasks: Vec<String>,
    /// Run only arms whose name matches the glob: `--arms '*steps=50'`. Repeat for more globs.
    #[arg(long, value_name = "GLOB")]
    pub arms: Vec<String>,
    /// Run a random sample of N tasks. The sample is the same every time and is recorded in the run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Number of trials to run in parallel. Default: the configuration's `jobs`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub jobs: Option<u64>,
    /// Skip the checks before the first trial: a test request to each model with 10 or more trials,
    /// and a check that the plan's images exist.
    #[arg(long)]
    pub no_preflight: bool,
    /// Before the run, check N tasks (default 3) by running gold (the task's solution) and noop (an
    /// empty patch) on each. Stop if gold fails to resolve a task, or if noop resolves one.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "3",
          value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "dry_run")]
    pub check_tasks: Option<u64>,
    /// Print the plan without running it.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct ForkArgs {
    /// The run directory.
    pub run: PathBuf,
    /// The trial, as listed by `proctor show RUN`.
    #[arg(long, value_name = "TASK/ARM/ATTEMPT")]
    pub trial: String,
    /// Continue after this step. The step and its tool calls are kept.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    pub step: u64,
    /// Change the trial's arm: `model=NAME`, `scaffold=bash`, `budget.steps=100`, or any
    /// configuration key. `hint=TEXT` adds a hint to the conversation.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Write the new run to this new or empty directory.
    #[arg(long)]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct ShellArgs {
    /// A task's id (with --tasks), or a run directory (with --trial).
    #[arg(value_name = "TASK|RUN")]
    pub of: String,
    /// The dataset that contains the task: files, folders, globs or
    /// `hf://owner/name@revision/split`, with `#key=value` options.
    #[arg(long, num_args = 1.., value_name = "DATASET")]
    pub tasks: Vec<String>,
    /// Sandbox back end to use for a task. With --trial, the shell uses the back end of the trial's
    /// arm.
    #[arg(long, value_enum, default_value_t = SandboxArg::Native, conflicts_with = "trial")]
    pub sandbox: SandboxArg,
    /// A trial of the run, as listed by `proctor show RUN`.
    #[arg(long, value_name = "TASK/ARM/ATTEMPT")]
    pub trial: Option<String>,
    /// Use the state after this step. Default: the final state.
    #[arg(long, value_name = "K", requires = "trial", value_parser = clap::value_parser!(u64).range(1..))]
    pub step: Option<u64>,
    /// Use the state after grading, in which the patch and the tests have been applied and the
    /// tests have run.
    #[arg(long, requires = "trial", conflicts_with = "step")]
    pub graded: bool,
}

/// The trials to re-run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RerunSelection {
    /// Trials that ended in an infrastructure fault, or whose record is corrupt.
    Faulted,
    /// Trials that have not ended or have not been graded. They continue from their records.
    Missing,
    /// All trials.
    All,
}

impl RerunSelection {
    pub fn name(self) -> &'static str {
        match self {
            Self::Faulted => "faulted",
            Self::Missing => "missing",
            Self::All => "planned",
        }
    }
}
