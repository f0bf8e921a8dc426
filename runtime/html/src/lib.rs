//! Pages: the report as one file, and what a viewer serves. They ask nobody for anything.
//!
//! Whatever a run holds is text here, never markup: `templates.rs` has the one place where a value enters a page.

mod beside;
mod links;
mod matrix;
mod plot;
mod report;
mod search;
mod templates;
mod timeline;
mod trial;
mod workspace;

pub use beside::{Choice, Parted, Side, beside, parted};
pub use links::{FILES, Links, whole};
pub use matrix::{Cell, Choices, Filter, Matrix, Overview, Row, matrix};
pub use report::{ReportPage, RunPage, report};
pub use search::{Hit, Search, search};
pub use timeline::{Cap, CapKind};
pub use trial::{Call, Said, Sent, Step, StepRow, TestLine, Trial, Url, step, trial};
pub use workspace::{Entry, Folder, Opened};
