//! The report: the results of a plan's trials, as stable JSON and as tables.
//!
//! The denominator is always the number of planned trials. A trial without a verdict counts as not
//! resolved, and the bounds show how much the rate can still change.

mod agreement;
mod arm;
mod billing;
mod budget_curve;
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

pub use agreement::RankAgreement;
pub use arm::{
    ArmReport, Bounds, CountStats, DurationStats, ExceptionCount, GraceStats, IntegrityCounts,
    PerStepStats, SideRequestStats, StepStats, TokenStats, ToolCallStats,
};
pub use billing::{BilledUsage, EarlierTriesReport};
pub use budget_curve::{BudgetCurve, UsageKind, budget_curves};
pub use build::{REPORT_SCHEMA, Report, TrialResult, build_report};
pub use checks::{Check, CheckLevel, checks};
pub use compare::{
    ByRepository, Comparison, ExcludedTasks, FactorDifference, Gate, GateError, GateReport,
    GateResult, Headline, LongTextStyle, Pair, PairDifferences, compare, compare_with,
    comparison_text, comparison_text_with, headlines, headlines_with, is_second_arm_better,
    single_arm_headline,
};
pub use csv::{csv_line, groups_csv, trials_csv};
pub use curve::{
    CURVE_SCHEMA, Curve, CurveCheck, CurveCost, CurvePoint, FirstResolved, curve_csv, curve_html,
    curve_text,
};
pub use grid::{Grid, GridRow, build_grid, cell_text, resolved_share};
pub use groups::{GroupReport, GroupSelection, GroupTable, TaskFacts, group_tables};
pub use labels::add_labels;
pub use lines::wrap_long_lines;
pub use markdown::markdown;
pub use noise::{NoiseReport, NoiseWaits, noise_rows, noise_text};
pub use notes::{failure_reasons, findings};
pub use pareto::pareto_front;
pub use per_resolved::{PerResolved, Ratio};
pub use repeats::{deduplicate_errors, error_key};
pub use run::{add_arm_details, build_run_report, read_results, read_trial_result, run_remarks};
pub use single::{
    EditStatus, ProbeScore, RetrievalQuality, ShownFiles, SingleShot, SingleShotReport,
    SingleShotResponse,
};
pub use spread::{Intervals, VarianceReport, displayed_ks, passed_interval, resolved_interval};
pub use tables::{
    Cell, Column, ColumnInfo, ColumnKind, STEPS, StepFacts, StepRow, TESTS, TRIALS, TableInfo,
    TestRow, TrialRow, step_facts, tables, tables_page, test_rows,
};
pub use task::{TaskReport, TestCounts};
pub use text::{
    TextOptions, abbreviate_count, dollars, exception_rows, percent, report_text,
    report_text_with_comparison,
};
pub use unmarked::{UnmarkedScore, add_quality_marks};
