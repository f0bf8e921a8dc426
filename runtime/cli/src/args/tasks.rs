//! Arguments of `tasks` and its subcommands.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::sandbox::SandboxArg;

#[derive(Debug, Subcommand)]
pub enum TasksAction {
    /// List the tasks. On a terminal, prints a table. Otherwise, prints one task per line with
    /// tab-separated fields: id, benchmark, level, repository, and the numbers of F2P and P2P tests.
    List(DatasetArgs),
    /// Show one task.
    #[command(override_usage = "proctor tasks show <ID> --tasks <DATASET>...\n       \
                                proctor tasks show --tasks <DATASET>... <ID>")]
    Show {
        /// The task's id. You can also put it after the datasets.
        id: Option<String>,
        /// Show the solution too.
        #[arg(long)]
        gold: bool,
        /// Print JSON in the task format.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        dataset: DatasetArgs,
    },
    /// Run gold (the task's solution) and noop (an empty patch) on every task. Gold must resolve
    /// the task, and noop must not. With --attack, also try attacks on grading.
    Validate {
        #[command(flatten)]
        dataset: DatasetArgs,
        /// Also grade the built-in attacks and the tasks' own `cheats`. Validation fails if an
        /// attack resolves a task. `--attack=A,B` grades only the named attacks.
        #[arg(long, value_name = "NAMES", num_args = 0..=1, require_equals = true, default_missing_value = ALL_ATTACKS)]
        attack: Option<String>,
        /// Validate a sample of N tasks, drawn with a fixed seed.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
        /// Number of times to run gold and noop on each task.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        repeat: u32,
        /// Sandbox back end to use.
        #[arg(long, value_enum, default_value_t = SandboxArg::Native)]
        sandbox: SandboxArg,
        /// Number of trials to run in parallel.
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        jobs: u32,
        /// Write the run to this folder and keep the run. By default, the run is kept only if
        /// something failed.
        #[arg(long)]
        out: Option<PathBuf>,
        /// Write a certificate to this file. With a --repeat value of 2 or more, the certificate
        /// lists flaky and resource-sensitive tests, run times and memory use. To find
        /// resource-sensitive tests, gold also runs with half the CPUs and half the memory. With
        /// --attack, the certificate lists the attacks' results.
        #[arg(long, value_name = "FILE")]
        certificate: Option<PathBuf>,
        /// Accept tasks whose fail-to-pass tests the agent can read. Use this option for runs with
        /// `[statement] tests = true`.
        #[arg(long)]
        visible_tests: bool,
    },
    /// Write an impossible variant of each task, in which one fail-to-pass test expects a wrong
    /// value. Only an agent that cheats by copying from the tests can resolve the variant.
    Impossible {
        #[command(flatten)]
        dataset: DatasetArgs,
        /// Sandbox back end to use.
        #[arg(long, value_enum, default_value_t = SandboxArg::Native)]
        sandbox: SandboxArg,
        /// Write the variants to this file, one JSON object per line.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Print statistics about the tasks: statement, solution and test sizes, repositories, and
    /// dates.
    ///
    /// The figures are the same as in FeatureBench's complexity table and FEA-Bench's Table 1.
    /// Several datasets are shown side by side. No tests are run, but sources that are not in the
    /// cache are downloaded.
    Stats {
        #[command(flatten)]
        dataset: DatasetArgs,
        /// Output format.
        #[arg(long, value_enum, default_value_t = StatsFormat::Text)]
        format: StatsFormat,
    },
    /// List the problems with each task: statements that reveal the solution, duplicates, tests
    /// that depend on the network or the current date, and problems recorded in a validation
    /// certificate. No tests are run.
    Quality {
        #[command(flatten)]
        dataset: DatasetArgs,
        /// A certificate from `proctor tasks validate`, with the results of gold, noop and attacks,
        /// and a list of unreliable tests.
        #[arg(long, value_name = "FILE")]
        certificate: Option<PathBuf>,
        /// Write a quality file, which `proctor report --quality` reads.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatsFormat {
    /// A table for a terminal.
    Text,
    /// A table for a pull request.
    Markdown,
    /// One row per figure, for a spreadsheet.
    Csv,
    /// The figures for each dataset and each task, for programs.
    Json,
}

/// The value of `--attack` if no names are given.
pub const ALL_ATTACKS: &str = "all";

#[derive(Debug, Args)]
pub struct DatasetArgs {
    /// The dataset: files, folders, globs or `hf://owner/name@revision/split`, with `#key=value`
    /// options.
    #[arg(long, required = true, num_args = 1.., value_name = "DATASET")]
    pub tasks: Vec<String>,
}
