//! Charts how a trial spent its time and how close it came to each of its limits.

use serde::Serialize;

use super::{
    plot::{Tick, round_to_hundredth, tick},
    step_row::StepRow,
};

/// The fraction of a limit at the chart's upper edge. A trial may exceed a limit by its last step.
const TOP_FRACTION: f64 = 1.1;
/// Maximum number of steps that are drawn separately. In longer trials, adjacent steps are merged.
const MAX_DRAWN_STEPS: usize = 400;

/// A limit in a trial's budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChartLimit {
    pub kind: ChartLimitKind,
    pub maximum: f64,
}

/// The quantity that a limit counts. Limits that cannot be computed from steps are not drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartLimitKind {
    Steps,
    InputTokens,
    OutputTokens,
    TotalTokens,
    Cost,
    WallSeconds,
    WorkingSeconds,
    ToolSeconds,
}

impl ChartLimitKind {
    fn name(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::InputTokens => "tokens in",
            Self::OutputTokens => "tokens out",
            Self::TotalTokens => "tokens",
            Self::Cost => "US dollars",
            Self::WallSeconds => "seconds",
            Self::WorkingSeconds => "working seconds",
            Self::ToolSeconds => "seconds in tools",
        }
    }

    fn amount_added_by(self, row: &StepRow) -> f64 {
        match self {
            // A request without a response is not a step.
            Self::Steps => f64::from(u8::from(!row.is_unanswered)),
            Self::InputTokens => row.input as f64,
            Self::OutputTokens => row.output as f64,
            Self::TotalTokens => (row.input + row.output) as f64,
            Self::Cost => row.cost_usd.unwrap_or_default(),
            Self::WallSeconds => row.seconds,
            Self::WorkingSeconds => (row.seconds - row.waited_seconds).max(0.0),
            Self::ToolSeconds => row.tool_seconds,
        }
    }

    /// Whether the amount depends on the number of tokens, which may be an estimate.
    fn depends_on_tokens(self) -> bool {
        matches!(self, Self::InputTokens | Self::OutputTokens | Self::TotalTokens | Self::Cost)
    }

    fn format_amount(self, value: f64) -> String {
        match self {
            Self::Cost => format!("${value:.4}"),
            Self::Steps | Self::InputTokens | Self::OutputTokens | Self::TotalTokens => {
                format!("{value:.0}")
            }
            _ => format!("{value:.1}"),
        }
    }
}

/// The chart. Positions are percentages, so that text has the same size at any width.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Timeline {
    ticks: Vec<Tick>,
    parts: Vec<StepPart>,
    lines: Vec<LimitLine>,
    /// The vertical position at which a limit is used up.
    full: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct StepPart {
    /// CSS class: `model`, `wait`, `tool` or `other`.
    class: &'static str,
    x: f64,
    width: f64,
}

/// The fraction of a limit that is used, over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct LimitLine {
    name: &'static str,
    used: String,
    most: String,
    share: f64,
    points: String,
    /// Index of the dash pattern.
    dash: usize,
}

/// Builds the chart from the steps and the request without a response. Returns `None` if there are
/// none.
pub(crate) fn timeline(rows: &[StepRow], limits: &[ChartLimit]) -> Option<Timeline> {
    let (first, last) = (rows.first()?, rows.last()?);
    let (begin, end) = (first.at.min(last.at), last.at + last.seconds);
    let whole = (end - begin).max(1e-3);
    let x = |at: f64| round_to_hundredth(100.0 * ((at - begin) / whole).clamp(0.0, 1.0));
    let mut lines: Vec<LimitLine> = limits
        .iter()
        .filter(|cap| cap.maximum > 0.0)
        .enumerate()
        .map(|(dash, cap)| limit_line(rows, *cap, dash, &x))
        .collect();
    // The limit that is closest to being used up comes first, as it does in the chart.
    lines.sort_by(|a, b| b.share.total_cmp(&a.share));
    let ticks = (0..=4).map(|quarter| begin + whole * f64::from(quarter) / 4.0);
    Some(Timeline {
        ticks: ticks.map(|at| tick(x(at), format_seconds_tick(whole / 4.0, at))).collect(),
        parts: step_parts(rows, &x),
        lines,
        full: limit_y(1.0),
    })
}

/// Formats a tick of the time axis, with as many decimals as the distance between ticks requires.
fn format_seconds_tick(step: f64, at: f64) -> String {
    let digits = if step >= 10.0 { 0.0 } else { (1.0 - step.log10().floor()).clamp(1.0, 4.0) };
    let digits = digits as usize;
    format!("{at:.digits$} s")
}

/// Returns the vertical position of a used fraction of a limit, in percent from the top.
fn limit_y(fraction: f64) -> f64 {
    round_to_hundredth(100.0 * (1.0 - fraction.clamp(0.0, TOP_FRACTION) / TOP_FRACTION))
}

fn limit_line(
    rows: &[StepRow],
    limit: ChartLimit,
    dash: usize,
    x: &impl Fn(f64) -> f64,
) -> LimitLine {
    let every = rows.len().div_ceil(MAX_DRAWN_STEPS).max(1);
    let mut used = 0.0;
    let mut points =
        vec![format!("{},{}", x(rows.first().map_or(0.0, |row| row.at)), limit_y(0.0))];
    for (index, row) in rows.iter().enumerate() {
        used += limit.kind.amount_added_by(row);
        if (index + 1) % every == 0 || index + 1 == rows.len() {
            points.push(format!("{},{}", x(row.at + row.seconds), limit_y(used / limit.maximum)));
        }
    }
    let is_estimated = limit.kind.depends_on_tokens() && rows.iter().any(|row| row.estimated);
    let about = if is_estimated { "~" } else { "" };
    LimitLine {
        name: limit.kind.name(),
        used: format!("{about}{}", limit.kind.format_amount(used)),
        most: limit.kind.format_amount(limit.maximum),
        share: used / limit.maximum,
        points: points.join(" "),
        dash: dash % 4,
    }
}

