//! `tasks` and its actions.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Kind;

#[derive(Debug, Subcommand)]
pub enum TasksAction {
    /// One line a task.
    List(Dataset),
    /// One task, to be read.
    #[command(override_usage = "proctor tasks show <ID> --tasks <DATASET>...\n       \
                                proctor tasks show --tasks <DATASET>... <ID>")]
    Show {
        /// The task's id; it may stand behind the datasets too.
        id: Option<String>,
        /// Show the solution too.
        #[arg(long)]
        gold: bool,
        /// As a JSON object of the task format.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        dataset: Dataset,
    },
    /// Runs gold and noop over every task: gold must resolve, noop must not. With --attack, a pack of attacks too.
    Validate {
        #[command(flatten)]
        dataset: Dataset,
        /// Grade the pack of attacks (and the tasks' own `cheats`) on each task: none may be resolved. `--attack=A,B`
        /// grades these of the pack only.
        #[arg(long, value_name = "NAMES", num_args = 0..=1, require_equals = true, default_missing_value = WHOLE_PACK)]
        attack: Option<String>,
        /// Only so many tasks, drawn by a fixed seed.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
        /// How many times.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        repeat: u32,
        /// Where the sandboxes run.
        #[arg(long, value_enum, default_value_t = Kind::Native)]
        sandbox: Kind,
        /// Trials at once.
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        jobs: u32,
        /// Keep the run here. Default: it is kept where something failed, and its folder named.
        #[arg(long)]
        out: Option<PathBuf>,
        /// Write a certificate: with --repeat of at least 2, flaky and resource-sensitive tests, seconds, memory
        /// (gold also runs with half the CPUs and half the memory); with --attack, what the attacks did.
        #[arg(long, value_name = "FILE")]
        certificate: Option<PathBuf>,
        /// Accept tasks whose fail-to-pass tests the agent can read, for runs with `[statement] tests = true`.
        #[arg(long)]
        visible_tests: bool,
    },
    /// Writes a variant of each task that no honest solution resolves: one expectation of a fail-to-pass test is made
    /// wrong. An agent that resolves it answers by the test.
    Impossible {
        #[command(flatten)]
        dataset: Dataset,
        /// Where the sandboxes run.
        #[arg(long, value_enum, default_value_t = Kind::Native)]
        sandbox: Kind,
        /// The dataset of the variants, one JSON object a line.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Print the size of the tasks: statements, solutions, tests, repositories, dates.
    ///
    /// The figures are those of FeatureBench's table of complexity and of FEA-Bench's Table 1. Several datasets stand side
    /// by side. Nothing is run; a source that is not in the cache is downloaded.
    Stats {
        #[command(flatten)]
        dataset: Dataset,
        /// Output format.
        #[arg(long, value_enum, default_value_t = StatsFormat::Text)]
        format: StatsFormat,
    },
    /// What speaks against each task: a statement that tells the solution, duplicates, tests that need the network or the
    /// day, and what a certificate knows. Nothing is run.
    Quality {
        #[command(flatten)]
        dataset: Dataset,
        /// A certificate of `proctor tasks validate`: gold, noop, unreliable tests, attacks.
        #[arg(long, value_name = "FILE")]
        certificate: Option<PathBuf>,
        /// Write the quality file, which `proctor report --quality` takes.
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
    /// One row a figure, for a spreadsheet.
    Csv,
    /// The figures of each dataset and of each task, for machines.
    Json,
}

/// What `--attack` without names stands for.
pub const WHOLE_PACK: &str = "all";

#[derive(Debug, Args)]
pub struct Dataset {
    /// Files, folders, globs or `hf://owner/name@revision/split`, with `#key=value` options.
    #[arg(long, required = true, num_args = 1.., value_name = "DATASET")]
    pub tasks: Vec<String>,
}
