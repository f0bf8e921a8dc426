//! Compares arms on the tasks that they have in common.

mod comparison;
mod differences;
mod gate;
mod headline;
mod limits;
mod metric;
mod missing;
mod pairs;
mod sentence;
mod shared;
mod usage;

pub use comparison::{
    ByRepository, CommonLimit, Comparison, GateReport, GateResult, MissingVerdicts, Pair,
};
pub use differences::{FactorDifference, LongTextStyle, PairDifferences};
pub(crate) use differences::{flatten_value, format_on_one_line};
pub use gate::{Gate, GateError};
pub use headline::{
    Headline, headlines, headlines_with_escape, is_second_arm_better, pairs_in_headline_order,
    single_arm_headline,
};
pub use limits::LimitDifference;
pub use pairs::{compare, compare_with_differences, comparison_text, comparison_text_with_style};
pub use shared::ExcludedTasks;
