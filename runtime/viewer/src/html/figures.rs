//! Builds the report's charts from its numbers.

use std::collections::BTreeMap;

use proctor_report::{
    ArmReport, Comparison, Pair, Ratio, abbreviate_count, format_dollars, format_percent,
    is_second_arm_better, pairs_in_headline_order, pareto_front,
};
use serde::Serialize;

use crate::html::plot::{
    Axis, PlaneChart, PlotDot, PlotLine, StripChart, StripRow, format_percent_tick, label_offsets,
    round_to_tenth, tick,
};

/// The arms under study. Each arm has a number, counted from 1.
pub(crate) type NumberedArms<'a> = [(usize, &'a ArmReport)];

/// If an interval's end exceeds the largest value by more than this factor, the interval is cut off
/// at the edge of the chart.
const MAX_OVERSHOOT: f64 = 4.0;

/// Charts the fraction of trials that resolve their task.
pub(crate) fn resolved_chart(arms: &NumberedArms<'_>) -> StripChart {
    let rows = arms.iter().map(|(number, arm)| StripRow {
        value: format!("{} ({}/{})", format_percent(arm.resolved_rate), arm.resolved, arm.trials),
        ..rate_row(*number, arm, arm.resolved_rate, arm.intervals.resolved_rate)
    });
    fraction_chart("resolved", "Tasks resolved", rows.collect())
}

/// Charts the fraction of fail-to-pass tests that pass.
pub(crate) fn passed_chart(arms: &NumberedArms<'_>) -> StripChart {
    let rows = arms
        .iter()
        .map(|(number, arm)| rate_row(*number, arm, arm.passed_rate, arm.intervals.passed_rate));
    fraction_chart("passed", "Fail-to-pass tests passed", rows.collect())
}

fn fraction_chart(id: &str, title: &str, rows: Vec<StripRow>) -> StripChart {
    StripChart {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: String::new(),
        ticks: Axis::FRACTIONS.ticks(format_percent_tick),
        zero: None,
        rows,
    }
}

fn rate_row(number: usize, arm: &ArmReport, value: f64, interval: Option<[f64; 2]>) -> StripRow {
    let at = |share: f64| Axis::FRACTIONS.position(share);
    StripRow {
        name: arm.name.clone(),
        number,
        bar: Some((0.0, at(value))),
        range: interval.map(|[lower, upper]| (at(lower), at(upper))),
        value: format_percent(value),
        detail: interval.map_or_else(String::new, |[lower, upper]| {
            format!("{:.1} to {:.1}", lower * 100.0, upper * 100.0)
        }),
        ..StripRow::default()
    }
}

/// Returns a forest plot for each metric that has one.
pub(crate) fn forest_plots(comparison: &Comparison) -> Vec<StripChart> {
    let metrics = [
        ("resolved", "Difference in tasks resolved"),
        ("passed_rate", "Difference in fail-to-pass tests passed"),
    ];
    metrics
        .into_iter()
        .filter_map(|(metric, title)| forest_plot(comparison, metric, title))
        .collect()
}

/// Charts one metric's paired differences with their confidence intervals, one row per pair of
/// arms. Returns `None` if no pair has a difference. The rows are in the order of the headlines, and
/// as there, each row names the arm that resolves more first.
fn forest_plot(comparison: &Comparison, metric: &str, title: &str) -> Option<StripChart> {
    let of_pair = |metrics: &[Pair]| {
        let of = |name: &str| metrics.iter().find(|pair| pair.metric == name);
        let (turned, pair) = (is_second_arm_better(of("resolved")?), of(metric)?);
        let (difference, ends) = (pair.difference?, pair.interval_adjusted.or(pair.interval)?);
        let (a, b) = (&pair.a, &pair.b);
        let strong = pair.is_clear();
        Some(match turned {
            true => {
                (format!("{b} minus {a}"), 0.0 - difference, [0.0 - ends[1], 0.0 - ends[0]], strong)
            }
            false => (format!("{a} minus {b}"), difference, ends, strong),
        })
    };
    let all: Vec<(String, f64, [f64; 2], bool)> =
        pairs_in_headline_order(&comparison.pairs).into_iter().filter_map(of_pair).collect();
    let most = all.iter().flat_map(|(.., ends, _)| *ends).map(f64::abs).reduce(f64::max)?;
    let axis = Axis::up_to(most);
    // Put zero in the middle of the axis.
    let at = |value: f64| round_to_tenth(50.0 + axis.position(value.abs()) / 2.0 * value.signum());
    let format_value = |value: f64| format_signed_points(value, 0);
    let (below, above) = (axis.tick_values().skip(1), axis.tick_values());
    let mut values: Vec<f64> = below.map(|value| -value).chain(above).collect();
    values.sort_by(f64::total_cmp);
    let is_doubtful = |(_, _, [lower, upper], strong): &(String, f64, [f64; 2], bool)| {
        !strong && (*lower > 0.0 || *upper < 0.0)
    };
    let doubt = match all.iter().any(is_doubtful) {
        true => {
            " A gray interval that excludes 0 shows a difference in the graded trials that missing \
             verdicts could hide."
        }
        false => "",
    };
    let adjusted = match comparison.pairs.iter().map(|pair| pair.adjusted_for).max() {
        Some(count @ 2..) => format!(", adjusted for {count} pairs"),
        _ => String::new(),
    };
    Some(StripChart {
        id: format!("forest-{}", metric.replace('_', "-")),
        title: title.to_owned(),
        caption: format!(
            "Paired difference in points on shared tasks, with 95% confidence intervals{adjusted}. An \
             interval that includes 0 does not show a difference.{doubt}"
        ),
        ticks: values.into_iter().map(|value| tick(at(value), format_value(value))).collect(),
        zero: Some(50.0),
        rows: all
            .into_iter()
            .map(|(name, difference, [lower, upper], strong)| StripRow {
                name,
                strong,
                range: Some((at(lower), at(upper))),
                point: Some(at(difference)),
                value: format_signed_points(difference, 1),
                detail: format!("{} to {}", format_points(lower), format_points(upper)),
                ..StripRow::default()
            })
            .collect(),
    })
}

