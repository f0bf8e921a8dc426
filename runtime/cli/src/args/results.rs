//! Commands that read a run: `show`, `curve`, `report`, `label`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::mask::MaskArgs;

#[derive(Debug, Args)]
pub struct LabelArgs {
    /// The run directory. Without further options, the run's labels are listed.
    pub run: PathBuf,
    /// The trial to label, as listed by `proctor show RUN`.
    #[arg(long, value_name = "TASK/ARM/ATTEMPT", requires = "label")]
    pub trial: Option<String>,
    /// A step of the trial, counted from 1. Default: the whole trial.
    #[arg(long, value_name = "K", requires = "trial")]
    pub step: Option<u64>,
    /// The label: a short name. If the label already exists, its comment is replaced.
    #[arg(long, value_name = "NAME", requires = "trial")]
    pub label: Option<String>,
    /// A comment to store with the label.
    #[arg(long, value_name = "TEXT", requires = "label", conflicts_with = "remove")]
    pub comment: Option<String>,
    /// Remove the label given with --label.
    #[arg(long, requires = "label")]
    pub remove: bool,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The run directory.
    pub run: PathBuf,
    /// The task's id, or any part of it that no other task's id contains.
    pub task: Option<String>,
    /// The arm's name, a part of the name, or the first digits of the arm's id.
    pub arm: Option<String>,
    /// The attempt, counted from 1.
    pub attempt: Option<u32>,
    /// Print this step in full: the message, tool calls, outputs and file changes.
    #[arg(long, value_name = "K")]
    pub step: Option<u64>,
    /// Print one part of a trial exactly as recorded, for use in scripts. `tree` and `file` show the
    /// work directory after the step given with --step or, without --step, at the end of the trial.
    #[arg(long, value_enum, value_name = "PART")]
    pub print: Option<TrialPart>,
    /// With `--print file`: the file's path relative to the work directory, as listed by `--print tree`.
    #[arg(long, value_name = "PATH", requires = "print")]
    pub path: Option<String>,
}

/// A part of a trial that `show --print` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TrialPart {
    /// The trial's events, without those of discarded tries, one JSON object per line.
    Events,
    /// One file of the work directory, as bytes.
    File,
    /// The outcome as JSON, or `null` if the trial has not ended.
    Outcome,
    /// The patch, as bytes.
    Patch,
    /// The files of the work directory as a JSON list.
    Tree,
    /// The verdict as JSON, or `null` if the trial has none.
    Verdict,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Run directories.
    #[arg(required = true)]
    pub runs: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub format: OutputFormat,
    /// Show how the arms differ: factors, limits reached, faults, task revisions and environments.
    #[arg(long)]
    pub why: bool,
    /// Show the full text of factors that differ, such as prompts, instead of their digests.
    #[arg(long, requires = "why")]
    pub full: bool,
    /// Fail if an arm's `resolved` rate is more than POINTS percentage points below another arm's:
    /// `--gate 'new >= old - 2'`.
    ///
    /// The exit status is 0 if the lower end of the difference's 95% confidence interval is at
    /// least -POINTS, 4 if the upper end is below -POINTS, and 5 otherwise. It is 3 if an arm is
    /// incomplete and 2 if an arm is unknown. Repeat the option for more gates. The exit status is
    /// then the first of 3, 4 and 5 that applies to any gate. You may put arm names in quotes.
    #[arg(long = "gate", value_name = "ARM >= ARM - POINTS")]
    pub gates: Vec<String>,
}

#[derive(Debug, Args)]
pub struct CurveArgs {
    /// The run directory.
    pub run: PathBuf,
    /// The budgets to compute results for: `steps=10,50,100`, `tokens=...` (input and output),
    /// `cost=...` (US dollars) or `seconds=...` (wall time).
    #[arg(long, value_name = "KIND=N,...")]
    pub at: Option<String>,
    /// Find the step at which each trial first resolves its task.
    #[arg(long)]
    pub every: bool,
    /// Check the curve: run N tasks with the smallest budget in --at, and print how much the curve
    /// differs from the results. The check calls the models and stores its runs next to RUN.
    #[arg(long, value_name = "N", requires = "at", value_parser = clap::value_parser!(u32).range(1..))]
    pub check: Option<u32>,
    /// Show only arms whose name matches the glob: `--arms '*steps=500'`. Repeat for more globs.
    #[arg(long, value_name = "GLOB")]
    pub arms: Vec<String>,
    /// Show the curve even if the agents knew their budget. Such a curve is marked as truncated,
    /// because the agents might have worked differently with a smaller budget.
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
    /// All data as JSON, for programs.
    Json,
    /// One row per point, for a spreadsheet.
    Csv,
    /// One self-contained HTML page.
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
    /// In the text format, show the table of tasks even if the table does not fit on one screen.
    #[arg(long)]
    pub tasks: bool,
    /// In the text format, show all findings, one line per trial, even if they do not fit on one
    /// screen.
    #[arg(long)]
    pub findings: bool,
    /// Show all group tables, even if each group has only one task. With CSV, print groups instead of trials.
    #[arg(long)]
    pub groups: bool,
    /// In the text format, also print how limits and waiting times affected each arm. The other
    /// formats always include this information.
    #[arg(long)]
    pub noise: bool,
    /// Add a curve to the HTML page. FILE is the output of `proctor curve --format json`. Repeat
    /// for more curves.
    #[arg(long = "curve", value_name = "FILE")]
    pub curves: Vec<PathBuf>,
    /// Verify every recorded file: journals, patches, snapshots, request and response bodies, and
    /// outputs. The exit status is 3 if corrupt files affect verdicts, and 1 if they only affect
    /// evidence.
    #[arg(long)]
    pub verify: bool,
    /// Also show the scores without the tasks that this quality file marks. FILE is written by
    /// `proctor tasks quality --out`.
    #[arg(long, value_name = "FILE")]
    pub quality: Option<PathBuf>,
    /// List finished trials whose attribution or verdict would change under the rules of this
    /// Proctor version. The run itself does not change. For a machine-readable list, add
    /// `--format json`.
    #[arg(long, conflicts_with_all = ["verify", "quality", "tasks", "findings", "groups", "noise", "curves", "out", "mask", "mask_words"])]
    pub recheck: bool,
    #[command(flatten)]
    pub mask: MaskArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Text for a terminal: the main result, the full results and the findings on one screen.
    Text,
    /// Arms, comparisons and findings, for a pull request.
    Markdown,
    /// All data as JSON, for programs.
    Json,
    /// One row per trial, for a spreadsheet.
    Csv,
    /// One self-contained HTML page.
    Html,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Text for a terminal.
    Text,
    /// JSON for programs.
    Json,
}
