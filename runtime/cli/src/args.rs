//! What can be typed.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use proctor_collection::Attacks;
use proctor_types::{FlakePolicy, SandboxKind};

use crate::progress::How;

/// Benchmarks coding agents end to end.
#[derive(Debug, Parser)]
#[command(name = "proctor", version, about, max_term_width = 100)]
pub struct Cli {
    /// How progress is told, on stderr: `auto`, `lines`, `json` or `none`.
    #[arg(long, value_enum, default_value_t = How::Auto, global = true, hide_default_value = true, hide_possible_values = true)]
    pub progress: How,
    /// Tells nothing of what happens: the plan, errors, and the report.
    #[arg(long, short, global = true, conflicts_with = "progress")]
    pub quiet: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
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
        /// Shares the trials with the runtimes that work on the run already. Each trial is one's.
        #[arg(long, conflicts_with = "set")]
        join: bool,
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
    },
    /// Writes the trials of a run in a form that other tools read, and says what the form cannot hold.
    Export {
        /// The run directory.
        run: PathBuf,
        #[arg(long, value_enum)]
        format: ExportFormat,
        /// The folder, new or empty.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Makes a run of trajectories or predictions of others: to look at, and with a dataset to grade.
    Import(ImportArgs),
    /// Compares the arms of runs on the tasks that they share.
    Compare {
        /// Run directories.
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
        /// Says what differs between the arms: factors, limits hit, faults, task revisions, environments.
        #[arg(long)]
        why: bool,
    },
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
        #[arg(value_enum)]
        of: SchemaOf,
    },
    /// Prints what completes the commands in a shell: `source <(proctor completions bash)`.
    Completions {
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
    /// Checks this machine: the quick part of the conformance kit on every back end.
    Doctor {
        /// Run the whole kit.
        #[arg(long)]
        full: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum ScaffoldAction {
    /// Lists all scaffolds: built-in ones, and agents with their versions and whether their bundle is built.
    List,
    /// Builds the bundle of an agent, once. A run that needs it builds it too.
    Add {
        /// The name of an agent, or the path of a manifest of one's own.
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

/// What `export` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Trajectories of Harbor (ATIF 1.8): a file a trial.
    Atif,
    /// Logs of Inspect AI (`.eval`): a file an arm.
    Inspect,
    /// Trajectories of mini-swe-agent (format 1.1): a file a trial.
    Mini,
    /// Spans of OpenTelemetry (OTLP in JSON): a file for each arm and attempt, a line a trial.
    Otel,
    /// Conversations with their scores, for training: a file for each arm and attempt, a line a trial.
    Rollouts,
    /// Trajectories of SWE-agent (`.traj`): a file a trial.
    SweAgent,
    /// Predictions (`instance_id`, `model_name_or_path`, `model_patch`): a file for each arm and attempt.
    Swebench,
    /// What SWE-bench's repository of experiments takes: a folder for each arm and attempt.
    SwebenchSubmission,
}

#[derive(Debug, Args)]
pub struct LabelArgs {
    /// The run directory. With nothing else: lists its labels.
    pub run: PathBuf,
    /// The trial that is meant.
    #[arg(long, value_name = "TASK/ARM/ATTEMPT", requires = "label")]
    pub trial: Option<String>,
    /// A step of it, counted from 1. Default: the whole trial.
    #[arg(long, value_name = "K", requires = "trial")]
    pub step: Option<u64>,
    /// A short name. Said again of the same trial and step, it replaces the comment.
    #[arg(long, value_name = "NAME", requires = "trial")]
    pub label: Option<String>,
    /// What else there is to say.
    #[arg(long, value_name = "TEXT", requires = "label", conflicts_with = "remove")]
    pub comment: Option<String>,
    /// Takes the label away.
    #[arg(long, requires = "label")]
    pub remove: bool,
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
    /// Puts one model in the place of every arm's: one of the configuration, or VENDOR/NAME at a
    /// vendor of configs/endpoints.toml (`--model openai/gpt-5.1`).
    #[arg(long, value_name = "VENDOR/NAME")]
    pub model: Option<String>,
    /// Adds the configuration's arms, tasks and attempts to the run in --out, and runs only what is missing there.
    #[arg(long, requires = "out")]
    pub extend: bool,
    /// Only the tasks whose id matches: `--tasks 'django__*'`.
    #[arg(long, value_name = "GLOB")]
    pub tasks: Option<String>,
    /// Only the arms whose name matches: `--arms '*steps=50'`.
    #[arg(long, value_name = "GLOB")]
    pub arms: Option<String>,
    /// Only so many of the tasks: a sample, the same one each time, which the record names.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Trials at once, in the place of the configuration's `jobs`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub jobs: Option<u64>,
    /// Asks no model before the first trial. Otherwise each is asked once, apart from the trials.
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

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The run directory.
    pub run: PathBuf,
    /// A task's id, or a part of it that no other has.
    pub task: Option<String>,
    /// An arm's name, or a part of it or the first digits of its id.
    pub arm: Option<String>,
    /// Counted from 1.
    pub attempt: Option<u32>,
    /// Prints this step whole: message, calls, outputs, and what it changed.
    #[arg(long, value_name = "K")]
    pub step: Option<u64>,
}

#[derive(Debug, Args)]
pub struct CurveArgs {
    /// The run directory.
    pub run: PathBuf,
    /// The budgets: `steps=10,50,100`, `tokens=...` (in and out), `cost=...` (US dollars) or `seconds=...`
    /// (of the wall clock).
    #[arg(long, value_name = "KIND=N,...")]
    pub at: Option<String>,
    /// Finds the step at which each trial first resolves its task.
    #[arg(long)]
    pub every: bool,
    /// Runs so many of the tasks for real, at the smallest budget of --at, and says how far the curve is off.
    /// This asks the models. The runs are kept beside RUN.
    #[arg(long, value_name = "N", requires = "at", value_parser = clap::value_parser!(u32).range(1..))]
    pub check: Option<u32>,
    /// Shows the curve of a model that was told its budget, labelled as truncated.
    #[arg(long)]
    pub allow_truncated: bool,
    #[arg(long, value_enum, default_value_t = CurveFormat::Text)]
    pub format: CurveFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CurveFormat {
    Text,
    Json,
    Csv,
    Html,
}

#[derive(Debug, Args)]
pub struct GradeArgs {
    /// A run directory, whose patches are graded anew.
    pub run: Option<PathBuf>,
    /// Predictions of SWE-bench, mini-swe-agent, FeatureBench (`output.jsonl`) or FEA-Bench, or
    /// `gold`, or `noop`.
    #[arg(long, value_name = "FILE|gold|noop", conflicts_with = "run")]
    pub predictions: Option<String>,
    /// Grades a log that somebody else's grading left: a log, a JUnit XML report, or the folder of
    /// one attempt. Prints the verdict; runs nothing.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "predictions", "tasks"], requires = "task")]
    pub log: Option<PathBuf>,
    /// The task that the log is of: a file with one row.
    #[arg(long, value_name = "ROW", requires = "log")]
    pub task: Option<PathBuf>,
    /// Files, folders, globs or `hf://owner/name@revision/split`, with `#key=value` options.
    #[arg(long, num_args = 1.., value_name = "DATASET")]
    pub tasks: Vec<String>,
    /// Grade the patches of attempts that say they failed, too (FeatureBench's `success: false`).
    #[arg(long, requires = "predictions", conflicts_with = "run")]
    pub include_failed: bool,
    /// The run directory, new or empty. Default: `runs/grade-<time>`; of a run, the run itself. A run that is
    /// graded with it is copied there first, and keeps its own verdicts.
    #[arg(long)]
    pub out: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = Kind::Native, conflicts_with = "run")]
    pub sandbox: Kind,
    /// Gradings at once; they wait for CPU and memory besides. Default: as many as find both.
    #[arg(long, conflicts_with = "run", value_parser = clap::value_parser!(u64).range(1..))]
    pub jobs: Option<u64>,
    /// CPUs that all gradings at once may use. Default: what the machine has.
    #[arg(long, requires = "predictions", conflicts_with = "run", value_parser = above_zero)]
    pub cpus: Option<f64>,
    /// Memory that all gradings at once may use, in MiB. Default: what the machine has free.
    #[arg(long, requires = "predictions", conflicts_with = "run", value_parser = clap::value_parser!(u64).range(1..))]
    pub memory_mb: Option<u64>,
    /// A flake certificate of `proctor tasks validate`.
    #[arg(long, value_name = "FILE", requires = "predictions", conflicts_with = "run")]
    pub certificate: Option<PathBuf>,
    /// What to do about the tests that the certificate calls unreliable.
    #[arg(long, value_enum, default_value_t = Flaky::Quarantine, requires = "certificate")]
    pub flaky: Flaky,
    /// Adds the verdict `wide`: every test of the repository that passes with gold. It decides nothing.
    #[arg(long, requires = "predictions", conflicts_with = "run")]
    pub wide: bool,
}

fn above_zero(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|number: &f64| *number > 0.0 && number.is_finite());
    found.ok_or_else(|| "not a number above 0".to_owned())
}

/// A number with its unit.
fn attacks(text: &str) -> Result<Attacks, String> {
    match text {
        "all" => Ok(Attacks::All),
        _ => text.parse().map(Attacks::Sample).map_err(|_| "a number of tasks, or all".to_owned()),
    }
}

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

/// What grading does about unreliable tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Flaky {
    /// They are run and shown, and decide nothing.
    Quarantine,
    /// A trial that only they failed is graded twice more, and the majority counts.
    Vote,
    /// They count like any other.
    Count,
}

