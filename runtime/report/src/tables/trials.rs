//! The table `trials`: one row per planned trial, whether it has ended or not.

use proctor_types::{Budget, Spending, TokenClasses};

use super::{Cell, Column, ColumnKind, info};
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

    fn spent(&self) -> Option<&Spending> {
        self.trial.spent.as_ref()
    }

    fn classes(&self) -> TokenClasses {
        self.spent().map(|spent| spent.classes).unwrap_or_default()
    }

    fn budget(&self) -> Option<&Budget> {
        self.arm.and_then(|arm| arm.budget.as_ref())
    }

    fn tests(&self) -> Option<TestCounts> {
        self.trial.tests
    }

    fn answer(&self) -> Option<&SingleShotResponse> {
        self.trial.single_shot.as_ref().and_then(|shot| shot.answer.as_ref())
    }

    fn quality(&self) -> Option<crate::RetrievalQuality> {
        self.trial.single_shot.as_ref().and_then(|shot| shot.context.quality)
    }

    fn sandbox(&self) -> Option<proctor_types::SandboxCounts> {
        self.trial.noise.as_ref().map(|noise| noise.sandbox)
    }
}

type CellFn = fn(&TrialRow<'_>) -> Cell;

const fn text(name: &'static str, about: &'static str, cell_fn: CellFn) -> Column<CellFn> {
    Column { info: info(name, ColumnKind::Text, "", about), cell_fn }
}

const fn flag(name: &'static str, about: &'static str, cell_fn: CellFn) -> Column<CellFn> {
    Column { info: info(name, ColumnKind::Boolean, "", about), cell_fn }
}

const fn count(
    name: &'static str,
    unit: &'static str,
    about: &'static str,
    cell_fn: CellFn,
) -> Column<CellFn> {
    Column { info: info(name, ColumnKind::Integer, unit, about), cell_fn }
}

const fn number(
    name: &'static str,
    unit: &'static str,
    about: &'static str,
    cell_fn: CellFn,
) -> Column<CellFn> {
    Column { info: info(name, ColumnKind::Number, unit, about), cell_fn }
}

/// Joins several values in one cell. Null if there are none.
fn join_values<T: ToString>(values: impl IntoIterator<Item = T>) -> Cell {
    let words: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    if words.is_empty() { Cell::Null } else { words.join(" ").into() }
}

/// The columns. Add a new column at the end of its block. Don't move the first 17 columns: `report
/// --format csv` has started with them since its first version.
pub static TRIALS: &[Column<CellFn>] = &[
    text("task", "the task's id", |row| (&row.trial.task).into()),
    text("arm", "the arm's id: SHA-256 of its factors", |row| row.trial.arm.as_str().into()),
    text("arm_name", "the arm's name", |row| row.arm.map(|arm| arm.name.as_str()).into()),
    count("attempt", "", "the attempt, counted from 1", |row| row.trial.attempt.into()),
    text("outcome", "how the trial ended; null while it runs", |row| {
        row.trial.outcome.as_deref().into()
    }),
    flag("resolved", "whether the task is resolved; null without a verdict", |row| {
        row.trial.resolved.into()
    }),
    number(
        "passed_rate",
        "share",
        "fraction of fail-to-pass tests that passed, from 0 to 1",
        |row| row.trial.passed_rate.into(),
    ),
    flag(
        "score_valid",
        "whether there is a verdict; false means no score, not a score of zero",
        |row| row.trial.score_valid.into(),
    ),
    text("reason", "why the task isn't resolved (docs/report.md)", |row| row.trial.reason.into()),
    text("limit", "the trial's own limit that ended it", |row| row.trial.limit.into()),
    text("integrity", "clean, unverified, suspect or contaminated", |row| {
        row.trial.integrity.into()
    }),
    count("steps", "steps", "responses delivered to the main conversation", |row| {
        row.trial.steps.into()
    }),
    number("cost_usd", "US dollars", "cost of the counted try; null without a price", |row| {
        row.trial.cost_usd.into()
    }),
    number("paid_usd", "US dollars", "everything billed, including discarded tries", |row| {
        row.trial.paid_usd.into()
    }),
    number("wall_seconds", "seconds", "from start to end of the try", |row| {
        row.trial.wall_seconds.into()
    }),
    number("waited_seconds", "seconds", "time spent waiting for the model endpoint", |row| {
        row.trial.waited_seconds.into()
    }),
    text("fault", "the infrastructure fault that ended the trial", |row| {
        row.trial.fault.as_deref().into()
    }),
    // Sandbox limits.
    text("touched", "sandbox limits that the trial hit", |row| join_values(&row.trial.touched)),
    text("grading_touched", "sandbox limits that the grading hit", |row| {
        join_values(&row.trial.grading_touched)
    }),
    number("memory_peak_mb", "MiB", "peak memory of the sandbox, including page cache", |row| {
        let peak = row.sandbox().and_then(|counts| counts.memory.peak_bytes);
        peak.map(|bytes| (bytes as f64 / f64::from(1 << 20) * 10.0).round() / 10.0).into()
    }),
    count("oom_kills", "processes", "processes that the kernel killed to free memory", |row| {
        row.sandbox().and_then(|counts| counts.memory.oom_kills).into()
    }),
    number(
        "throttled_seconds",
        "seconds",
        "time during which the CPU quota was used up, per CPU",
        |row| row.sandbox().and_then(|counts| counts.cpu.throttled_seconds).into(),
    ),
    // Single-response trials.
    flag("applied", "single-shot: whether at least part of the response was applied", |row| {
        row.answer().map(|answer| answer.applied).into()
    }),
    flag("whole", "single-shot: whether the whole response was applied", |row| {
        row.answer().map(|answer| answer.whole).into()
    }),
    number(
        "shown_precision",
        "share",
        "single-shot: fraction of the shown files that the gold patch changes",
        |row| row.quality().map(|quality| quality.precision).into(),
    ),
    number(
        "shown_recall",
        "share",
        "single-shot: fraction of the gold patch's files that were shown",
        |row| row.quality().map(|quality| quality.recall).into(),
    ),
    flag(
        "shown_recall_all",
        "single-shot: whether all of the gold patch's files were shown",
        |row| row.quality().map(|quality| quality.recall_all).into(),
    ),
    text("interruptions", "how the trial was interrupted: resumed or started over", |row| {
        let all = &row.trial.interruptions;
        (!all.is_empty()).then(|| all.to_string()).into()
    }),
    text("exceptions", "failed tests by exception class, as `CLASS=COUNT`", |row| {
        join_values(row.trial.exceptions.iter().map(|(class, count)| format!("{class}={count}")))
    }),
    // Endings.
    text("cause", "why the scaffold ended without a submission", |row| row.trial.cause.into()),
    text("why", "the scaffold's message, or the model's refusal", |row| {
        row.trial.why.as_deref().into()
    }),
    text("evidence_classes", "evidence against the verdict, by class", |row| {
        join_values(row.trial.evidence_classes.iter().map(|class| class.name()))
    }),
    text("labels", "labels that people gave to the trial and its steps", |row| {
        join_values(&row.trial.labels)
    }),
    text("damage", "files that differ from what was recorded", |row| {
        let all = &row.trial.damage;
        (!all.is_empty()).then(|| all.join("; ")).into()
    }),
    // Activity.
    count("main_steps", "steps", "steps of the main agent, without sub-agents", |row| {
        row.spent().map(Spending::main_steps).into()
    }),
    count("tool_calls", "calls", "recorded tool calls", |row| row.trial.tool_calls.into()),
    count("malformed_calls", "calls", "tool calls with invalid arguments", |row| {
        row.trial.malformed_calls.into()
    }),
    number("tool_seconds", "seconds", "total time in tools", |row| row.trial.tool_seconds.into()),
    count("patch_bytes", "bytes", "size of the patch", |row| row.trial.patch_bytes.into()),
    count("fail_to_pass", "tests", "fail-to-pass tests of the task", |row| {
        row.tests().map(|tests| tests.fail_to_pass).into()
    }),
    count("fail_to_pass_passed", "tests", "fail-to-pass tests that passed", |row| {
        row.tests().map(|tests| tests.fail_to_pass_passed).into()
    }),
    count("pass_to_pass", "tests", "pass-to-pass tests of the task", |row| {
        row.tests().map(|tests| tests.pass_to_pass).into()
    }),
    count("pass_to_pass_passed", "tests", "pass-to-pass tests that passed", |row| {
        row.tests().map(|tests| tests.pass_to_pass_passed).into()
    }),
    // Tokens of the counted try.
    count("input_tokens", "tokens", "input tokens, including cached ones", |row| {
        row.spent().map(|spent| spent.input_tokens).into()
    }),
    count("output_tokens", "tokens", "output tokens, including reasoning", |row| {
        row.spent().map(|spent| spent.output_tokens).into()
    }),
    count("cached_tokens", "tokens", "input tokens read from a cache", |row| {
        row.spent().map(|spent| spent.cached_tokens).into()
    }),
    count("uncached_input_tokens", "tokens", "input tokens not read from a cache", |row| {
        row.spent().map(Spending::uncached_input_tokens).into()
    }),
    count(
        "fresh_input_tokens",
        "tokens",
        "class: input, neither read from nor written to a cache",
        |row| row.classes().fresh_input.into(),
    ),
    count("cache_read_tokens", "tokens", "class: input, read from a cache", |row| {
        row.classes().cache_read.into()
    }),
    count("cache_write_tokens", "tokens", "class: input, written to a cache", |row| {
        row.classes().cache_write.into()
    }),
    count(
        "cache_write_1h_tokens",
        "tokens",
        "part of cache_write_tokens that is cached for an hour",
        |row| row.classes().cache_write_1h.into(),
    ),
    count("output_visible_tokens", "tokens", "class: output, without reasoning", |row| {
        row.classes().output_visible.into()
    }),
    count("reasoning_tokens", "tokens", "class: output, reasoning", |row| {
        row.classes().reasoning.into()
    }),
    flag(
        "usage_estimated",
        "whether some tokens were counted locally, not by the endpoint",
        |row| row.spent().map(|spent| spent.estimated).into(),
    ),
    count("side_requests", "requests", "side requests with a response", |row| {
        row.spent().map(|spent| spent.side_requests).into()
    }),
    count("side_input_tokens", "tokens", "part of input_tokens used by side requests", |row| {
        row.spent().map(|spent| spent.side_input_tokens).into()
    }),
    count("side_output_tokens", "tokens", "part of output_tokens used by side requests", |row| {
        row.spent().map(|spent| spent.side_output_tokens).into()
    }),
    count(
        "grace_answers",
        "responses",
        "responses received after the limit was reached; not counted in any other column",
        |row| row.spent().map(|spent| spent.grace_answers).into(),
    ),
    number(
        "grace_cost_usd",
        "US dollars",
        "cost of the responses received after the limit was reached",
        |row| row.spent().map(|spent| spent.grace_cost_usd).into(),
    ),
    count("earlier_tries", "tries", "discarded tries of the trial", |row| {
        row.trial.earlier_tries.tries.into()
    }),
    // The task.
    text("repo", "the task's repository", |row| row.trial.repo.as_deref().into()),
    count("level", "", "the task's level (FeatureBench)", |row| row.trial.level.into()),
    // The arm's factors.
    flag("control", "whether the arm is a control", |row| row.arm.map(|arm| arm.control).into()),
    text("scaffold", "factor: the scaffold", |row| {
        row.arm.and_then(|arm| arm.scaffold.as_deref()).into()
    }),
    text("model", "factor: the model's name at the endpoint", |row| {
        row.arm.and_then(|arm| arm.model.as_deref()).into()
    }),
    count("limit_steps", "steps", "factor: the limit `steps`", |row| {
        row.budget().and_then(|budget| budget.steps).into()
    }),
    count("limit_main_steps", "steps", "factor: the limit `main_steps`", |row| {
        row.budget().and_then(|budget| budget.main_steps).into()
    }),
    count("limit_input_tokens", "tokens", "factor: the limit `input_tokens`", |row| {
        row.budget().and_then(|budget| budget.input_tokens).into()
    }),
    count("limit_output_tokens", "tokens", "factor: the limit `output_tokens`", |row| {
        row.budget().and_then(|budget| budget.output_tokens).into()
    }),
    count("limit_total_tokens", "tokens", "factor: the limit `total_tokens`", |row| {
        row.budget().and_then(|budget| budget.total_tokens).into()
    }),
    count(
        "limit_uncached_input_tokens",
        "tokens",
        "factor: the limit `uncached_input_tokens`",
        |row| row.budget().and_then(|budget| budget.uncached_input_tokens).into(),
    ),
    number("limit_cost_usd", "US dollars", "factor: the limit `cost_usd`", |row| {
        row.budget().and_then(|budget| budget.cost_usd).into()
    }),
    number("limit_wall_seconds", "seconds", "factor: the limit `wall_seconds`", |row| {
        row.budget().and_then(|budget| budget.wall_seconds).into()
    }),
    number("limit_working_seconds", "seconds", "factor: the limit `working_seconds`", |row| {
        row.budget().and_then(|budget| budget.working_seconds).into()
    }),
    number("limit_tool_seconds", "seconds", "factor: the limit `tool_seconds`", |row| {
        row.budget().and_then(|budget| budget.tool_seconds).into()
    }),
    number("limit_command_seconds", "seconds", "factor: the limit `command_seconds`", |row| {
        row.budget().and_then(|budget| budget.command_seconds).into()
    }),
    text("factors", "all factors of the arm as JSON; prompts as SHA-256", |row| {
        row.arm.and_then(|arm| arm.factors.as_ref()).map(ToString::to_string).into()
    }),
];
