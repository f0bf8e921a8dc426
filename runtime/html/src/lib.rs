//! Pages: the report as one file, and what a viewer serves. They ask nobody for anything.
//!
//! Whatever a run holds is text here, never markup: [`templates`] has the one place where a value enters a page.

mod plot;
mod report;
mod templates;
mod trial;

pub use report::{ReportPage, RunPage, report};
pub use trial::{
    Call, Cell, Links, Matrix, Step, StepRow, TestLine, Trial, Url, matrix, step, trial,
};
