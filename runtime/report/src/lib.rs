//! The report: the results of a plan's trials, as stable JSON and as tables.
//!
//! The denominator is always the number of planned trials. A trial without a verdict counts as not
//! resolved, and the bounds show how much the rate can still change.

mod agreement;
mod arm;
mod build;
mod checks;
mod compare;
mod csv;
mod curve;
mod grid;
mod groups;
mod labels;
mod limits;
mod lines;
mod markdown;
mod noise;
mod notes;
mod paid;
mod pareto;
mod per_resolved;
mod repeats;
mod run;
mod single;
mod spread;
mod table;
mod tables;
mod task;
mod text;
mod unmarked;
mod within;

pub use agreement::RankAgreement;
pub use arm::{
    ArmReport, Bounds, Count, ExceptionCount, Grace, IntegrityCounts, PerStep, Seconds, Side,
    Steps, Tokens, ToolCalls,
};
pub use build::{REPORT_SCHEMA, Report, TrialResult, build};
pub use checks::{Check, CheckLevel, checks};
pub use compare::{
    ByRepository, Comparison, ExcludedTasks, FactorDifference, Gate, GateError, GateReport,
    GateResult, Headline, Pair, PairWhy, Texts, compare, compare_with, comparison_text,
    comparison_text_with, headlines, headlines_with, is_turned, only_arm,
};
pub use csv::{csv, csv_line, groups_csv};
pub use curve::{
    CURVE_SCHEMA, Cost, Curve, CurveCheck, FirstResolved, Point, curve_csv, curve_html, curve_text,
};
pub use grid::{Grid, GridRow, cell_text, grid, share};
pub use groups::{GroupReport, GroupTable, Groups, TaskFacts, group_tables};
pub use labels::add_labels;
pub use lines::wrapped;
pub use markdown::markdown;
pub use noise::{NoiseReport, NoiseWaits, noise_rows, noise_text};
pub use notes::{failure_reasons, findings};
pub use paid::{EarlierReport, Paid};
pub use pareto::pareto;
pub use per_resolved::{PerResolved, Ratio};
pub use repeats::{error_key, once_each};
pub use run::{describe_arms, of_run, remarks_of, result_of_trial, results_of};
pub use single::{
    EditStatus, ProbeScore, Quality, ShownFiles, SingleAnswer, SingleShot, SingleShotReport,
};
pub use spread::{Intervals, VarianceReport, passed_interval, resolved_interval, telling_ks};
pub use tables::{
    Cell, Column, ColumnInfo, ColumnKind, STEPS, StepFacts, StepRow, TESTS, TRIALS, TableInfo,
    TestRow, TrialRow, step_facts, tables, tables_page, test_rows,
};
pub use task::{TaskReport, TestCounts};
pub use text::{Shown, dollars, exception_rows, percent, short, text, text_with};
pub use unmarked::{Unmarked, add_quality};
pub use within::{Used, Within, within};
