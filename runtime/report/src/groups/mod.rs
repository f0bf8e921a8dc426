//! Breaks an arm's results down by properties of its tasks, and by attempt.

mod facts;
mod numbers;
mod tables;

pub use facts::TaskFacts;
pub use numbers::GroupReport;
pub(crate) use numbers::summarize_groups;
pub use tables::{GroupSelection, GroupTable, group_tables};
