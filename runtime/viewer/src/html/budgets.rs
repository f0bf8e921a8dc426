//! Budget curves: the fraction of trials resolved within a budget.

use proctor_report::{
    ArmReport, BudgetCurve, Curve, CurvePoint, Report, UsageKind, abbreviate_count, budget_curves,
    format_dollars, format_percent,
};
use serde::Serialize;

use crate::html::{
    figures::{NumberedArms, arm_color_class, format_dollar_tick, step_function_path},
    plot::{Axis, PlaneChart, PlotDot, PlotLine, format_percent_tick},
};

/// Number of points on a curve. More points would make no visible difference.
const MAX_CURVE_POINTS: usize = 400;

/// The budget curves of all arms, with their numbers in a table.
#[derive(Debug, Serialize)]
pub(crate) struct BudgetChart {
    pub(crate) plane: PlaneChart,
    pub(crate) legend: Vec<(usize, String)>,
    pub(crate) caption: String,
    /// Each row has a budget and one cell for each arm in the legend.
    pub(crate) rows: Vec<(String, Vec<String>)>,
}

/// Returns a chart for each kind of budget. Each chart shows which fraction of trials resolves its
/// task within that budget.
pub(crate) fn budget_charts(report: &Report, arms: &NumberedArms<'_>) -> Vec<BudgetChart> {
    let study: Vec<&ArmReport> = arms.iter().map(|(_, arm)| *arm).collect();
    let number_of = |curve: &ArmReport| {
        arms.iter().find(|(_, arm)| arm.arm == curve.arm).map_or(0, |(number, _)| *number)
    };
    let budget = |kind: UsageKind| {
        let curves = budget_curves(report, &study, kind);
        let most = curves.iter().map(|curve| curve.highest_usage).reduce(f64::max)?;
        let axis = Axis::up_to(most);
        let top =
            curves.iter().map(|curve| curve.resolved_fraction(f64::INFINITY)).fold(0.0, f64::max);
        let y_axis = Axis::up_to(top);
        let format_value = move |value: f64| match kind {
            UsageKind::Steps => format!("{value:.0}"),
            UsageKind::Tokens => abbreviate_count(value),
            UsageKind::Cost => format_dollar_tick(axis.step, value),
        };
        let (id, title, x_title) = match kind {
            UsageKind::Steps => ("within-steps", "Resolved within a number of steps", "steps"),
            UsageKind::Tokens => ("within-tokens", "Resolved within a number of tokens", "tokens"),
            UsageKind::Cost => ("within-cost", "Resolved within a cost", "US dollars per trial"),
        };
        let named: Vec<(usize, &ArmReport)> = curves
            .iter()
            .filter_map(|curve| study.iter().find(|arm| arm.arm == *curve.arm))
            .map(|arm| (number_of(arm), *arm))
            .collect();
        // A trial cannot use more than its limit, so the curve says nothing beyond it. With token and
        // cost limits, the last response may exceed the limit.
        let own_limit = |arm: &ArmReport| {
            let budget = arm.budget.as_ref()?;
            match kind {
                UsageKind::Steps => budget.steps.map(|limit| limit as f64),
                UsageKind::Tokens | UsageKind::Cost => None,
            }
        };
        let line = |(curve, (number, arm)): (&BudgetCurve<'_>, &(usize, &ArmReport))| {
            let count = curve.resolved_usage.len();
            let every = count.div_ceil(MAX_CURVE_POINTS).max(1);
            let last = count.saturating_sub(1);
            let chosen = curve.resolved_usage.iter().enumerate();
            let chosen = chosen.filter(|(index, _)| index % every == 0 || *index == last);
            let points: Vec<(f64, f64)> = chosen
                .map(|(_, used)| {
                    (axis.position(*used), y_axis.position_from_top(curve.resolved_fraction(*used)))
                })
                .collect();
            let last = points.last().map_or(0.0, |(x, _)| *x);
            let end = own_limit(arm).map_or(100.0, |limit| axis.position(limit)).max(last);
            PlotLine {
                class: format!("arm{}", arm_color_class(*number)),
                path: step_function_path(&points, end),
            }
        };
        let limits: Vec<f64> = named.iter().filter_map(|(_, arm)| own_limit(arm)).collect();
        // The table has a row for each limit, where an arm's curve ends.
        let mut ats: Vec<f64> = axis.tick_values().skip(1).collect();
        ats.extend(limits.iter().copied().filter(|limit| *limit <= axis.end));
        ats.sort_by(f64::total_cmp);
        ats.dedup();
        let is_beyond = |arm: &ArmReport, at: f64| own_limit(arm).is_some_and(|limit| at > limit);
        let cell = |at: f64, (curve, (_, arm)): (&BudgetCurve<'_>, &(usize, &ArmReport))| {
            if is_beyond(arm, at) {
                return "-".to_owned();
            }
            format_percent(curve.resolved_fraction(at))
        };
        let ends = match limits.iter().any(|limit| *limit < axis.end) {
            true => " An arm's curve ends at its own limit.",
            false => "",
        };
        Some(BudgetChart {
            plane: PlaneChart {
                id: id.to_owned(),
                title: title.to_owned(),
                x_title: x_title.to_owned(),
                y_title: "of all trials".to_owned(),
                x_ticks: axis.ticks(format_value),
                y_ticks: y_axis.ticks_from_top(format_percent_tick),
                lines: curves.iter().zip(&named).map(line).collect(),
                dots: Vec::new(),
            },
            legend: named.iter().map(|(number, arm)| (*number, arm.name.clone())).collect(),
            caption: format!(
                "Fraction of all trials that resolve their task within this limit. A trial may have \
                 a solution before it ends, so with a real limit the fraction would be at least this \
                 high.{ends}"
            ),
            rows: ats
                .into_iter()
                .map(|at| {
                    let cells = curves.iter().zip(&named).map(|both| cell(at, both));
                    (format_value(at), cells.collect())
                })
                .collect(),
        })
    };
    UsageKind::ALL.into_iter().filter_map(budget).collect()
}

