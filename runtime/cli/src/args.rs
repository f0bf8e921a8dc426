//! What can be typed.

mod cluster;
mod collect;
mod exchange;
mod grade;
mod groups;
mod init;
mod mask;
mod results;
mod run;
mod tasks;

use std::{path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};
use proctor_types::SandboxKind;

pub use self::{
    cluster::{EngineName, SubmitArgs, WorkerArgs},
    collect::{CollectArgs, CollectPullsArgs},
    exchange::{ExportFormat, ImportArgs, ImportFormat},
    grade::GradeArgs,
    groups::command,
    init::InitArgs,
    mask::MaskArgs,
    results::{CompareArgs, CurveArgs, CurveFormat, LabelArgs, ReportFormat, ShowArgs, TrialPart},
    run::{ForkArgs, RunArgs, Select, ShellArgs},
    tasks::{Dataset, StatsFormat, TasksAction, WHOLE_PACK},
};
use crate::progress::How;

/// Benchmark coding agents end to end
#[derive(Debug, Parser)]
#[command(name = "proctor", version, max_term_width = 100)]
pub struct Cli {
    /// How progress is told, on stderr: `auto`, `lines`, `json` or `none`.
    #[arg(long, value_enum, default_value_t = How::Auto, global = true, hide_default_value = true, hide_possible_values = true)]
    pub progress: How,
    /// Tells no progress. What a run plans, errors and the report are told as ever.
    #[arg(long, short, global = true, conflicts_with = "progress")]
    pub quiet: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a first run configuration, from options or from three questions.
    Init(InitArgs),
    /// Runs a configuration: plans, drives, grades and reports.
    Run(RunArgs),
    /// Runs what is not finished of a run.
    Resume {
        /// The run directory.
        run: PathBuf,
        /// Raises a limit that trials share (`budget.run.cost_usd=100`, `budget.arm.steps=...`), or moves a model to
        /// another endpoint (`models.NAME.base_url=...`, `key_env`, `price`).
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Work on the run together with other workers, as `proctor worker` does.
        #[arg(long, conflicts_with = "set")]
        join: bool,
        /// Run the rest on this machine, although `proctor submit` gave the run to an engine.
        #[arg(long)]
        here: bool,
        /// Trials at once, instead of the run's `jobs`.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
        jobs: Option<u64>,
        /// Run finished trials again if their records were removed or moved. By default this is an error, since their
        /// requests would be paid for twice.
        #[arg(long)]
        confirm: bool,
    },
    /// Run trials of a run together with other workers, until none is left.
    ///
    /// Workers may run on any machine that sees the run directory. Each trial is run by one worker. If a worker dies,
    /// another one continues its trials from their records. SIGUSR1 lets current steps and gradings finish and then ends
    /// the worker with status 75 if trials are left.
    Worker(WorkerArgs),
    /// Plan a run and let a scheduler start workers for it, or add workers to a run.
    ///
    /// The run directory must be on a file system that the nodes share. `proctor watch` shows how far the run is, and
    /// `proctor cancel` ends the workers.
    #[command(
        override_usage = "proctor submit <CONFIG|RUN> --engine <ENGINE> --workers <N> [OPTIONS]"
    )]
    Submit(SubmitArgs),
    /// End the workers that `submit` started. The run can be continued.
    Cancel {
        /// The run directory.
        run: PathBuf,
    },
    /// Repeats trials of a run. What was there is kept as the evidence of a try that does not count.
    Rerun {
        /// The run directory.
        run: PathBuf,
        /// Which trials.
        #[arg(long, value_enum)]
        select: Select,
    },
    /// Goes on from a step of a trial with another model, scaffold, budget or hint, as a new arm in a new run.
    Fork(ForkArgs),
    /// Grades patches that exist already: a run's anew, or predictions made elsewhere.
    Grade(GradeArgs),
    /// Lists, shows or validates tasks.
    Tasks {
        #[command(subcommand)]
        action: TasksAction,
    },
    /// Makes verified tasks out of a Python repository, without a hand and without a model: a dataset folder.
    Collect(CollectArgs),
    /// Makes verified tasks out of the merged pull requests of a clone: a dataset folder.
    CollectPulls(CollectPullsArgs),
    /// Opens a shell in a sandbox that stands as a task begins, or as a trial was at its end or after a step. Reads
    /// commands from standard input where that is no terminal; the exit status is the shell's.
    #[command(override_usage = "proctor shell <TASK> --tasks <DATASET>...\n       \
                                proctor shell <RUN> --trial <TASK/ARM/ATTEMPT> [--step <K> | --graded]")]
    Shell(ShellArgs),
    /// Prints the results of runs.
    Report {
        /// Run directories.
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// How it is written.
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
        /// Writes to this file instead of to standard output.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Shows every table of groups, also where each group is one task; as CSV the groups in the place of the trials.
        #[arg(long)]
        groups: bool,
        /// As text: adds a table of what limits and waits did to each arm. Markdown, HTML and JSON have it in any case.
        #[arg(long)]
        noise: bool,
        /// Reads and checks everything that was recorded: journals, patches, snapshots, bodies, outputs.
        /// Exit status 3 where damage takes verdicts away, 1 where it takes evidence alone.
        #[arg(long)]
        verify: bool,
        /// A file of `proctor tasks quality --out`: shows the scores without the tasks that it marks, too.
        #[arg(long, value_name = "FILE")]
        quality: Option<PathBuf>,
        /// List the finished trials that the attribution and grading rules of this version treat differently; change
        /// nothing. `--format json` has the list for programs.
        #[arg(long, conflicts_with_all = ["verify", "quality", "groups", "noise", "out", "mask", "mask_words"])]
        recheck: bool,
        #[command(flatten)]
        mask: MaskArgs,
    },
    /// Prints the trials of a run, one trial, or one step of it, by the names of task and arm.
    Show(ShowArgs),
    /// Keeps a label, with a comment, of a trial or a step beside the run; or lists them. The record stays as it is.
    Label(LabelArgs),
    /// Shows how far a run is that another terminal carries out, until it is done.
    Watch {
        /// The run directory.
        run: PathBuf,
    },
    /// Serves runs as pages on this machine: the first line on standard output is the address.
    View {
        /// Run directories.
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// The port on 127.0.0.1. Default: a free one.
        #[arg(long, default_value_t = 0, hide_default_value = true)]
        port: u16,
        /// Writes the same pages as files instead, to be opened, sent or hosted. The folder is new or empty.
        #[arg(long = "static", value_name = "DIR", conflicts_with = "port")]
        files: Option<PathBuf>,
        #[command(flatten)]
        mask: MaskArgs,
    },
    /// Writes the trials of a run in a form that other tools read, and says what the form cannot hold.
    Export {
        /// The run directory.
        run: PathBuf,
        /// How it is written.
        #[arg(long, value_enum)]
        format: ExportFormat,
        /// The folder, new or empty.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        #[command(flatten)]
        mask: MaskArgs,
    },
    /// Makes a run of trajectories or predictions of others: to look at, and with a dataset to grade.
    Import(ImportArgs),
    /// Compare the arms of runs on the tasks that they share.
    Compare(CompareArgs),
    /// Says what smaller limits would have given, from the snapshots of a run: no model is asked.
    Curve(CurveArgs),
    /// Removes environments, images and other caches that can be made again; never a run.
    Clean {
        /// Lists what would be removed; removes nothing.
        #[arg(long)]
        dry_run: bool,
        /// Only what was made longer ago than this: `90m`, `12h`, `30d`, `2w`.
        #[arg(long, value_name = "AGE", value_parser = age)]
        older_than: Option<Duration>,
    },
    /// Prints a JSON Schema, for editors.
    Schema {
        /// What it describes.
        #[arg(value_enum)]
        of: SchemaOf,
    },
    /// Prints what completes the commands in a shell: `source <(proctor completions bash)`.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Writes a manual page for each command.
    Man {
        /// The folder, new or empty.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Lists scaffolds; builds or shows the bundle of one that runs in the sandbox.
    Scaffold {
        #[command(subcommand)]
        action: ScaffoldAction,
    },
    /// Check this machine: run the quick part of the conformance kit and a trial on every back end
    Doctor {
        /// Run the whole kit
        #[arg(long)]
        full: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum ScaffoldAction {
    /// Lists all scaffolds: built-in ones, and agents with their versions and whether their bundle is built.
    List,
    /// Build the bundle of an agent, once. A run that needs it builds it too.
    Add {
        /// An agent's name, with any published version or `latest`, or the path of your own manifest.
        #[arg(value_name = "NAME[@VERSION]")]
        scaffold: String,
    },
    /// Prints an agent's manifest, with what its bundle holds.
    Show {
        /// The name of an agent, or the path of a manifest of one's own.
        #[arg(value_name = "NAME[@VERSION]")]
        scaffold: String,
        /// Reads the whole bundle and compares it with what was built.
        #[arg(long)]
        verify: bool,
    },
}

/// A number with its unit.
fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number and its unit: 90m, 12h, 30d or 2w".to_owned();
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

/// A back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Linux namespaces of this machine: no engine is needed.
    Native,
    /// A Docker engine.
    Docker,
}

impl From<Kind> for SandboxKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Native => Self::Native,
            Kind::Docker => Self::Docker,
        }
    }
}

/// What a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// A run configuration.
    Config,
    /// A task in Proctor's own format.
    Task,
    /// The manifest of a command-line agent.
    Manifest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal.
    Text,
    /// For machines.
    Json,
}
