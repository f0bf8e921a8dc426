//! `export` and `import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Kind;

/// What `export` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Trajectories of Harbor (ATIF 1.8): a file a trial.
    Atif,
    /// Trials, steps and tests as tables in CSV.
    Csv,
    /// Logs of Inspect AI (`.eval`): a file an arm.
    Inspect,
    /// Trials, steps and tests as tables, a JSON object per row.
    Jsonl,
    /// Trajectories of mini-swe-agent (format 1.1): a file a trial.
    Mini,
    /// Spans of OpenTelemetry (OTLP in JSON): a file for each arm and attempt, a line a trial.
    Otel,
    /// Trials, steps and tests as tables in Parquet: `trials.parquet`, `steps.parquet`, `tests.parquet`.
    Parquet,
    /// Conversations with their scores, for training: a file for each arm and attempt, a line a trial.
    Rollouts,
    /// Trajectories of SWE-agent (`.traj`): a file a trial.
    SweAgent,
    /// Predictions (`instance_id`, `model_name_or_path`, `model_patch`): a file for each arm and attempt.
    Swebench,
    /// What SWE-bench's repository of experiments takes: a folder for each arm and attempt.
    SwebenchSubmission,
}

/// What `import` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// Trajectories of Harbor (ATIF 1.0 to 1.8).
    Atif,
    /// Trajectories of mini-swe-agent.
    Mini,
    /// Trajectories of SWE-agent (`.traj`).
    SweAgent,
    /// Predictions, as `proctor grade --predictions` reads them.
    Swebench,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files, each a trajectory or predictions; or folders of them, as `proctor export` writes.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// The run directory, new or empty.
    #[arg(long, value_name = "RUN")]
    pub out: PathBuf,
    /// What the files are. Default: what each of them looks like.
    #[arg(long, value_enum)]
    pub format: Option<ImportFormat>,
    /// The tasks that they are of, so that `proctor grade RUN` can grade them.
    #[arg(long, num_args = 1.., value_name = "DATASET")]
    pub tasks: Vec<String>,
    /// Where they will be graded.
    #[arg(long, value_enum, default_value_t = Kind::Native, requires = "tasks")]
    pub sandbox: Kind,
}
