//! HTML pages: the report as one file, and the viewer's pages. They load no external resources.
//!
//! Text from a run is always escaped, never treated as markup. `templates.rs` is the only place
//! where values enter a page.

mod answer;
mod bars;
mod beside;
mod budgets;
mod figures;
mod links;
mod matrix;
mod plot;
mod report;
mod search;
mod templates;
mod tiles;
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
