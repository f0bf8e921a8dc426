//! A run's page: its results by arm, and its matrix of trials (task x arm x attempt), restricted by
//! a filter.

use minijinja::Error;
use serde::Serialize;

use super::{Links, RunSummary, Sentence, TrialName, templates::render_template};

/// A cell of the matrix.
#[derive(Debug, Clone, Serialize)]
pub struct MatrixCell {
    /// The trial's URL, relative to the root.
    pub href: String,
    pub attempt: u32,
    pub word: &'static str,
    /// CSS class: `yes`, `no` or `open`.
    pub class: &'static str,
    /// The name of the trial's outcome, followed by the reason why its task is not resolved. Both
    /// come from fixed sets of words.
    pub ending: String,
    pub reason: String,
    /// The reason in words. If a limit ended the trial, what the tests show comes first.
    pub failure: String,
    /// The verdict's integrity, such as `suspect`. Empty without a verdict.
    pub integrity: String,
    pub steps: String,
}

/// A task's row, with its cells by arm.
#[derive(Debug, Clone, Serialize)]
pub struct MatrixRow {
    pub task: String,
    /// The URL of the page that shows the task's trials side by side. Empty if there is only
    /// one trial.
    pub beside: String,
    pub cells: Vec<Vec<MatrixCell>>,
}

/// A fault that ended trials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunFault {
    /// The first trial that it ended, and the trial's address relative to the root.
    pub trial: TrialName,
    pub href: String,
    /// Number of further trials that it ended.
    pub others: usize,
    pub text: String,
}

/// A run as a matrix: one row per task, one column per arm.
#[derive(Debug, Clone, Serialize)]
pub struct Matrix {
    pub run: String,
    /// The run's progress, as a sentence.
    pub state: String,
    /// Which trials have no verdict although the run has stopped, as a sentence. Empty if there are
    /// none.
    pub gap: String,
    /// The faults that ended trials of a stopped run.
    pub faults: Vec<RunFault>,
    /// Number of trials that have ended, then the number of all trials.
    pub ended: usize,
    pub trials: usize,
    /// The URLs of running trials, with their names and their current activities.
    pub going_on: Vec<(String, TrialName, String)>,
    /// The name and result of each arm.
    pub arms: Vec<(String, String)>,
    pub rows: Vec<MatrixRow>,
    pub findings: Vec<Sentence>,
}

/// The filter that the user entered. Empty strings match everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Filter {
    /// Words to look for in a trial's task, arm, ending and reason.
    pub text: String,
    pub arm: String,
    pub outcome: String,
    pub reason: String,
    pub integrity: String,
    /// `task`, `least` or `most`. Any other value means plan order.
    pub sort: String,
    /// The page number, counted from 1.
    pub page: usize,
}

/// The values that the user can select in the filter, with the number of trials for each.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FilterOptions {
    pub arms: Vec<(String, u64)>,
    pub outcomes: Vec<(String, u64)>,
    pub reasons: Vec<(String, u64)>,
    pub integrities: Vec<(String, u64)>,
}

/// The links between the pages of a matrix. URLs are complete and relative to the root.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PageLinks {
    /// The page number, counted from 1, and the number of pages.
    pub current: usize,
    pub count: usize,
    /// Empty on the first and on the last page, respectively.
    pub previous: String,
    pub next: String,
    /// The numbers and URLs of the first, the last and the nearby pages.
    pub numbered: Vec<(usize, String)>,
}

/// The content of a run's page.
#[derive(Debug, Clone, Serialize)]
pub struct Overview {
    pub run: Matrix,
    pub summary: RunSummary,
    /// The URL of the run's report, relative to the root and without the suffix.
    pub report: String,
    pub filter: Filter,
    pub choices: FilterOptions,
    /// The URL of the comparison of the run's arms, relative to the root and without the
    /// suffix. Empty if the run has fewer than two arms under study.
    pub comparison: String,
    /// Number of trials that match the filter, then the number of all trials.
    pub shown: usize,
    pub of: usize,
    pub pages: PageLinks,
    /// Whether the page may still change because work on some trials is not finished.
    pub live: bool,
}

#[derive(Serialize)]
struct PageContext<'a> {
    overview: &'a Overview,
    links: &'a Links<'a>,
    live: bool,
}

/// # Errors
/// See [`super::render_trial`].
pub fn render_matrix(overview: &Overview, links: &Links<'_>) -> Result<String, Error> {
    render_template("matrix.html", PageContext { overview, links, live: overview.live })
}