/// Formats a difference in points: `+4.2`, or `0.0` without a sign.
fn format_signed_points(fraction: f64, digits: usize) -> String {
    if fraction == 0.0 {
        return format!("{fraction:.digits$}");
    }
    format!("{:+.digits$}", fraction * 100.0)
}

fn format_points(fraction: f64) -> String {
    format!("{:.1}", fraction * 100.0 + 0.0)
}

/// A chart of cost against score, with the Pareto front.
#[derive(Debug, Serialize)]
pub(crate) struct CostChart {
    pub(crate) plane: PlaneChart,
    pub(crate) legend: Vec<(usize, String)>,
    /// Whether each arm is on the Pareto front. The key is the arm's number.
    #[serde(skip)]
    pub(crate) on_front: BTreeMap<usize, bool>,
}

/// Builds the chart from the arms that call a model and whose cost is known. Returns `None` if
/// nothing was billed.
pub(crate) fn cost_chart(arms: &NumberedArms<'_>) -> Option<CostChart> {
    let priced = |(_, arm): &&(usize, &ArmReport)| arm.model.is_some() && arm.paid.cost_known;
    let arms: Vec<&(usize, &ArmReport)> = arms.iter().filter(priced).collect();
    let all: Vec<(f64, f64)> = arms
        .iter()
        .map(|(_, arm)| (arm.paid.cost_usd / arm.trials.max(1) as f64, arm.resolved_rate))
        .collect();
    let most = all.iter().map(|(cost, _)| *cost).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let is_front = pareto_front(&all);
    let axis = Axis::up_to(most);
    let dot_position =
        |(cost, score): (f64, f64)| (axis.position(cost), Axis::FRACTIONS.position_from_top(score));
    let placed: Vec<(f64, f64)> = all.iter().copied().map(dot_position).collect();
    let dots = arms.iter().zip(&all).zip(&placed).zip(label_offsets(&placed)).zip(&is_front);
    let dots = dots.map(|(((((number, arm), point), (x, y)), (dx, dy, anchor)), filled)| {
        let top = |share: f64| Axis::FRACTIONS.position_from_top(share);
        PlotDot {
            number: *number,
            name: format!(
                "{}: {} per trial, {} resolved",
                arm.name,
                format_dollars(point.0),
                format_percent(point.1)
            ),
            x: *x,
            y: *y,
            range: arm.intervals.resolved_rate.map(|[lower, upper]| (top(upper), top(lower))),
            filled: *filled,
            dx,
            dy,
            anchor,
        }
    });
    let mut front: Vec<(f64, f64)> = placed
        .iter()
        .zip(&is_front)
        .filter(|(_, front)| **front)
        .map(|(place, _)| *place)
        .collect();
    front.sort_by(|one, other| one.0.total_cmp(&other.0).then(other.1.total_cmp(&one.1)));
    Some(CostChart {
        plane: PlaneChart {
            id: "cost".to_owned(),
            title: "Resolved by cost".to_owned(),
            x_title: "US dollars per trial, including retries".to_owned(),
            y_title: "resolved".to_owned(),
            x_ticks: axis.ticks(|value| format_dollar_tick(axis.step, value)),
            y_ticks: Axis::FRACTIONS.ticks_from_top(format_percent_tick),
            lines: vec![PlotLine {
                class: "front".to_owned(),
                path: step_function_path(&front, 100.0),
            }],
            dots: dots.collect(),
        },
        legend: arms.iter().map(|(number, arm)| (*number, arm.name.clone())).collect(),
        on_front: arms
            .iter()
            .zip(&is_front)
            .map(|((number, _), front)| (*number, *front))
            .collect(),
    })
}

