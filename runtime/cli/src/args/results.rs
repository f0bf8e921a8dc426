//! Commands that read a run: `show`, `curve`, `report`, `label`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Format, MaskArgs};

#[derive(Debug, Args)]
pub struct LabelArgs {
    /// The run directory. Without further options, list its labels.
    pub run: PathBuf,
    /// The trial.
    #[arg(long, value_name = "TASK/ARM/ATTEMPT", requires = "label")]
    pub trial: Option<String>,
    /// A step of the trial, counted from 1. Default: the whole trial.
    #[arg(long, value_name = "K", requires = "trial")]
    pub step: Option<u64>,
    /// A short name. An existing label of this name gets the new comment.
    #[arg(long, value_name = "NAME", requires = "trial")]
    pub label: Option<String>,
    /// A comment.
    #[arg(long, value_name = "TEXT", requires = "label", conflicts_with = "remove")]
    pub comment: Option<String>,
    /// Remove the label.
    #[arg(long, requires = "label")]
    pub remove: bool,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The run directory.
    pub run: PathBuf,
    /// A task's id, or a unique part of it.
    pub task: Option<String>,
    /// An arm's name, a part of it, or the first digits of its id.
    pub arm: Option<String>,
    /// The attempt, counted from 1.
    pub attempt: Option<u32>,
    /// Print this step in full: message, calls, outputs and changes.
    #[arg(long, value_name = "K")]
    pub step: Option<u64>,
    /// Print one part of a trial for programs, exactly as recorded. `tree` and `file` show the work directory after
    /// `--step`, by default at the end.
    #[arg(long, value_enum, value_name = "PART")]
    pub print: Option<TrialPart>,
    /// With `--print file`: the file's path below the work directory, as `--print tree` lists it.
    #[arg(long, value_name = "PATH", requires = "print")]
    pub path: Option<String>,
}

/// A part of a trial that `show --print` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TrialPart {
    /// The events that count, one JSON object per line.
    Events,
    /// One file of the work directory, as bytes.
    File,
    /// The outcome as JSON; `null` until the trial has ended.
    Outcome,
    /// The patch, as bytes.
    Patch,
    /// The files of the work directory as a JSON list.
    Tree,
    /// The verdict as JSON; `null` without one.
    Verdict,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Run directories.
    #[arg(required = true)]
    pub runs: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Show what differs between the arms: factors, limits hit, faults, task revisions, environments.
    #[arg(long)]
    pub why: bool,
    /// Show the texts of the factors that differ, such as prompts, instead of their digests.
    #[arg(long, requires = "why")]
    pub full: bool,
    /// Require an arm to be at most POINTS of `resolved` behind another: `--gate 'new >= old - 2'`.
    ///
    /// The exit status is 0 if the lower end of the 95 % interval of the difference is at least -POINTS, 4 if the upper
    /// end is below -POINTS, and 5 otherwise. It is 3 if an arm is incomplete and 2 if an arm is unknown. Repeat the
    /// option for more gates: the exit status is then the first of 3, 4 and 5 that any gate has. Names may be quoted.
    #[arg(long = "gate", value_name = "ARM >= ARM - POINTS")]
    pub gates: Vec<String>,
}

#[derive(Debug, Args)]
pub struct CurveArgs {
    /// The run directory.
    pub run: PathBuf,
    /// The budgets: `steps=10,50,100`, `tokens=...` (in and out), `cost=...` (US dollars) or `seconds=...`
    /// (of the wall clock).
    #[arg(long, value_name = "KIND=N,...")]
    pub at: Option<String>,
    /// Find the step at which each trial first resolves its task.
    #[arg(long)]
    pub every: bool,
    /// Run N tasks at the smallest budget of --at, and print the error of the curve. This sends requests to the models.
    /// The runs are kept next to RUN.
    #[arg(long, value_name = "N", requires = "at", value_parser = clap::value_parser!(u32).range(1..))]
    pub check: Option<u32>,
    /// Draw only arms whose name matches the glob: `--arms '*steps=500'`. Repeat for further globs.
    #[arg(long, value_name = "GLOB")]
    pub arms: Vec<String>,
    /// Show the curve even if the model knew its budget. It is labelled as truncated.
    #[arg(long)]
    pub allow_truncated: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = CurveFormat::Text)]
    pub format: CurveFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CurveFormat {
    /// A table for a terminal.
    Text,
    /// Everything, for programs.
    Json,
    /// One row per point, for a spreadsheet.
    Csv,
    /// One self-contained page.
    Html,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Run directories.
    #[arg(required = true)]
    pub runs: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Write to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Show the table of tasks in the text even if it does not fit a screen.
    #[arg(long)]
    pub tasks: bool,
    /// Show all findings in the text, with a line for each trial, even if they do not fit a screen.
    #[arg(long)]
    pub findings: bool,
    /// Show all group tables, even if each group has only one task. With CSV, print groups instead of trials.
    #[arg(long)]
    pub groups: bool,
    /// Also print how limits and waiting times affected each arm. The other formats always include this.
    #[arg(long)]
    pub noise: bool,
    /// Draw the curve of this file of `proctor curve --format json` on the HTML page. Repeat it for further curves.
    #[arg(long = "curve", value_name = "FILE")]
    pub curves: Vec<PathBuf>,
    /// Verify the whole record: journals, patches, snapshots, bodies, outputs.
    /// The exit status is 3 if damage removes verdicts, and 1 if it removes evidence only.
    #[arg(long)]
    pub verify: bool,
    /// Also show the scores without the tasks that this quality file marks (from `proctor tasks quality --out`).
    #[arg(long, value_name = "FILE")]
    pub quality: Option<PathBuf>,
    /// List the finished trials that the attribution and grading rules of this version treat differently; change
    /// nothing. `--format json` has the list for programs.
    #[arg(long, conflicts_with_all = ["verify", "quality", "tasks", "findings", "groups", "noise", "curves", "out", "mask", "mask_words"])]
    pub recheck: bool,
    #[command(flatten)]
    pub mask: MaskArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// The answer, results and findings on one screen, for a terminal.
    Text,
    /// Arms, comparisons and findings, for a pull request.
    Markdown,
    /// Everything, for programs.
    Json,
    /// One row per trial, for a spreadsheet.
    Csv,
    /// One self-contained page.
    Html,
}
