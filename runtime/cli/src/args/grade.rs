//! Arguments of `grade`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use proctor_types::{FlakePolicy, MAX_CPUS, MAX_SIZE_MB, MIN_CPUS, MIN_MEMORY_MB, SandboxSpec};

use super::sandbox::SandboxArg;

#[derive(Debug, Args)]
pub struct GradeArgs {
    /// A run directory. The run's patches are graded again.
    pub run: Option<PathBuf>,
    /// Grade the patches in this predictions file from SWE-bench, mini-swe-agent, FeatureBench
    /// (`output.jsonl`) or FEA-Bench. `gold` grades the tasks' solutions, and `noop` grades empty
    /// patches. Harbor tasks with a separate verifier need more than a patch, so only `gold` and
    /// `noop` can grade them.
    #[arg(long, value_name = "FILE|gold|noop", conflicts_with = "run")]
    pub predictions: Option<String>,
    /// Print the verdict for existing test results, without running tests. FILE is a log from
    /// another harness, a test runner's report, or the folder of one attempt.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "predictions", "tasks"], requires = "task")]
    pub log: Option<PathBuf>,
    /// For --log: a file with one dataset row, the task that the log belongs to.
    #[arg(long, value_name = "ROW", requires = "log")]
    pub task: Option<PathBuf>,
    /// The dataset: files, folders, globs or `hf://owner/name@revision/split`, with `#key=value`
    /// options.
    #[arg(long, num_args = 1.., value_name = "DATASET")]
    pub tasks: Vec<String>,
    /// Also grade the patches of attempts that the predictions file marks as failed (FeatureBench's
    /// `success: false`).
    #[arg(long, requires = "predictions", conflicts_with = "run")]
    pub include_failed: bool,
    /// Write the results to this run directory, which must be new or empty. If you grade an
    /// existing run, Proctor grades a copy in this directory, so the original's verdicts stay
    /// unchanged. Default: `runs/grade-<time>` for predictions, or the existing run itself.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Sandbox back end to use.
    #[arg(long, value_enum, default_value_t = SandboxArg::Native, conflicts_with = "run")]
    pub sandbox: SandboxArg,
    /// Maximum number of trials to grade in parallel. Default: as many as the CPUs and memory allow.
    #[arg(long, conflicts_with = "run", value_parser = clap::value_parser!(u64).range(1..))]
    pub jobs: Option<u64>,
    /// Total number of CPUs to use for grading. Default: all of the machine's CPUs.
    #[arg(long, requires = "predictions", conflicts_with = "run", value_parser = parse_positive_number)]
    pub cpus: Option<f64>,
    /// Total memory to use for grading, in MiB. Default: the machine's free memory.
    #[arg(long, requires = "predictions", conflicts_with = "run", value_parser = clap::value_parser!(u64).range(1..))]
    pub memory_mb: Option<u64>,
    /// Number of CPUs for each grading sandbox.
    #[arg(long, value_name = "CPUS", requires = "predictions", conflicts_with = "run", value_parser = parse_cpus)]
    pub sandbox_cpus: Option<f64>,
    /// Memory limit of each grading sandbox, in MiB.
    #[arg(long, value_name = "MIB", requires = "predictions", conflicts_with = "run", value_parser = clap::value_parser!(u64).range(MIN_MEMORY_MB..=MAX_SIZE_MB))]
    pub sandbox_memory_mb: Option<u64>,
    /// Maximum number of processes and threads in each grading sandbox.
    #[arg(long, value_name = "N", requires = "predictions", conflicts_with = "run", value_parser = clap::value_parser!(u64).range(2..=4_194_304))]
    pub sandbox_processes: Option<u64>,
    /// Maximum amount of data that each grading sandbox may write to disk, in MiB.
    #[arg(long, value_name = "MIB", requires = "predictions", conflicts_with = "run", value_parser = clap::value_parser!(u64).range(1..=MAX_SIZE_MB))]
    pub sandbox_disk_mb: Option<u64>,
    /// A certificate from `proctor tasks validate` that lists flaky tests.
    #[arg(long, value_name = "FILE", requires = "predictions", conflicts_with = "run")]
    pub certificate: Option<PathBuf>,
    /// How to treat tests that the certificate marks as unreliable.
    #[arg(long, value_enum, default_value_t = FlakyArg::Quarantine, requires = "certificate")]
    pub flaky: FlakyArg,
    /// Also run all other tests that pass with the gold solution, and report the result as `wide`
    /// in the verdict. This option does not change `resolved`.
    #[arg(long, requires = "predictions", conflicts_with = "run")]
    pub wide: bool,
}

fn parse_positive_number(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|number: &f64| *number > 0.0 && number.is_finite());
    found.ok_or_else(|| "expected a number above 0".to_owned())
}

fn parse_cpus(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|number: &f64| (MIN_CPUS..=MAX_CPUS).contains(number));
    found.ok_or_else(|| format!("expected a number from {MIN_CPUS} to {MAX_CPUS}"))
}

impl GradeArgs {
    /// Returns the specification of the grading sandboxes.
    pub fn sandbox_spec(&self) -> SandboxSpec {
        let usual = SandboxSpec::default();
        SandboxSpec {
            kind: self.sandbox.into(),
            cpus: self.sandbox_cpus.unwrap_or(usual.cpus),
            memory_mb: self.sandbox_memory_mb.unwrap_or(usual.memory_mb),
            processes: self.sandbox_processes.unwrap_or(usual.processes),
            disk_mb: self.sandbox_disk_mb.unwrap_or(usual.disk_mb),
            ..usual
        }
    }
}

/// How grading treats unreliable tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FlakyArg {
    /// Run unreliable tests and show their results, but ignore them in the verdict.
    Quarantine,
    /// If only unreliable tests failed, grade the trial two more times and use the majority result.
    Vote,
    /// Treat unreliable tests like other tests.
    Count,
}

impl From<FlakyArg> for FlakePolicy {
    fn from(flaky: FlakyArg) -> Self {
        match flaky {
            FlakyArg::Quarantine => Self::Quarantine,
            FlakyArg::Vote => Self::Vote,
            FlakyArg::Count => Self::Count,
        }
    }
}
