//! The table `steps`: one row per step, including the steps of trials that are still running.

use proctor_types::{Envelope, Event, RequestClass, Usage};

use super::{Cell, Column, ColumnKind, column_info};
use crate::TaskReport;

/// What the journal says about one step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepFacts {
    /// The step's number, counted from 1.
    pub step: u64,
    /// When the request was sent, in seconds since the start of the try.
    pub sent_at: f64,
    /// When the response was complete, in seconds since the start of the try.
    pub answered_at: f64,
    /// When the step's last action ended, in seconds since the start of the try.
    pub ended_at: f64,
    /// Attempts to send the request, including failed ones.
    pub sends: u64,
    pub failed_sends: u64,
    pub wait_seconds: f64,
    pub model_seconds: f64,
    pub usage: Usage,
    pub cost_usd: Option<f64>,
    pub finish_reason: Option<String>,
    /// Side requests since the previous step.
    pub side_requests: u64,
    /// The tools that were called, in order.
    pub tool_names: Vec<String>,
    pub malformed_calls: u64,
    /// Tool calls that were malformed or exited with a status other than 0.
    pub failed_calls: u64,
    pub tool_seconds: f64,
    /// Number of paths that the step created or changed.
    pub changed_paths: u64,
    pub removed_paths: u64,
    /// Number of URLs that the agent requested from the egress proxy.
    pub url_count: u64,
    /// The hash of the work directory's manifest after the step.
    pub snapshot: Option<String>,
}

/// Reads a trial's steps from the events of the try that counts (see
/// `proctor_types::remove_discarded_events`).
pub fn step_facts(events: &[Envelope]) -> Vec<StepFacts> {
    let mut steps: Vec<StepFacts> = Vec::new();
    // The journal records a step's send attempts, waits and side requests before the step's
    // response.
    let mut open: Option<StepFacts> = None;
    let mut last = 0.0;
    for one in events {
        let now = one.t_mono;
        let pending = |open: &mut Option<StepFacts>, at: f64| -> StepFacts {
            open.take().unwrap_or_else(|| StepFacts { sent_at: at, ..StepFacts::default() })
        };
        let current = steps.iter_mut().rev().find(|step| step.step == one.step);
        match &one.event {
            Event::ModelAsked { .. } => {
                let mut step = pending(&mut open, now);
                if step.sends == 0 {
                    step.sent_at = now;
                }
                open = Some(step);
            }
            Event::ModelAttempted { error, wait_seconds, queued_seconds, seconds, .. } => {
                let mut step = pending(&mut open, last);
                step.sends += 1;
                step.failed_sends += u64::from(error.is_some());
                step.wait_seconds += wait_seconds + queued_seconds;
                step.model_seconds += seconds.unwrap_or_default();
                open = Some(step);
            }
            Event::RequestServed { class: RequestClass::Side, .. } => {
                // Don't count attempts to send a side request, because they do not belong to any
                // step.
                let side_requests = pending(&mut open, now).side_requests + 1;
                open = Some(StepFacts { sent_at: now, side_requests, ..StepFacts::default() });
            }
            Event::ModelAnswered { answer } => {
                let step = pending(&mut open, last);
                steps.push(StepFacts {
                    step: one.step,
                    answered_at: now,
                    ended_at: now,
                    usage: answer.usage,
                    cost_usd: answer.cost_usd,
                    finish_reason: answer.finish_reason.clone(),
                    ..step
                });
            }
            Event::ToolCalled { name, .. } => {
                if let Some(step) = current {
                    step.tool_names.push(name.clone());
                }
            }
            Event::ToolReturned { exit_status, seconds, malformed, .. } => {
                if let Some(step) = current {
                    let failed = *malformed || exit_status.is_some_and(|status| status != 0);
                    step.malformed_calls += u64::from(*malformed);
                    step.failed_calls += u64::from(failed);
                    step.tool_seconds += seconds;
                    step.ended_at = step.ended_at.max(now);
                }
            }
            Event::SnapshotTaken { snapshot, changed, removed, .. } => {
                if let Some(step) = current {
                    step.changed_paths += changed;
                    step.removed_paths += removed;
                    step.snapshot = Some(snapshot.clone());
                    step.ended_at = step.ended_at.max(now);
                }
            }
            Event::UrlRequested(_) => {
                if let Some(step) = current {
                    step.url_count += 1;
                }
            }
            _ => {}
        }
        last = now;
    }
    steps
}

/// One step, with the trial that it belongs to.
#[derive(Debug, Clone, Copy)]
pub struct StepRow<'a> {
    pub trial: &'a TaskReport,
    pub arm_name: &'a str,
    pub facts: &'a StepFacts,
}

impl StepRow<'_> {
    /// Returns the row's values, in the order of [`STEPS`].
    pub fn cells(&self) -> Vec<Cell> {
        STEPS.iter().map(|column| (column.cell_fn)(self)).collect()
    }
}