fn step_parts(rows: &[StepRow], x: &impl Fn(f64) -> f64) -> Vec<StepPart> {
    let together = rows.len().div_ceil(MAX_DRAWN_STEPS).max(1);
    let mut parts = Vec::new();
    for group in rows.chunks(together) {
        let mut at = group.first().map_or(0.0, |row| row.at);
        let end = group.last().map_or(at, |row| row.at + row.seconds);
        let sum = |of: fn(&StepRow) -> f64| group.iter().map(of).sum::<f64>();
        for (class, seconds) in [
            ("wait", sum(|row| row.waited_seconds)),
            ("model", sum(|row| row.model_seconds)),
            ("tool", sum(|row| row.tool_seconds)),
            ("other", f64::INFINITY),
        ] {
            let to = (at + seconds).min(end);
            let width = round_to_hundredth(x(to) - x(at));
            if width > 0.0 {
                parts.push(StepPart { class, x: x(at), width });
            }
            at = to;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn step_rows(count: u64) -> Vec<StepRow> {
        let row = |number| StepRow {
            number,
            at: (number - 1) as f64 * 2.0,
            seconds: 2.0,
            model_seconds: 1.0,
            tool_seconds: 0.5,
            input: 100,
            ..StepRow::default()
        };
        (1..=count).map(row).collect()
    }

    #[test]
    fn line_ends_at_the_top_if_the_limit_is_reached() {
        let caps = [
            ChartLimit { kind: ChartLimitKind::Steps, maximum: 10.0 },
            ChartLimit { kind: ChartLimitKind::InputTokens, maximum: 4000.0 },
        ];
        let drawn = timeline(&step_rows(10), &caps).unwrap();
        let of = |name| drawn.lines.iter().find(|line| line.name == name).unwrap();
        assert!(of("steps").points.ends_with(&format!(",{}", drawn.full)), "{drawn:?}");
        assert!((of("tokens in").share - 0.25).abs() < 1e-9 && of("steps").used == "10");
        assert_eq!(drawn.lines[0].name, "steps", "the limit that is closest to its end is first");
        assert!(timeline(&[], &caps).is_none());
    }

    #[test]
    fn request_without_a_response_takes_time_but_is_no_step() {
        let mut rows = step_rows(2);
        let waited = StepRow {
            number: 3,
            at: 4.0,
            seconds: 30.0,
            waited_seconds: 25.0,
            is_unanswered: true,
            ..StepRow::default()
        };
        rows.push(waited.clone());
        let limits = [
            ChartLimit { kind: ChartLimitKind::Steps, maximum: 10.0 },
            ChartLimit { kind: ChartLimitKind::WallSeconds, maximum: 100.0 },
        ];
        let drawn = timeline(&rows, &limits).unwrap();
        let used = |drawn: &Timeline, name| {
            drawn.lines.iter().find(|line| line.name == name).map(|line| line.used.clone())
        };
        assert_eq!(used(&drawn, "steps").as_deref(), Some("2"));
        assert_eq!(used(&drawn, "seconds").as_deref(), Some("34.0"));
        assert!(drawn.parts.iter().any(|part| part.class == "wait"), "{drawn:?}");
        // A trial can end before its first step.
        let drawn = timeline(&[waited], &limits).unwrap();
        assert_eq!(used(&drawn, "steps").as_deref(), Some("0"));
    }

    #[test]
    fn estimated_amounts_are_marked() {
        let mut rows = step_rows(2);
        rows[1].estimated = true;
        let limits = [ChartLimitKind::Steps, ChartLimitKind::TotalTokens]
            .map(|kind| ChartLimit { kind, maximum: 1_000.0 });
        let drawn = timeline(&rows, &limits).unwrap();
        let used: Vec<&str> = drawn.lines.iter().map(|line| line.used.as_str()).collect();
        assert_eq!(used, ["~200", "2"]);
    }

    #[test]
    fn time_axis_has_the_decimals_that_it_needs() {
        for (step, at, label) in [
            (0.3, 0.6, "0.60 s"),
            (0.004, 0.012, "0.0120 s"),
            (2.5, 7.5, "7.5 s"),
            (25.0, 75.0, "75 s"),
        ] {
            assert_eq!(format_seconds_tick(step, at), label);
        }
        let labels = |seconds: f64| -> BTreeSet<String> {
            let row = StepRow { number: 1, seconds, ..StepRow::default() };
            timeline(&[row], &[]).unwrap().ticks.into_iter().map(|(_, label, _)| label).collect()
        };
        for seconds in [0.05, 1.2, 9.0, 100.0] {
            assert_eq!(labels(seconds).len(), 5, "{seconds}: {:?}", labels(seconds));
        }
    }

    #[test]
    fn timeline_of_a_long_trial_stays_small_and_within_bounds() {
        let caps =
            [ChartLimitKind::Steps, ChartLimitKind::WallSeconds, ChartLimitKind::TotalTokens]
                .map(|kind| ChartLimit { kind, maximum: 5_000.0 });
        let drawn = timeline(&step_rows(5_000), &caps).unwrap();
        assert!(drawn.parts.len() <= 4 * MAX_DRAWN_STEPS, "{}", drawn.parts.len());
        for part in &drawn.parts {
            assert!(part.x >= 0.0 && part.x + part.width <= 100.02, "{part:?}");
        }
    }
}
