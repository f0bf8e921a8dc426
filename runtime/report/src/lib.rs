//! Builds the report: the results of a plan's trials, as JSON with a stable schema and as tables.
//!
//! The denominator of every rate is the number of planned trials. A trial without a verdict counts
//! as not resolved, and the bounds show how much the rate can still change.

mod agreement;
mod arm;
mod arm_stats;
mod billing;
mod budget_curve;
mod build;
mod checks;
mod common_limit;
mod compare;
mod csv;
mod curve;
mod endings;
mod factors;
mod format;
mod grid;
mod groups;
mod labels;
mod limit_warnings;
mod limits;
mod lines;
mod markdown;
mod missing;
mod noise;
mod notes;
mod pareto;
mod per_resolved;
mod quality_marks;
mod ranking;
mod repeats;
mod rounding;
mod run;
mod single_shot;
mod spread;
mod table;
mod tables;
mod task;
mod text;
mod trial_result;

pub use agreement::RankAgreement;
pub use arm::ArmReport;
pub use arm_stats::{
    Bounds, CountStats, DurationStats, ExceptionCount, GraceStats, IntegrityCounts, PerStepStats,
    SideRequestStats, StepStats, TokenStats, ToolCallStats, UnmarkedScore,
};
pub use billing::{BilledUsage, EarlierTriesReport};
pub use budget_curve::{BudgetCurve, UsageKind, budget_curves};
pub use build::{REPORT_SCHEMA, Report, build_report};
pub use checks::{CheckLevel, SoundnessCheck, soundness_checks};
pub use compare::{
    ByRepository, CommonLimit, Comparison, ExcludedTasks, FactorDifference, Gate, GateError,
    GateReport, GateResult, Headline, LimitDifference, LongTextStyle, MissingVerdicts, Pair,
    PairDifferences, compare, compare_with_differences, comparison_text,
    comparison_text_with_style, headlines, headlines_with_escape, is_second_arm_better,
    pairs_in_headline_order, single_arm_headline,
};
pub use csv::{csv_line, groups_csv, trials_csv};
pub use curve::{
    CURVE_SCHEMA, Curve, CurveCheck, CurveCost, CurvePoint, FirstResolved, curve_csv, curve_html,
    curve_text,
};
pub use endings::{ending_sentence, ending_words, reason_words};
pub use factors::DifferingFactor;
pub use format::{
    abbreviate_count, format_dollars, format_percent, format_ratio, format_ratio_interval,
};
pub use grid::{Grid, GridRow, build_grid, cell_text, resolved_fraction};
pub use groups::{GroupReport, GroupSelection, GroupTable, TaskFacts, group_tables};
pub use labels::add_labels;
pub use lines::wrap_long_lines;
pub use markdown::report_markdown;
pub use missing::MissingReason;
pub use noise::{NoiseReport, NoiseWaits, noise_rows, noise_text};
pub use notes::{Finding, FindingRank, failure_reasons, findings};
pub use pareto::pareto_front;
pub use per_resolved::{PerResolved, Ratio};
pub use quality_marks::add_quality_marks;
pub use ranking::ranking_sentence;
pub use repeats::{deduplicate_errors, error_key};
pub use run::{add_arm_details, build_run_report, read_results, read_trial_result, run_remarks};
pub use single_shot::{
    EditStatus, ProbeScore, RetrievalQuality, ShownFiles, SingleShot, SingleShotReport,
    SingleShotResponse,
};
pub use spread::{Intervals, VarianceReport, displayed_ks, passed_interval, resolved_interval};
pub use tables::{
    Cell, Column, ColumnInfo, ColumnKind, STEPS, StepFacts, StepRow, TESTS, TRIALS, TableInfo,
    TestRow, TrialRow, step_facts, tables, tables_page, test_rows,
};
pub use task::{TaskReport, TestCounts};
pub use text::{TextOptions, exception_rows, report_text, report_text_with_comparison};
pub use trial_result::TrialResult;
