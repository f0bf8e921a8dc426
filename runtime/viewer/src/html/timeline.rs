//! Charts how a trial spent its time and how close it came to each of its limits.

use serde::Serialize;

use super::{plot::round_to_tenth, step_row::StepRow};

const CHART_WIDTH: f64 = 780.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 580.0;
/// Height of the strip that shows the steps.
const STRIP_TOP: f64 = 24.0;
const STRIP_THICKNESS: f64 = 18.0;
/// Vertical positions of a limit's line when the limit is used up, and when nothing is used.
const FULL_Y: f64 = 74.0;
const EMPTY_Y: f64 = 194.0;
/// Minimum vertical distance between the labels of two lines, in pixels.
const LABEL_GAP: f64 = 15.0;
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
            Self::Steps => 1.0,
            Self::InputTokens => row.input as f64,
            Self::OutputTokens => row.output as f64,
            Self::TotalTokens => (row.input + row.output) as f64,
            Self::Cost => row.cost_usd.unwrap_or_default(),
            Self::WallSeconds => row.seconds,
            Self::WorkingSeconds => (row.seconds - row.waited_seconds).max(0.0),
            Self::ToolSeconds => row.tool_seconds,
        }
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

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Timeline {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    strip: f64,
    thick: f64,
    full: f64,
    empty: f64,
    /// Each tick's position and label.
    ticks: Vec<(f64, String)>,
    parts: Vec<StepPart>,
    lines: Vec<LimitLine>,
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
    end_y: f64,
    label_y: f64,
}

/// Builds the chart. Returns `None` if there are no steps.
pub(crate) fn timeline(rows: &[StepRow], limits: &[ChartLimit]) -> Option<Timeline> {
    let (first, last) = (rows.first()?, rows.last()?);
    let (begin, end) = (first.at.min(last.at), last.at + last.seconds);
    let whole = (end - begin).max(1e-3);
    let x =
        |at: f64| round_to_tenth(LEFT + (RIGHT - LEFT) * ((at - begin) / whole).clamp(0.0, 1.0));
    let mut lines: Vec<LimitLine> = limits
        .iter()
        .filter(|cap| cap.maximum > 0.0)
        .enumerate()
        .map(|(dash, cap)| limit_line(rows, *cap, dash, &x))
        .collect();
    spread_labels(&mut lines);
    let ticks = (0..=4).map(|quarter| begin + whole * f64::from(quarter) / 4.0);
    Some(Timeline {
        width: CHART_WIDTH,
        height: if lines.is_empty() { STRIP_TOP + STRIP_THICKNESS + 24.0 } else { EMPTY_Y + 14.0 },
        left: LEFT,
        right: RIGHT,
        strip: STRIP_TOP,
        thick: STRIP_THICKNESS,
        full: FULL_Y,
        empty: EMPTY_Y,
        ticks: ticks.map(|at| (x(at), format!("{at:.0} s"))).collect(),
        parts: step_parts(rows, &x),
        lines,
    })
}

fn limit_line(
    rows: &[StepRow],
    limit: ChartLimit,
    dash: usize,
    x: &impl Fn(f64) -> f64,
) -> LimitLine {
    let y = |share: f64| round_to_tenth(EMPTY_Y - (EMPTY_Y - FULL_Y) * share.clamp(0.0, 1.1));
    let every = rows.len().div_ceil(MAX_DRAWN_STEPS).max(1);
    let mut used = 0.0;
    let mut points = vec![format!("{},{}", x(rows.first().map_or(0.0, |row| row.at)), y(0.0))];
    for (index, row) in rows.iter().enumerate() {
        used += limit.kind.amount_added_by(row);
        if (index + 1) % every == 0 || index + 1 == rows.len() {
            points.push(format!("{},{}", x(row.at + row.seconds), y(used / limit.maximum)));
        }
    }
    let end_y = y(used / limit.maximum);
    LimitLine {
        name: limit.kind.name(),
        used: limit.kind.format_amount(used),
        most: limit.kind.format_amount(limit.maximum),
        share: used / limit.maximum,
        points: points.join(" "),
        dash: dash % 4,
        end_y,
        label_y: end_y,
    }
}

/// Moves the labels at the lines' ends apart, so that they do not overlap.
fn spread_labels(lines: &mut [LimitLine]) {
    lines.sort_by(|a, b| a.end_y.total_cmp(&b.end_y));
    let mut free = 0.0_f64;
    for line in lines.iter_mut() {
        line.label_y = line.end_y.max(free);
        free = line.label_y + LABEL_GAP;
    }
    let mut most = EMPTY_Y + 8.0;
    for line in lines.iter_mut().rev() {
        line.label_y = line.label_y.min(most);
        most = line.label_y - LABEL_GAP;
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
            let width = round_to_tenth(x(to) - x(at));
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
        assert!((of("steps").end_y - FULL_Y).abs() < 1e-9 && of("steps").used == "10");
        assert!(of("tokens in").end_y > FULL_Y && (of("tokens in").share - 0.25).abs() < 1e-9);
        assert!(timeline(&[], &caps).is_none());
    }

    #[test]
    fn timeline_of_a_long_trial_stays_small_and_within_bounds() {
        let caps =
            [ChartLimitKind::Steps, ChartLimitKind::WallSeconds, ChartLimitKind::TotalTokens]
                .map(|kind| ChartLimit { kind, maximum: 5_000.0 });
        let drawn = timeline(&step_rows(5_000), &caps).unwrap();
        assert!(drawn.parts.len() <= 4 * MAX_DRAWN_STEPS, "{}", drawn.parts.len());
        for part in &drawn.parts {
            assert!(part.x >= LEFT && part.x + part.width <= RIGHT + 0.2, "{part:?}");
        }
        for pair in drawn.lines.windows(2) {
            assert!(pair[1].label_y - pair[0].label_y >= LABEL_GAP - 1e-9, "{pair:?}");
        }
    }
}
