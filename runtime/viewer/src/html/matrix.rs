//! The matrix of trials (task x arm x attempt) of each run, restricted by a filter.

use minijinja::Error;
use serde::Serialize;

use super::{Links, templates::render_template};

/// A cell of the matrix.
#[derive(Debug, Clone, Serialize)]
pub struct MatrixCell {
    /// Address of the trial, relative to the root.
    pub href: String,
    pub attempt: u32,
    pub word: &'static str,
    /// CSS class: `yes`, `no` or `open`.
    pub class: &'static str,
    /// How the trial ended, and why its task is not resolved. Each is one of a fixed set of words.
    pub ending: String,
    pub reason: String,
    pub steps: String,
}

/// A task with its cells by arm.
#[derive(Debug, Clone, Serialize)]
pub struct MatrixRow {
    pub task: String,
    /// The address of the page that shows the task's trials side by side. Empty if there is only
    /// one trial.
    pub beside: String,
    pub cells: Vec<Vec<MatrixCell>>,
}

/// A run as a matrix: one row per task, one column per arm.
#[derive(Debug, Clone, Serialize)]
pub struct Matrix {
    pub run: String,
    /// The run's progress, as a sentence.
    pub state: String,
    /// The addresses of running trials, and their current activity.
    pub going_on: Vec<(String, String)>,
    /// The name and the result of each arm.
    pub arms: Vec<(String, String)>,
    pub rows: Vec<MatrixRow>,
    pub findings: Vec<String>,
}

/// The reader's filter. Empty strings match everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Filter {
    /// Words that occur in a task, arm, ending or reason.
    pub text: String,
    pub arm: String,
    pub outcome: String,
    pub reason: String,
    /// `task`, `least` or `most`. Any other value means plan order.
    pub sort: String,
    /// The page number, counted from 1.
    pub page: usize,
}

/// The options of the filter, with the number of trials for each.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FilterOptions {
    pub arms: Vec<(String, u64)>,
    pub outcomes: Vec<(String, u64)>,
    pub reasons: Vec<(String, u64)>,
}

/// The content of the first page.
#[derive(Debug, Clone, Serialize)]
pub struct Overview {
    pub runs: Vec<Matrix>,
    pub filter: Filter,
    pub choices: FilterOptions,
    /// Number of trials that match the filter, and of all trials.
    pub shown: usize,
    pub of: usize,
    pub pages: usize,
    /// The address of this filter without the page number, relative to the root.
    pub again: String,
    /// Whether some trials have not ended yet.
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
