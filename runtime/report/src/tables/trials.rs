//! The table `trials`: one row per planned trial, whether it has ended or not.

use proctor_types::{Budget, Spending, TokenClasses};

use super::{Cell, Column, ColumnKind, column_info};
use crate::{ArmReport, SingleShotResponse, TaskReport, TestCounts};

/// A trial, with the arm that it belongs to.
#[derive(Debug, Clone, Copy)]
pub struct TrialRow<'a> {
    pub trial: &'a TaskReport,
    /// `None` if the report doesn't list the arm.
    pub arm: Option<&'a ArmReport>,
}

impl TrialRow<'_> {
    /// Returns the row's values, in the order of [`TRIALS`].
    pub fn cells(&self) -> Vec<Cell> {
        TRIALS.iter().map(|column| (column.cell_fn)(self)).collect()
    }

    fn spending(&self) -> Option<&Spending> {
        self.trial.spent.as_ref()
    }

    fn token_classes(&self) -> TokenClasses {
        self.spending().map(|spent| spent.classes).unwrap_or_default()
    }

    fn budget(&self) -> Option<&Budget> {
        self.arm.and_then(|arm| arm.budget.as_ref())
    }

    fn test_counts(&self) -> Option<TestCounts> {
        self.trial.tests
    }

    fn single_shot_response(&self) -> Option<&SingleShotResponse> {
        self.trial.single_shot.as_ref().and_then(|shot| shot.answer.as_ref())
    }

    fn retrieval_quality(&self) -> Option<crate::RetrievalQuality> {
        self.trial.single_shot.as_ref().and_then(|shot| shot.context.quality)
    }

    fn sandbox_counts(&self) -> Option<proctor_types::SandboxCounts> {
        self.trial.noise.as_ref().map(|noise| noise.sandbox)
    }
}