/// Returns a chart for a `proctor curve` result, which is based on graded snapshots.
pub(crate) fn graded_curve_chart(
    curve: &Curve,
    index: usize,
    arms: &NumberedArms<'_>,
) -> Option<BudgetChart> {
    let axis = Axis::up_to(curve.points.iter().map(|point| point.at).reduce(f64::max)?);
    let kind = curve.points.first().map_or("", |point| point.budget.as_str());
    let format_value = move |value: f64| match kind {
        "cost" => format_dollars(value),
        "tokens" => abbreviate_count(value),
        _ => format!("{value}"),
    };
    let of = |arm: &ArmReport| -> Vec<&CurvePoint> {
        curve.points.iter().filter(|point| point.arm == arm.arm).collect()
    };
    let drawn: Vec<(usize, &ArmReport, Vec<&CurvePoint>)> = arms
        .iter()
        .map(|(number, arm)| (*number, *arm, of(arm)))
        .filter(|(.., points): &(_, _, Vec<_>)| !points.is_empty())
        .collect();
    if drawn.is_empty() {
        return None;
    }
    let top = |share: f64| Axis::FRACTIONS.position_from_top(share);
    let mut ats: Vec<f64> = curve.points.iter().map(|point| point.at).collect();
    ats.sort_by(f64::total_cmp);
    ats.dedup();
    let (mut lines, mut dots) = (Vec::new(), Vec::new());
    for (number, arm, points) in &drawn {
        let positions: Vec<(f64, f64)> = points
            .iter()
            .map(|point| (axis.position(point.at), top(point.resolved_rate)))
            .collect();
        let path: Vec<String> = positions.iter().map(|(x, y)| format!("{x} {y}")).collect();
        let path = format!("M {}", path.join(" L "));
        lines.push(PlotLine { class: format!("arm{}", arm_color_class(*number)), path });
        for (point, (x, y)) in points.iter().zip(positions) {
            let (rate, at) = (format_percent(point.resolved_rate), format_value(point.at));
            dots.push(PlotDot {
                number: *number,
                name: format!("{}: {rate} at {at}", arm.name),
                x,
                y,
                range: point.interval.map(|[lower, upper]| (top(upper), top(lower))),
                filled: !point.truncated,
                dx: 9,
                dy: -8,
                anchor: "",
            });
        }
    }
    let cell = |points: &[&CurvePoint], at: f64| {
        points.iter().find(|point| point.at == at).map_or_else(String::new, |point| {
            let interval = point.interval.map_or_else(String::new, |[lower, upper]| {
                format!(" ({:.1} to {:.1})", lower * 100.0, upper * 100.0)
            });
            format!("{}{interval}", format_percent(point.resolved_rate))
        })
    };
    Some(BudgetChart {
        plane: PlaneChart {
            id: format!("curve-{}", index + 1),
            title: format!("Resolved under smaller limits of {kind}, by graded snapshots"),
            x_title: kind.to_owned(),
            y_title: "resolved".to_owned(),
            x_ticks: axis.ticks(format_value),
            y_ticks: Axis::FRACTIONS.ticks_from_top(format_percent_tick),
            lines,
            dots,
        },
        legend: drawn.iter().map(|(number, arm, _)| (*number, arm.name.clone())).collect(),
        caption:
            "Results under each limit, computed from the state of each trial's work directory \
                  at that point. Hollow points: the prompt stated a larger limit."
                .to_owned(),
        rows: ats
            .into_iter()
            .map(|at| {
                (format_value(at), drawn.iter().map(|(.., points)| cell(points, at)).collect())
            })
            .collect(),
    })
}
