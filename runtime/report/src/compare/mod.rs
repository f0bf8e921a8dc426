//! Compares arms on the tasks that they share.

mod gate;
mod headline;
mod metric;
mod pairs;
mod sentence;
mod shared;
mod why;

pub use gate::{Gate, GateError, GateReport, GateResult};
pub use headline::{Headline, headlines, headlines_with, is_turned, only_arm};
pub use pairs::{
    ByRepository, Comparison, Pair, compare, compare_with, comparison_text, comparison_text_with,
};
pub use shared::ExcludedTasks;
pub use why::{FactorDifference, PairWhy, Texts};