impl From<Flaky> for FlakePolicy {
    fn from(flaky: Flaky) -> Self {
        match flaky {
            Flaky::Quarantine => Self::Quarantine,
            Flaky::Vote => Self::Vote,
            Flaky::Count => Self::Count,
        }
    }
}

/// A back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Native,
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
    },
    /// Writes a variant of each task that no honest solution resolves: one expectation of a fail-to-pass test is made
    /// wrong. An agent that resolves it answers by the test.
    Impossible {
        #[command(flatten)]
        dataset: Dataset,
        #[arg(long, value_enum, default_value_t = Kind::Native)]
        sandbox: Kind,
        /// The dataset of the variants, one JSON object a line.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
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

/// What `--attack` without names stands for.
pub const WHOLE_PACK: &str = "all";

#[derive(Debug, Args)]
pub struct CollectArgs {
    /// A release on PyPI with its tests in the sdist, a commit by its whole hash, or a folder.
    #[arg(value_name = "NAME==VERSION|git+URL@COMMIT|PATH", required_unless_present = "renew")]
    pub origin: Option<String>,
    /// Makes the tasks of this dataset again from the newest releases of their packages, and says which no longer stand
    /// (`renewed.jsonl`).
    #[arg(long, value_name = "DATASET", conflicts_with_all = ["origin", "dry_run"])]
    pub renew: Option<String>,
    /// The dataset folder: `tasks.jsonl`, `lite.jsonl`, `featurebench.jsonl`, `rejects.jsonl`, `tops.jsonl`,
    /// `report.json`, `summary.md`. What it holds of these is replaced. Default: `collections/<name>`.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Runs the tests, and tells what each test file is about (`tops.jsonl`); takes nothing away.
    #[arg(long)]
    pub dry_run: bool,
    #[arg(long, value_enum, default_value_t = Kind::Native)]
    pub sandbox: Kind,
    /// Test files at once.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub jobs: u32,
    /// Asks this model what each test file is about, in the place of the weights, and for a paragraph on each feature: a
    /// table of [models] in --config, or VENDOR/NAME at a vendor of configs/endpoints.toml. The requests are kept in `model.jsonl` and `model`.
    #[arg(long, value_name = "MODEL")]
    pub llm: Option<String>,
    /// A TOML file with a table [models.MODEL], such as a run configuration.
    #[arg(long, value_name = "FILE", requires = "llm")]
    pub config: Option<PathBuf>,
    /// Tasks of each level that the pack of attacks on grading is tried on: a number, or `all`. Each takes as long as some
    /// thirty gradings.
    #[arg(long, value_name = "N|all", default_value = "1", value_parser = attacks)]
    pub attack: Attacks,
    /// Names the stream of chance: the order of one run, how much is taken away, which files are drawn.
    #[arg(long, default_value = "0")]
    pub seed: String,
}

#[derive(Debug, Args)]
pub struct CollectPullsArgs {
    /// The folder of a git clone with its history. It is only read.
    pub clone: PathBuf,
    /// The dataset folder: `tasks.jsonl`, `feabench.jsonl` and its two other forms, `rejects.jsonl`, `report.json`,
    /// `summary.md`. What it holds of these is replaced. Default: `collections/<name>`.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Passes over what was merged before this day.
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub since: Option<String>,
    /// Titles, texts, labels and comments, one pull request a line, as the forge's API gives them. Without it commit
    /// messages say what they say.
    #[arg(long, value_name = "FILE")]
    pub pulls: Option<PathBuf>,
    /// Default: what the clone says of its origin, else the folder's name.
    #[arg(long, value_name = "OWNER/NAME")]
    pub repo: Option<String>,
    /// Asks this model which of them are about a new feature, in the place of lists of words: a table of [models] in
    /// --config, or VENDOR/NAME. The requests are kept in `model.jsonl` and `model`.
    #[arg(long, value_name = "MODEL")]
    pub llm: Option<String>,
    /// A TOML file with a table [models.MODEL], such as a run configuration.
    #[arg(long, value_name = "FILE", requires = "llm")]
    pub config: Option<PathBuf>,
    /// Runs nothing: writes `candidates.jsonl` and prints how many are left after each filter.
    #[arg(long)]
    pub dry_run: bool,
    /// Tries so many candidates, the newest first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "dry_run")]
    pub limit: Option<u32>,
    #[arg(long, value_enum, default_value_t = Kind::Native)]
    pub sandbox: Kind,
    /// Candidates at once.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub jobs: u32,
}

#[derive(Debug, Args)]
pub struct Dataset {
    /// Files, folders, globs or `hf://owner/name@revision/split`, with `#key=value` options.
    #[arg(long, required = true, num_args = 1.., value_name = "DATASET")]
    pub tasks: Vec<String>,
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
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Tables for a terminal.
    Text,
    /// Arms, comparisons and findings, for a pull request.
    Markdown,
    /// All of it, for machines.
    Json,
    /// One row a trial, for a spreadsheet.
    Csv,
    /// One self-contained page.
    Html,
}
