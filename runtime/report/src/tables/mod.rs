//! Exports a run as tables with one row per trial, step or test.
//!
//! This module is the only place that defines the columns. `report --format csv`, `export --format
//! parquet | jsonl | csv` and the Python package all use these definitions.

mod steps;
mod test_rows;
mod trials;

use proctor_types::{BudgetKind, ExitCause, FailureReason, Integrity, TaskId};
use serde::Serialize;

pub use steps::{STEPS, StepFacts, StepRow, step_facts};
pub use test_rows::{TESTS, TestRow, test_rows};
pub use trials::{TRIALS, TrialRow};

/// The type of a column. Any column may contain [`Cell::Null`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// UTF-8.
    Text,
    /// Signed, 64 bits.
    Integer,
    /// A double.
    Number,
    /// True or false.
    Boolean,
}

/// One cell's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Unknown or not applicable.
    Null,
    Text(String),
    Integer(i64),
    Number(f64),
    Boolean(bool),
}

impl Cell {
    /// Whether the value is allowed in a column of this kind.
    pub fn matches_kind(&self, kind: ColumnKind) -> bool {
        match self {
            Self::Null => true,
            Self::Text(_) => kind == ColumnKind::Text,
            Self::Integer(_) => kind == ColumnKind::Integer,
            Self::Number(_) => kind == ColumnKind::Number,
            Self::Boolean(_) => kind == ColumnKind::Boolean,
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Self {
        Self::Integer(i64::from(number))
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<&TaskId> for Cell {
    fn from(id: &TaskId) -> Self {
        id.as_str().into()
    }
}

impl From<Integrity> for Cell {
    fn from(integrity: Integrity) -> Self {
        integrity.to_string().into()
    }
}

impl From<FailureReason> for Cell {
    fn from(reason: FailureReason) -> Self {
        reason.to_string().into()
    }
}

impl From<BudgetKind> for Cell {
    fn from(kind: BudgetKind) -> Self {
        kind.to_string().into()
    }
}

impl From<ExitCause> for Cell {
    fn from(cause: ExitCause) -> Self {
        cause.to_string().into()
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The name, type, unit and meaning of a column, as `columns.json` lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ColumnInfo {
    pub name: &'static str,
    #[serde(rename = "type")]
    pub kind: ColumnKind,
    /// A unit such as `seconds`. Empty for names, flags and other values without a unit.
    pub unit: &'static str,
    pub about: &'static str,
}

/// A column: its description, and a function (`F`) that computes its value for a row.
#[derive(Debug, Clone, Copy)]
pub struct Column<F> {
    pub info: ColumnInfo,
    cell_fn: F,
}

const fn column_info(
    name: &'static str,
    kind: ColumnKind,
    unit: &'static str,
    about: &'static str,
) -> ColumnInfo {
    ColumnInfo { name, kind, unit, about }
}

/// A table's name and columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableInfo {
    pub name: &'static str,
    pub columns: Vec<ColumnInfo>,
}

/// Returns the tables, in the order in which the documentation lists them.
pub fn tables() -> [TableInfo; 3] {
    [
        TableInfo { name: "trials", columns: TRIALS.iter().map(|one| one.info).collect() },
        TableInfo { name: "steps", columns: STEPS.iter().map(|one| one.info).collect() },
        TableInfo { name: "tests", columns: TESTS.iter().map(|one| one.info).collect() },
    ]
}

/// Formats the columns of every table as Markdown for `docs/reference/tables.md`.
pub fn tables_page() -> String {
    let mut out = String::new();
    for table in tables() {
        out += &format!("\n### `{}`\n\n| column | type | unit | meaning |\n", table.name);
        out += "| --- | --- | --- | --- |\n";
        for ColumnInfo { name, kind, unit, about } in table.columns {
            let kind = match kind {
                ColumnKind::Text => "text",
                ColumnKind::Integer => "integer",
                ColumnKind::Number => "number",
                ColumnKind::Boolean => "boolean",
            };
            out += &format!("| `{name}` | {kind} | {unit} | {about} |\n");
        }
    }
    out
}