/// Returns the SVG path of a step function. The function rises at each point and is level between
/// the points and from the last point to `end`.
pub(crate) fn step_function_path(points: &[(f64, f64)], end: f64) -> String {
    let Some((first, _)) = points.first() else { return String::new() };
    let mut path = format!("M {first} 100");
    let mut level = 100.0;
    for (x, y) in points {
        path += &format!(" L {x} {level} L {x} {y}");
        level = *y;
    }
    path + &format!(" L {end} {level}")
}

/// Formats a tick label in dollars, with as many decimals as the step requires, and at least two if
/// the step is not a whole number.
pub(crate) fn format_dollar_tick(step: f64, value: f64) -> String {
    if value == 0.0 || step >= 1.0 {
        return format!("${value:.0}");
    }
    let digits = (-step.log10().floor()).clamp(2.0, 8.0) as usize;
    format!("${value:.digits$}")
}

/// Charts dollars per resolved trial. Returns `None` if no arm has a price.
pub(crate) fn cost_per_resolved_chart(arms: &NumberedArms<'_>) -> Option<StripChart> {
    let each = |arm: &ArmReport| arm.per_resolved.and_then(|each| each.cost_usd);
    let title = "Dollars per resolved trial";
    let caption = "Everything billed, divided by the number of resolved trials, with 95% confidence intervals clustered by task.";
    amount_chart(["each-cost", title, caption], arms, each, format_dollars, format_dollar_tick)
}

/// Charts tokens per resolved trial. Returns `None` if no arm's tokens were counted.
pub(crate) fn tokens_per_resolved_chart(arms: &NumberedArms<'_>) -> Option<StripChart> {
    let each = |arm: &ArmReport| arm.per_resolved.and_then(|each| each.tokens);
    let title = "Tokens per resolved trial";
    let caption = "Input and output tokens of all tries, divided by the number of resolved trials, \
                   with 95% confidence intervals clustered by task.";
    amount_chart(["each-tokens", title, caption], arms, each, abbreviate_count, |_, value| {
        abbreviate_count(value)
    })
}

/// Builds a chart with one row per arm. `format_tick` formats a tick label from the scale's step
/// and the tick's value.
fn amount_chart(
    [id, title, caption]: [&str; 3],
    arms: &NumberedArms<'_>,
    amount_per_resolved: fn(&ArmReport) -> Option<Ratio>,
    format_value: fn(f64) -> String,
    format_tick: fn(f64, f64) -> String,
) -> Option<StripChart> {
    let ratios: Vec<Ratio> = arms.iter().filter_map(|(_, arm)| amount_per_resolved(arm)).collect();
    let largest = ratios.iter().map(|ratio| ratio.value).reduce(f64::max)?;
    let ends = ratios.iter().filter_map(|ratio| ratio.upper);
    let axis = Axis::up_to(ends.fold(largest, f64::max).min(largest * MAX_OVERSHOOT));
    let row = |(number, arm): &(usize, &ArmReport)| {
        let (number, name) = (*number, arm.name.clone());
        let Some(ratio) = amount_per_resolved(arm) else {
            let value = match arm.resolved {
                0 => "none resolved",
                _ => "not known",
            };
            return StripRow { name, number, value: value.to_owned(), ..StripRow::default() };
        };
        let open = ratio.lower.is_some() && ratio.upper.is_none_or(|upper| upper > axis.end);
        let upper = ratio.upper.map_or(100.0, |upper| axis.position(upper));
        let detail = match (ratio.lower, ratio.upper) {
            (None, _) => String::new(),
            (Some(lower), None) => format!("over {}", format_value(lower)),
            (Some(lower), Some(upper)) => {
                format!("{} to {}", format_value(lower), format_value(upper))
            }
        };
        StripRow {
            name,
            number,
            range: ratio.lower.map(|lower| (axis.position(lower), upper)),
            open,
            point: Some(axis.position(ratio.value)),
            value: format_value(ratio.value),
            detail,
            ..StripRow::default()
        }
    };
    Some(StripChart {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        ticks: axis.ticks(|value| format_tick(axis.step, value)),
        zero: None,
        rows: arms.iter().map(row).collect(),
    })
}

/// Returns the number of an arm's color class. There are six colors, so further arms are
/// distinguished only by their numbers.
pub(crate) fn arm_color_class(number: usize) -> usize {
    (number + 5) % 6 + 1
}