type CellFn = fn(&TrialRow<'_>) -> Cell;

const fn text_column(name: &'static str, about: &'static str, cell_fn: CellFn) -> Column<CellFn> {
    Column { info: column_info(name, ColumnKind::Text, "", about), cell_fn }
}

const fn flag_column(name: &'static str, about: &'static str, cell_fn: CellFn) -> Column<CellFn> {
    Column { info: column_info(name, ColumnKind::Boolean, "", about), cell_fn }
}

const fn count_column(
    name: &'static str,
    unit: &'static str,
    about: &'static str,
    cell_fn: CellFn,
) -> Column<CellFn> {
    Column { info: column_info(name, ColumnKind::Integer, unit, about), cell_fn }
}

const fn number_column(
    name: &'static str,
    unit: &'static str,
    about: &'static str,
    cell_fn: CellFn,
) -> Column<CellFn> {
    Column { info: column_info(name, ColumnKind::Number, unit, about), cell_fn }
}

/// Joins several values in one cell. Null if there are none.
fn join_values<T: ToString>(values: impl IntoIterator<Item = T>) -> Cell {
    let words: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    if words.is_empty() { Cell::Null } else { words.join(" ").into() }
}

/// The columns. Add a new column at the end of its block. Don't move the first 17 columns: `report
/// --format csv` has started with them since its first version.
pub static TRIALS: &[Column<CellFn>] = &[
    text_column("task", "the task's id", |row| (&row.trial.task).into()),
    text_column("arm", "the arm's id: SHA-256 of its factors", |row| row.trial.arm.as_str().into()),
    text_column("arm_name", "the arm's name", |row| row.arm.map(|arm| arm.name.as_str()).into()),
    count_column("attempt", "", "the attempt, counted from 1", |row| row.trial.attempt.into()),
    text_column("outcome", "how the trial ended; null while it runs", |row| {
        row.trial.outcome.as_deref().into()
    }),
    flag_column("resolved", "whether the task is resolved; null without a verdict", |row| {
        row.trial.resolved.into()
    }),
    number_column(
        "passed_rate",
        "share",
        "fraction of fail-to-pass tests that passed, from 0 to 1",
        |row| row.trial.passed_rate.into(),
    ),
    flag_column(
        "score_valid",
        "whether there is a verdict; false means no score, not a score of zero",
        |row| row.trial.score_valid.into(),
    ),
    text_column("reason", "why the task isn't resolved (docs/reference/report.md)", |row| {
        row.trial.reason.into()
    }),
    text_column("limit", "the trial's own limit that ended it", |row| row.trial.limit.into()),
    text_column("integrity", "clean, unverified, suspect or contaminated", |row| {
        row.trial.integrity.into()
    }),
    count_column("steps", "steps", "responses delivered to the main conversation", |row| {
        row.trial.steps.into()
    }),
    number_column(
        "cost_usd",
        "US dollars",
        "cost of the counted try; null without a price",
        |row| row.trial.cost_usd.into(),
    ),
    number_column(
        "paid_usd",
        "US dollars",
        "everything billed, including discarded tries",
        |row| row.trial.paid_usd.into(),
    ),
    number_column("wall_seconds", "seconds", "from start to end of the try", |row| {
        row.trial.wall_seconds.into()
    }),
    number_column(
        "waited_seconds",
        "seconds",
        "time spent waiting for the model endpoint",
        |row| row.trial.waited_seconds.into(),
    ),
    text_column("fault", "the infrastructure fault that ended the trial", |row| {
        row.trial.fault.as_deref().into()
    }),
    text_column("grading_fault", "the fault that left the trial without a verdict", |row| {
        row.trial.grading_fault.as_deref().into()
    }),
    // Sandbox limits.
    text_column("touched", "sandbox limits that the trial hit", |row| {
        join_values(&row.trial.touched)
    }),
    text_column("grading_touched", "sandbox limits that the grading hit", |row| {
        join_values(&row.trial.grading_touched)
    }),
    number_column(
        "memory_peak_mb",
        "MiB",
        "peak memory of the sandbox, including page cache",
        |row| {
            let peak = row.sandbox_counts().and_then(|counts| counts.memory.peak_bytes);
            peak.map(|bytes| (bytes as f64 / f64::from(1 << 20) * 10.0).round() / 10.0).into()
        },
    ),
    count_column(
        "oom_kills",
        "processes",
        "processes that the kernel killed to free memory",
        |row| row.sandbox_counts().and_then(|counts| counts.memory.oom_kills).into(),
    ),
    number_column(
        "throttled_seconds",
        "seconds",
        "time during which the CPU quota was used up, per CPU",
        |row| row.sandbox_counts().and_then(|counts| counts.cpu.throttled_seconds).into(),
    ),
    // Single-response trials.
    flag_column(
        "applied",
        "single-shot: whether at least part of the response was applied",
        |row| row.single_shot_response().map(|answer| answer.applied).into(),
    ),
    flag_column("whole", "single-shot: whether the whole response was applied", |row| {
        row.single_shot_response().map(|answer| answer.whole).into()
    }),
    number_column(
        "shown_precision",
        "share",
        "single-shot: fraction of the shown files that the gold patch changes",
        |row| row.retrieval_quality().map(|quality| quality.precision).into(),
    ),
    number_column(
        "shown_recall",
        "share",
        "single-shot: fraction of the gold patch's files that were shown",
        |row| row.retrieval_quality().map(|quality| quality.recall).into(),
    ),
    flag_column(
        "shown_recall_all",
        "single-shot: whether all of the gold patch's files were shown",
        |row| row.retrieval_quality().map(|quality| quality.recall_all).into(),
    ),
    text_column("interruptions", "how the trial was interrupted: resumed or started over", |row| {
        let all = &row.trial.interruptions;
        (!all.is_empty()).then(|| all.to_string()).into()
    }),
    text_column("exceptions", "failed tests by exception class, as `CLASS=COUNT`", |row| {
        join_values(row.trial.exceptions.iter().map(|(class, count)| format!("{class}={count}")))
    }),
    // Endings.
    text_column("cause", "why the scaffold ended without a submission", |row| {
        row.trial.cause.into()
    }),
    text_column("why", "the scaffold's message, or the model's refusal", |row| {
        row.trial.why.as_deref().into()
    }),
    text_column("evidence_classes", "evidence against the verdict, by class", |row| {
        join_values(row.trial.evidence_classes.iter().map(|class| class.name()))
    }),
    text_column("labels", "labels that people gave to the trial and its steps", |row| {
        join_values(&row.trial.labels)
    }),
    text_column("damage", "files that differ from what was recorded", |row| {
        let all = &row.trial.damage;
        (!all.is_empty()).then(|| all.join("; ")).into()
    }),
    // Activity.
    count_column("main_steps", "steps", "steps of the main agent, without sub-agents", |row| {
        row.spending().map(Spending::main_steps).into()
    }),
    count_column("tool_calls", "calls", "recorded tool calls", |row| row.trial.tool_calls.into()),
    count_column("malformed_calls", "calls", "tool calls with invalid arguments", |row| {
        row.trial.malformed_calls.into()
    }),
    number_column("tool_seconds", "seconds", "total time in tools", |row| {
        row.trial.tool_seconds.into()
    }),
    count_column("patch_bytes", "bytes", "size of the patch", |row| row.trial.patch_bytes.into()),
    count_column("fail_to_pass", "tests", "fail-to-pass tests of the task", |row| {
        row.test_counts().map(|tests| tests.fail_to_pass).into()
    }),
    count_column("fail_to_pass_passed", "tests", "fail-to-pass tests that passed", |row| {
        row.test_counts().map(|tests| tests.fail_to_pass_passed).into()
    }),
    count_column("pass_to_pass", "tests", "pass-to-pass tests of the task", |row| {
        row.test_counts().map(|tests| tests.pass_to_pass).into()
    }),
    count_column("pass_to_pass_passed", "tests", "pass-to-pass tests that passed", |row| {
        row.test_counts().map(|tests| tests.pass_to_pass_passed).into()
    }),
    // Tokens of the counted try.
    count_column("input_tokens", "tokens", "input tokens, including cached ones", |row| {
        row.spending().map(|spent| spent.input_tokens).into()
    }),
    count_column("output_tokens", "tokens", "output tokens, including reasoning", |row| {
        row.spending().map(|spent| spent.output_tokens).into()
    }),
    count_column("cached_tokens", "tokens", "input tokens read from a cache", |row| {
        row.spending().map(|spent| spent.cached_tokens).into()
    }),
    count_column("uncached_input_tokens", "tokens", "input tokens not read from a cache", |row| {
        row.spending().map(Spending::uncached_input_tokens).into()
    }),
    count_column(
        "fresh_input_tokens",
        "tokens",
        "class: input, neither read from nor written to a cache",
        |row| row.token_classes().fresh_input.into(),
    ),
    count_column("cache_read_tokens", "tokens", "class: input, read from a cache", |row| {
        row.token_classes().cache_read.into()
    }),
    count_column("cache_write_tokens", "tokens", "class: input, written to a cache", |row| {
        row.token_classes().cache_write.into()
    }),
    count_column(
        "cache_write_1h_tokens",
        "tokens",
        "part of cache_write_tokens that is cached for an hour",
        |row| row.token_classes().cache_write_1h.into(),
    ),
    count_column("output_visible_tokens", "tokens", "class: output, without reasoning", |row| {
        row.token_classes().output_visible.into()
    }),
    count_column("reasoning_tokens", "tokens", "class: output, reasoning", |row| {
        row.token_classes().reasoning.into()
    }),
    flag_column(
        "usage_estimated",
        "whether some tokens were counted locally, not by the endpoint",
        |row| row.spending().map(|spent| spent.estimated).into(),
    ),
    count_column("side_requests", "requests", "side requests with a response", |row| {
        row.spending().map(|spent| spent.side_requests).into()
    }),
    count_column(
        "side_input_tokens",
        "tokens",
        "part of input_tokens used by side requests",
        |row| row.spending().map(|spent| spent.side_input_tokens).into(),
    ),
    count_column(
        "side_output_tokens",
        "tokens",
        "part of output_tokens used by side requests",
        |row| row.spending().map(|spent| spent.side_output_tokens).into(),
    ),
    count_column(
        "grace_answers",
        "responses",
        "responses received after the limit was reached; not counted in any other column",
        |row| row.spending().map(|spent| spent.grace_answers).into(),
    ),
    number_column(
        "grace_cost_usd",
        "US dollars",
        "cost of the responses received after the limit was reached",
        |row| row.spending().map(|spent| spent.grace_cost_usd).into(),
    ),
    count_column("earlier_tries", "tries", "discarded tries of the trial", |row| {
        row.trial.earlier_tries.tries.into()
    }),
    // The task.
    text_column("repo", "the task's repository", |row| row.trial.repo.as_deref().into()),
    count_column("level", "", "the task's level (FeatureBench)", |row| row.trial.level.into()),
    // The arm's factors.
    flag_column("control", "whether the arm is a control", |row| {
        row.arm.map(|arm| arm.control).into()
    }),
    text_column("scaffold", "factor: the scaffold", |row| {
        row.arm.and_then(|arm| arm.scaffold.as_deref()).into()
    }),
    text_column("model", "factor: the model's name at the endpoint", |row| {
        row.arm.and_then(|arm| arm.model.as_deref()).into()
    }),
    count_column("limit_steps", "steps", "factor: the limit `steps`", |row| {
        row.budget().and_then(|budget| budget.steps).into()
    }),
    count_column("limit_main_steps", "steps", "factor: the limit `main_steps`", |row| {
        row.budget().and_then(|budget| budget.main_steps).into()
    }),
    count_column("limit_input_tokens", "tokens", "factor: the limit `input_tokens`", |row| {
        row.budget().and_then(|budget| budget.input_tokens).into()
    }),
    count_column("limit_output_tokens", "tokens", "factor: the limit `output_tokens`", |row| {
        row.budget().and_then(|budget| budget.output_tokens).into()
    }),
    count_column("limit_total_tokens", "tokens", "factor: the limit `total_tokens`", |row| {
        row.budget().and_then(|budget| budget.total_tokens).into()
    }),
    count_column(
        "limit_uncached_input_tokens",
        "tokens",
        "factor: the limit `uncached_input_tokens`",
        |row| row.budget().and_then(|budget| budget.uncached_input_tokens).into(),
    ),
    number_column("limit_cost_usd", "US dollars", "factor: the limit `cost_usd`", |row| {
        row.budget().and_then(|budget| budget.cost_usd).into()
    }),
    number_column("limit_wall_seconds", "seconds", "factor: the limit `wall_seconds`", |row| {
        row.budget().and_then(|budget| budget.wall_seconds).into()
    }),
    number_column(
        "limit_working_seconds",
        "seconds",
        "factor: the limit `working_seconds`",
        |row| row.budget().and_then(|budget| budget.working_seconds).into(),
    ),
    number_column("limit_tool_seconds", "seconds", "factor: the limit `tool_seconds`", |row| {
        row.budget().and_then(|budget| budget.tool_seconds).into()
    }),
    number_column(
        "limit_command_seconds",
        "seconds",
        "factor: the limit `command_seconds`",
        |row| row.budget().and_then(|budget| budget.command_seconds).into(),
    ),
    text_column("factors", "all factors of the arm as JSON; prompts as SHA-256", |row| {
        row.arm.and_then(|arm| arm.factors.as_ref()).map(ToString::to_string).into()
    }),
];
