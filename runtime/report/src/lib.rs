//! The report: what the trials of a plan come to, as stable JSON and as a table.
//!
//! The denominator is always the plan: a trial without a verdict is not resolved, and the bounds
//! say what it could still change.

mod arm;
mod build;
mod groups;
mod lines;
mod notes;
mod paid;
mod table;
mod task;
mod text;

pub use arm::{ArmReport, Bounds, Count, Grace, IntegrityCounts, Seconds, Side, Steps, Tokens};
pub use build::{REPORT_SCHEMA, Report, TrialResult, build};
pub use groups::{GroupReport, TaskFacts};
pub use lines::wrapped;
pub use paid::{EarlierReport, Paid};
pub use task::TaskReport;
pub use text::{Groups, text};
