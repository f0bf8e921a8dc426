//! The matrix of runs, task x arm x attempt, restricted by a filter.

use minijinja::Error;
use serde::Serialize;

use super::{Links, templates::fill};

/// A cell of the matrix.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// Relative to the viewer's address.
    pub href: String,
    pub attempt: u32,
    pub word: &'static str,
    /// `yes`, `no` or `open`.
    pub class: &'static str,
    /// How it ended, and why its task is not resolved; words of a closed set.
    pub ending: String,
    pub reason: String,
    pub steps: String,
}

/// A task: its cells, by arm.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub task: String,
    /// The address of the page that shows its trials side by side; empty if it has only one.
    pub beside: String,
    pub cells: Vec<Vec<Cell>>,
}

/// A run: a row per task, a column per arm.
#[derive(Debug, Clone, Serialize)]
pub struct Matrix {
    pub run: String,
    /// Its progress, in a sentence.
    pub state: String,
    /// Running trials: their address and what they are doing.
    pub going_on: Vec<(String, String)>,
    /// Name and result.
    pub arms: Vec<(String, String)>,
    pub rows: Vec<Row>,
    pub findings: Vec<String>,
}

/// The reader's filter. Empty texts do not filter.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Filter {
    /// Words that occur in a task, arm, ending or reason.
    pub text: String,
    pub arm: String,
    pub outcome: String,
    pub reason: String,
    /// `task`, `least` or `most`; otherwise the order of the plan.
    pub sort: String,
    /// Counted from 1.
    pub page: usize,
}

/// The choices of the filter, with the number of trials of each.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Choices {
    pub arms: Vec<(String, u64)>,
    pub outcomes: Vec<(String, u64)>,
    pub reasons: Vec<(String, u64)>,
}

/// The content of the first page.
#[derive(Debug, Clone, Serialize)]
pub struct Overview {
    pub runs: Vec<Matrix>,
    pub filter: Filter,
    pub choices: Choices,
    /// Number of trials that the filter selects, and of all.
    pub shown: usize,
    pub of: usize,
    pub pages: usize,
    /// The address of another page of the same filter, relative to the root, without the page
    /// number.
    pub again: String,
    /// Some trials have not ended.
    pub live: bool,
}

#[derive(Serialize)]
struct Filling<'a> {
    overview: &'a Overview,
    links: &'a Links<'a>,
    live: bool,
}

/// # Errors
/// See [`super::trial`].
pub fn matrix(overview: &Overview, links: &Links<'_>) -> Result<String, Error> {
    fill("matrix.html", Filling { overview, links, live: overview.live })
}
