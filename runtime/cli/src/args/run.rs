//! What drives trials: `run`, `rerun`, `fork`, `shell`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Kind;

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The run configuration, a TOML file; or `demo`, which comes with the program.
    pub config: PathBuf,
    /// The run directory, new or empty. Default: `runs/<configuration>-<time>`.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Overrides one key: `budget.steps=100`, `arms.0.model=...`. The value is TOML, or else text.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Use this model for every arm: a name from `[models]`, or VENDOR/NAME for a known vendor or a local server
    /// (`openai/gpt-5.1`, `anthropic/claude-sonnet-4-5`, `ollama/qwen3:8b`).
    #[arg(long, value_name = "VENDOR/NAME")]
    pub model: Option<String>,
    /// Adds the configuration's arms, tasks and attempts to the run in --out, and runs only what is missing there.
    #[arg(long, requires = "out")]
    pub extend: bool,
    /// Run only tasks whose id matches the glob: `--tasks 'django__*'`. Repeat for further globs.
    #[arg(long, value_name = "GLOB")]
    pub tasks: Vec<String>,
    /// Run only arms whose name matches the glob: `--arms '*steps=50'`. Repeat for further globs.
    #[arg(long, value_name = "GLOB")]
    pub arms: Vec<String>,
    /// Only so many of the tasks: a sample, the same one each time, which the record names.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Trials at once, in the place of the configuration's `jobs`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub jobs: Option<u64>,
    /// Asks no model before the first trial. Otherwise each that 10 trials or more wait for is asked once.
    #[arg(long)]
    pub no_preflight: bool,
    /// First runs gold and noop on N of the tasks (3), and starts no trial where gold does not resolve one, or noop does.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "3",
          value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "dry_run")]
    pub check_tasks: Option<u64>,
    /// Prints the plan and its arms; runs nothing.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct ForkArgs {
    /// The run directory.
    pub run: PathBuf,
    /// The trial, as `proctor show RUN` names it.
    #[arg(long, value_name = "TASK/ARM/ATTEMPT")]
    pub trial: String,
    /// The step after which it goes on. The tools of that step have run.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    pub step: u64,
    /// What is other than in the trial's arm: `model=NAME`, `scaffold=bash`, `budget.steps=100`, or any key of the
    /// configuration; `hint=TEXT` is told to the model.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The run directory, new or empty.
    #[arg(long)]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct ShellArgs {
    /// A task's id, with --tasks; or a run directory, with --trial.
    #[arg(value_name = "TASK|RUN")]
    pub of: String,
    /// Files, folders, globs or `hf://owner/name@revision/split`, with `#key=value` options.
    #[arg(long, num_args = 1.., value_name = "DATASET")]
    pub tasks: Vec<String>,
    /// Where a task's sandbox runs; a trial's runs where the trial did.
    #[arg(long, value_enum, default_value_t = Kind::Native, conflicts_with = "trial")]
    pub sandbox: Kind,
    /// A trial of the run, as `proctor show RUN` names it.
    #[arg(long, value_name = "TASK/ARM/ATTEMPT")]
    pub trial: Option<String>,
    /// As it was after this step. Default: as it was at its end.
    #[arg(long, value_name = "K", requires = "trial", value_parser = clap::value_parser!(u64).range(1..))]
    pub step: Option<u64>,
    /// As grading saw it: patch and tests in place, once they have run.
    #[arg(long, requires = "trial", conflicts_with = "step")]
    pub graded: bool,
}

/// Which trials are repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Select {
    /// Those that ended in an infrastructure fault, or whose record is damaged.
    Faulted,
    /// Those that have not ended, or were not graded: what is there of them counts.
    Missing,
    /// All of them.
    All,
}

impl Select {
    pub fn name(self) -> &'static str {
        match self {
            Self::Faulted => "faulted",
            Self::Missing => "missing",
            Self::All => "there",
        }
    }
}