type CellFn = fn(&StepRow<'_>) -> Cell;

const fn column(
    name: &'static str,
    kind: ColumnKind,
    unit: &'static str,
    about: &'static str,
    cell_fn: CellFn,
) -> Column<CellFn> {
    Column { info: column_info(name, kind, unit, about), cell_fn }
}

const fn count_column(
    name: &'static str,
    unit: &'static str,
    about: &'static str,
    cell_fn: CellFn,
) -> Column<CellFn> {
    column(name, ColumnKind::Integer, unit, about, cell_fn)
}

const fn seconds_column(
    name: &'static str,
    about: &'static str,
    cell_fn: CellFn,
) -> Column<CellFn> {
    column(name, ColumnKind::Number, "seconds", about, cell_fn)
}

const fn text_column(name: &'static str, about: &'static str, cell_fn: CellFn) -> Column<CellFn> {
    column(name, ColumnKind::Text, "", about, cell_fn)
}

/// The table's columns.
pub static STEPS: &[Column<CellFn>] = &[
    text_column("task", "the task's id", |row| (&row.trial.task).into()),
    text_column("arm", "the arm's id", |row| row.trial.arm.as_str().into()),
    text_column("arm_name", "the arm's name", |row| row.arm_name.into()),
    count_column("attempt", "", "the attempt, counted from 1", |row| row.trial.attempt.into()),
    count_column("step", "", "the step, counted from 1", |row| row.facts.step.into()),
    seconds_column(
        "started_seconds",
        "when the request was sent, from the start of the try",
        |row| row.facts.sent_at.into(),
    ),
    seconds_column("seconds", "from the request to the step's last action", |row| {
        (row.facts.ended_at - row.facts.sent_at).max(0.0).into()
    }),
    seconds_column("response_seconds", "from the request to the complete response", |row| {
        (row.facts.answered_at - row.facts.sent_at).max(0.0).into()
    }),
    seconds_column("model_seconds", "time in requests to the endpoint, without waits", |row| {
        row.facts.model_seconds.into()
    }),
    seconds_column("waited_seconds", "time in backoff and queues before the requests", |row| {
        row.facts.wait_seconds.into()
    }),
    seconds_column("tool_seconds", "total time in tools", |row| row.facts.tool_seconds.into()),
    count_column(
        "sends",
        "requests",
        "attempts to send the request, including failed ones",
        |row| row.facts.sends.into(),
    ),
    count_column("failed_sends", "requests", "failed attempts to send the request", |row| {
        row.facts.failed_sends.into()
    }),
    count_column("side_requests", "requests", "side requests since the previous step", |row| {
        row.facts.side_requests.into()
    }),
    count_column("input_tokens", "tokens", "input tokens, including cached ones", |row| {
        row.facts.usage.input.into()
    }),
    count_column("output_tokens", "tokens", "output tokens, including reasoning", |row| {
        row.facts.usage.output.into()
    }),
    count_column("cached_tokens", "tokens", "input tokens read from a cache", |row| {
        row.facts.usage.cached.into()
    }),
    count_column(
        "fresh_input_tokens",
        "tokens",
        "class: input, neither read from nor written to a cache",
        |row| row.facts.usage.classes.fresh_input.into(),
    ),
    count_column("cache_read_tokens", "tokens", "class: input, read from a cache", |row| {
        row.facts.usage.classes.cache_read.into()
    }),
    count_column("cache_write_tokens", "tokens", "class: input, written to a cache", |row| {
        row.facts.usage.classes.cache_write.into()
    }),
    count_column(
        "cache_write_1h_tokens",
        "tokens",
        "part of cache_write_tokens that is cached for an hour",
        |row| row.facts.usage.classes.cache_write_1h.into(),
    ),
    count_column("output_visible_tokens", "tokens", "class: output, without reasoning", |row| {
        row.facts.usage.classes.output_visible.into()
    }),
    count_column("reasoning_tokens", "tokens", "class: output, reasoning", |row| {
        row.facts.usage.classes.reasoning.into()
    }),
    column(
        "usage_estimated",
        ColumnKind::Boolean,
        "",
        "whether the tokens were counted locally, not by the endpoint",
        |row| row.facts.usage.estimated.into(),
    ),
    column(
        "cost_usd",
        ColumnKind::Number,
        "US dollars",
        "cost of the response; null without a price",
        |row| row.facts.cost_usd.into(),
    ),
    text_column("finish_reason", "why the response ended, as the endpoint reported it", |row| {
        row.facts.finish_reason.as_deref().into()
    }),
    count_column("tool_calls", "calls", "tool calls in the step", |row| {
        (row.facts.tool_names.len() as u64).into()
    }),
    text_column("tools", "the tools that were called, in order", |row| {
        let tools = &row.facts.tool_names;
        (!tools.is_empty()).then(|| tools.join(" ")).into()
    }),
    count_column("malformed_calls", "calls", "tool calls with invalid arguments", |row| {
        row.facts.malformed_calls.into()
    }),
    count_column(
        "failed_calls",
        "calls",
        "malformed calls and calls with a nonzero status",
        |row| row.facts.failed_calls.into(),
    ),
    count_column("changed_paths", "paths", "paths that the step created or changed", |row| {
        row.facts.changed_paths.into()
    }),
    count_column("removed_paths", "paths", "paths that the step removed", |row| {
        row.facts.removed_paths.into()
    }),
    count_column("urls", "requests", "the agent's requests to the egress proxy", |row| {
        row.facts.url_count.into()
    }),
    text_column("snapshot", "the hash of the work directory after the step", |row| {
        row.facts.snapshot.as_deref().into()
    }),
];
