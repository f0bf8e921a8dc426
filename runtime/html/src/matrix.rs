//! The matrix of runs, task x arm x attempt, as far as a filter lets it through.

use minijinja::Error;
use serde::Serialize;

use crate::{Links, templates::fill};

/// A cell of the matrix.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// Below the viewer's address.
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
    /// Where its trials are beside each other; empty where it has one.
    pub beside: String,
    pub cells: Vec<Vec<Cell>>,
}

/// A run: a row a task, a column an arm.
#[derive(Debug, Clone, Serialize)]
pub struct Matrix {
    pub run: String,
    /// How far it is, in a sentence.
    pub state: String,
    /// Trials that have begun and not ended: where they are, what they are at.
    pub going_on: Vec<(String, String)>,
    /// Name, and what it reached.
    pub arms: Vec<(String, String)>,
    pub rows: Vec<Row>,
    pub findings: Vec<String>,
}

/// What a reader asked for. Empty texts ask for nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Filter {
    /// Words that a task, arm, ending or reason has.
    pub text: String,
    pub arm: String,
    pub outcome: String,
    pub reason: String,
    /// `task`, `least` or `most`; else the order of the plan.
    pub sort: String,
    /// Counted from 1.
    pub page: usize,
}

/// What a reader may ask for, with how many trials it has.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Choices {
    pub arms: Vec<(String, u64)>,
    pub outcomes: Vec<(String, u64)>,
    pub reasons: Vec<(String, u64)>,
}

/// What the first page shows.
#[derive(Debug, Clone, Serialize)]
pub struct Overview {
    pub runs: Vec<Matrix>,
    pub filter: Filter,
    pub choices: Choices,
    /// Trials that the filter lets through, and all.
    pub shown: usize,
    pub of: usize,
    pub pages: usize,
    /// The address of another page of the same filter, behind the root, without its number.
    pub again: String,
    /// Trials are yet to end.
    pub live: bool,
}

#[derive(Serialize)]
struct Filling<'a> {
    overview: &'a Overview,
    links: &'a Links<'a>,
    live: bool,
}

/// # Errors
/// See [`crate::trial`].
pub fn matrix(overview: &Overview, links: &Links<'_>) -> Result<String, Error> {
    fill("matrix.html", Filling { overview, links, live: overview.live })
}
