//! Arguments of `export` and `import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::sandbox::SandboxArg;

/// Output formats of `export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Harbor trajectories (ATIF 1.8), one file per trial.
    Atif,
    /// Trials, steps and tests as CSV tables.
    Csv,
    /// Inspect AI logs (`.eval`), one file per arm.
    Inspect,
    /// Trials, steps and tests as tables, one JSON object per row.
    Jsonl,
    /// mini-swe-agent trajectories (format 1.1), one file per trial.
    Mini,
    /// OpenTelemetry spans (OTLP in JSON), one file per arm and attempt, one line per trial.
    Otel,
    /// Trials, steps and tests as Parquet tables: `trials.parquet`, `steps.parquet`,
    /// `tests.parquet`.
    Parquet,
    /// Conversations with scores, for model training, one file per arm and attempt, one line per
    /// trial.
    Rollouts,
    /// SWE-agent trajectories (`.traj`), one file per trial.
    SweAgent,
    /// Predictions (`instance_id`, `model_name_or_path`, `model_patch`), one file per arm and attempt.
    Swebench,
    /// A submission to SWE-bench's experiments repository, one folder per arm and attempt.
    SwebenchSubmission,
}

/// Input formats of `import`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// Harbor trajectories (ATIF 1.0 to 1.8).
    Atif,
    /// mini-swe-agent trajectories.
    Mini,
    /// SWE-agent trajectories (`.traj`).
    SweAgent,
    /// Predictions, in any format that `proctor grade --predictions` reads.
    Swebench,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Trajectory or prediction files, or folders that contain them.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Write the imported run to this new or empty directory.
    #[arg(long, value_name = "RUN")]
    pub out: PathBuf,
    /// Format of the files. By default, Proctor detects the format of each file.
    #[arg(long, value_enum)]
    pub format: Option<ImportFormat>,
    /// The dataset that contains the imported trials' tasks. Without this option, `proctor grade`
    /// cannot grade the imported run.
    #[arg(long, num_args = 1.., value_name = "DATASET")]
    pub tasks: Vec<String>,
    /// Sandbox back end in which `proctor grade` will grade the imported run.
    #[arg(long, value_enum, default_value_t = SandboxArg::Native, requires = "tasks")]
    pub sandbox: SandboxArg,
}
