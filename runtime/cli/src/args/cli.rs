//! The command line: the global options and the commands.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};

use super::{
    cluster::{SubmitArgs, WorkerArgs},
    collect::{CollectArgs, CollectPullsArgs},
    exchange::{ExportFormat, ImportArgs},
    grade::GradeArgs,
    init::InitArgs,
    mask::MaskArgs,
    results::{CompareArgs, CurveArgs, LabelArgs, ReportArgs, ShowArgs},
    run::{ForkArgs, RerunSelection, RunArgs, ShellArgs},
    tasks::TasksAction,
};
use crate::progress::ProgressFormat;

/// What `--version` prints: the version and, except in debug builds, the commit. `-V` prints only the version.
const LONG_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("PROCTOR_COMMIT_NOTE"));

/// Benchmark coding agents end to end
#[derive(Debug, Parser)]
#[command(name = "proctor", version, long_version = LONG_VERSION, max_term_width = 100)]
pub struct Cli {
    /// Set the format of progress output on standard error: `auto`, `lines`, `json` or `none`.
    #[arg(long, value_enum, default_value_t = ProgressFormat::Auto, global = true, hide_default_value = true, hide_possible_values = true)]
    pub progress: ProgressFormat,
    /// Hide progress. Plans, errors and reports are still printed.
    #[arg(long, short, global = true, conflicts_with = "progress")]
    pub quiet: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a run configuration from options or by answering three questions.
    Init(InitArgs),
    /// Run a configuration and print the report.
    Run(RunArgs),
    /// Continue an interrupted or failed run.
    Resume {
        /// The run directory.
        run: PathBuf,
        /// Change a setting before the run continues. You can raise a limit that trials share
        /// (`budget.run.cost_usd=100`, `budget.arm.steps=...`) or change a model's `base_url`,
        /// `key_env` or `price` (`models.NAME.base_url=...`).
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Share the run with other processes, as `proctor worker` does. Each trial is run by
        /// exactly one process.
        #[arg(long, conflicts_with = "set")]
        join: bool,
        /// Run the remaining trials on this machine, even if workers from `proctor submit` are
        /// expected to run them.
        #[arg(long)]
        here: bool,
        /// Number of trials to run in parallel. Default: the run's `jobs` setting.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
        jobs: Option<u64>,
        /// Re-run finished trials whose records were deleted or moved. Without this option, missing
        /// records are an error, because repeating the requests costs money.
        #[arg(long)]
        confirm: bool,
    },
    /// Run a run's trials alongside other workers until none are left.
    ///
    /// Workers may run on any machine that has access to the run directory. Each trial is run by
    /// exactly one worker. If a worker dies, another one continues its trials from their records.
    /// On SIGUSR1, a worker finishes any steps and grading in progress, then exits with status 75
    /// if any trials are left.
    Worker(WorkerArgs),
    /// Submit workers for a new or existing run to a scheduler.
    ///
    /// The run directory must be on a file system that all nodes share. `proctor watch` shows the
    /// run's progress, and `proctor cancel` stops the workers. For an existing run, `--set` changes
    /// the same settings as `proctor resume --set`, such as `budget.run.cost_usd=100`.
    #[command(
        override_usage = "proctor submit <CONFIG|RUN> --engine <ENGINE> --workers <N> [OPTIONS]"
    )]
    Submit(SubmitArgs),
    /// Stop the workers that `proctor submit` started for a run. You can resume the run later.
    Cancel {
        /// The run directory.
        run: PathBuf,
    },
    /// Re-run selected trials of a run. Earlier tries stay in the record but no longer count.
    Rerun {
        /// The run directory.
        run: PathBuf,
        /// The trials to re-run.
        #[arg(long, value_enum)]
        select: RerunSelection,
    },
    /// Continue a trial from a given step with a different model, scaffold, budget or hint, as a
    /// new run.
    Fork(ForkArgs),
    /// Grade a run's patches again, or grade another tool's predictions.
    Grade(GradeArgs),
    /// List, show, validate and measure tasks.
    Tasks {
        #[command(subcommand)]
        action: TasksAction,
    },
    /// Create verified tasks from a Python repository, without manual work and without a model.
    Collect(CollectArgs),
    /// Create verified tasks from the merged pull requests in one or more Git clones.
    CollectPulls(CollectPullsArgs),
    /// Open a shell in the sandbox of a task or a trial. If standard input is not a terminal, the
    /// shell reads commands from standard input. The command exits with the shell's status.
    #[command(override_usage = "proctor shell <TASK> --tasks <DATASET>...\n       \
                                proctor shell <RUN> --trial <TASK/ARM/ATTEMPT> [--step <K> | --graded]")]
    Shell(ShellArgs),
    /// Print the results of runs.
    Report(ReportArgs),
    /// Print all trials of a run, one trial, or one step.
    Show(ShowArgs),
    /// Add, remove or list labels on trials and steps. Labels do not change the record.
    Label(LabelArgs),
    /// Show a run's progress until the run ends.
    Watch {
        /// The run directory.
        run: PathBuf,
    },
    /// Open the web viewer for runs. The first line of standard output is the viewer's URL.
    View {
        /// Run directories, or folders of run directories.
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// Port on 127.0.0.1 to listen on. Default: a free port.
        #[arg(long, default_value_t = 0, hide_default_value = true)]
        port: u16,
        /// Write the pages to this folder, which must be new or empty, instead of serving them.
        #[arg(long = "static", value_name = "DIR", conflicts_with = "port")]
        files: Option<PathBuf>,
        #[command(flatten)]
        mask: MaskArgs,
    },
    /// Export trials in another tool's format, and list the data that the format cannot represent.
    Export {
        /// The run directory.
        run: PathBuf,
        /// Output format.
        #[arg(long, value_enum)]
        format: ExportFormat,
        /// Write the exported files to this folder, which must be new or empty.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        #[command(flatten)]
        mask: MaskArgs,
    },
    /// Import trajectories or predictions from other tools as a run.
    Import(ImportArgs),
    /// Compare the arms of one or more runs on the tasks that the arms share.
    Compare(CompareArgs),
    /// Show results under smaller limits, computed from a run's snapshots without calling a model.
    Curve(CurveArgs),
    /// Remove environments, images and other caches. Runs are never removed.
    Clean {
        /// List the items that would be removed, but don't remove them.
        #[arg(long)]
        dry_run: bool,
        /// Remove only items older than this age, such as `90m`, `12h`, `30d` or `2w`.
        #[arg(long, value_name = "AGE", value_parser = parse_age)]
        older_than: Option<Duration>,
    },
    /// Print the JSON Schema of a file format. Editors can use it to check and complete files.
    Schema {
        /// The file format to describe.
        #[arg(value_enum, value_name = "KIND")]
        of: SchemaKind,
    },
    /// Print a shell completion script. In bash, load it with `source <(proctor completions bash)`.
    Completions {
        /// The shell to generate the script for.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command.
    Man {
        /// Write the pages to this folder, which must be new or empty.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// List scaffolds, and build or show the bundles of command-line agents.
    Scaffold {
        #[command(subcommand)]
        action: ScaffoldAction,
    },
    /// Check this machine: run the conformance kit's quick tests and one trial on every sandbox
    /// back end
    Doctor {
        /// Run all tests of the conformance kit, not just the quick ones.
        #[arg(long)]
        full: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum ScaffoldAction {
    /// List all scaffolds with their versions and bundles.
    List,
    /// Build an agent's bundle ahead of time. Runs build missing bundles automatically.
    Add {
        /// An agent's name, optionally followed by a published version or `latest`
        /// (`NAME@VERSION`), or the path to your own manifest.
        #[arg(value_name = "NAME[@VERSION]")]
        scaffold: String,
    },
    /// Print an agent's manifest and the contents of its bundle.
    Show {
        /// An agent's name, or the path to your own manifest.
        #[arg(value_name = "NAME[@VERSION]")]
        scaffold: String,
        /// Verify that the bundle's files have not changed since it was built.
        #[arg(long)]
        verify: bool,
    },
}

/// Parses an age: a number followed by its unit.
fn parse_age(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a number and a unit, such as 90m, 12h, 30d or 2w".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return Err(wrong()),
    };
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<u64>().ok());
    number.and_then(|number| number.checked_mul(seconds)).map(Duration::from_secs).ok_or_else(wrong)
}

/// A file format with a JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaKind {
    /// A run configuration.
    Config,
    /// A task in Proctor's own format.
    Task,
    /// The manifest of a command-line agent.
    Manifest,
}
