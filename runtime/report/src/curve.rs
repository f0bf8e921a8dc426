//! Computes the results that smaller limits would have given.

use std::fmt::Write as _;

use proctor_statistics::{CONFIDENCE_LEVEL, difference_interval};
use proctor_types::{ArmId, TaskId, count_with_noun};
use serde::{Deserialize, Serialize, Serializer};

use crate::{
    TrialResult,
    csv::csv_field,
    format::{format_interval, format_percent},
    passed_interval, resolved_interval,
    table::format_table,
};

pub const CURVE_SCHEMA: u32 = 1;

/// The output of `curve --format json`, unrounded. Within a schema version, fields are only added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    pub schema_version: u32,
    /// Points by arm in plan order, then by ascending budget.
    pub points: Vec<CurvePoint>,
    /// With `--every`: one entry per trial, in plan order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_resolved: Vec<FirstResolved>,
    /// With `--check`: one entry per arm with a model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CurveCheck>,
    pub cost: CurveCost,
    /// Sentences about the curve, for example about arms that it skips.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Compares the curve with a real run that had the smaller limit. Uses only the first attempt at
/// each task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurveCheck {
    pub arm: ArmId,
    pub name: String,
    pub budget: String,
    #[serde(serialize_with = "serialize_shortest")]
    pub at: f64,
    /// Tasks with a verdict both on the curve and in the real run.
    pub tasks: u64,
    pub curve_resolved: u64,
    pub real_resolved: u64,
    /// Tasks that are resolved only on the curve, or only in the real run.
    pub curve_only: u64,
    pub real_only: u64,
    /// (curve - real) / tasks. Null if there are no tasks.
    pub gap: Option<f64>,
    /// 95% confidence interval of the gap.
    pub interval: Option<[f64; 2]>,
}

impl CurveCheck {
    /// Compares the two verdicts on each task. In each pair, the curve's verdict comes first.
    pub fn from_verdicts(
        (arm, name): (&ArmId, &str),
        (budget, budget_value): (&str, f64),
        verdict_pairs: &[(bool, bool)],
    ) -> Self {
        let count = |of: &dyn Fn(&(bool, bool)) -> bool| {
            verdict_pairs.iter().filter(|one| of(one)).count() as u64
        };
        let (curve_only, real_only) =
            (count(&|one| one.0 && !one.1), count(&|one| one.1 && !one.0));
        let tasks = verdict_pairs.len() as u64;
        Self {
            arm: arm.clone(),
            name: name.to_owned(),
            budget: budget.to_owned(),
            at: budget_value,
            tasks,
            curve_resolved: count(&|one| one.0),
            real_resolved: count(&|one| one.1),
            curve_only,
            real_only,
            gap: (tasks > 0).then(|| (curve_only as f64 - real_only as f64) / tasks as f64),
            interval: difference_interval(curve_only, real_only, tasks, CONFIDENCE_LEVEL),
        }
    }
}

/// The result of one arm at one budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    pub arm: ArmId,
    pub name: String,
    /// `steps`, `tokens`, `cost` or `seconds`.
    pub budget: String,
    #[serde(serialize_with = "serialize_shortest")]
    pub at: f64,
    /// Planned trials.
    pub trials: u64,
    /// Trials with a verdict at this budget. The rates count trials without a verdict as failures.
    pub graded: u64,
    pub resolved: u64,
    pub resolved_rate: f64,
    /// 95% confidence interval of the resolved rate, clustered by task.
    pub interval: Option<[f64; 2]>,
    pub passed_rate: f64,
    pub passed_interval: Option<[f64; 2]>,
    /// Whether the model's prompt stated a larger budget than this one. The model might have worked
    /// differently with this budget.
    pub truncated: bool,
    /// Trials that this budget would have ended.
    pub bound: u64,
}

/// The first step after which the files in a trial's work directory resolve the task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FirstResolved {
    pub task: TaskId,
    pub arm: ArmId,
    /// The arm's name.
    #[serde(default)]
    pub name: String,
    pub attempt: u32,
    /// Null if no graded work tree resolves the task.
    pub step: Option<u64>,
    /// Number of distinct work trees after the trial's steps. 0 if the trial has no snapshots, for
    /// example with the scaffold `gold`.
    #[serde(default)]
    pub trees: u64,
    /// Whether every distinct work tree up to that step was graded. If false, the search used
    /// bisection: if two graded work trees have the same verdict, the trees between them are
    /// assumed to have that verdict, too.
    pub exact: bool,
}

/// The cost of computing the curve. Only `--check` calls a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurveCost {
    pub model_calls: u64,
    /// Number of patches that were graded. Existing verdicts are not included.
    pub gradings: u64,
}

impl CurvePoint {
    /// Returns the point for one arm's trials. Each trial comes with its verdict at this budget.
    pub fn from_trials(
        (budget, budget_value): (&str, f64),
        trials: &[&TrialResult],
        bound: u64,
        prompt_stated_larger_budget: bool,
    ) -> Option<Self> {
        let first = trials.first()?;
        let verdicts = || trials.iter().filter_map(|trial| trial.verdict.as_ref());
        let resolved = verdicts().filter(|verdict| verdict.resolved).count() as u64;
        let planned = trials.len() as f64;
        Some(Self {
            arm: first.arm.clone(),
            name: first.arm_name.clone(),
            budget: budget.to_owned(),
            at: budget_value,
            trials: trials.len() as u64,
            graded: verdicts().count() as u64,
            resolved,
            resolved_rate: resolved as f64 / planned,
            interval: resolved_interval(trials),
            // Adding zero turns -0.0 into 0. The sum of an empty list of floats is -0.0.
            passed_rate: verdicts().map(|verdict| verdict.passed_rate).sum::<f64>() / planned + 0.0,
            passed_interval: passed_interval(trials),
            truncated: prompt_stated_larger_budget,
            bound,
        })
    }
}

/// Serializes 50 as `50` instead of `50.0`, because the user wrote it without decimals.
fn serialize_shortest<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 && *value < 1e15 {
        serializer.serialize_u64(*value as u64)
    } else {
        serializer.serialize_f64(*value)
    }
}

/// Formats a number: `50`, `2.5`.
fn format_number(value: f64) -> String {
    format!("{value}")
}

pub fn curve_text(curve: &Curve) -> String {
    let budget = curve.points.first().map_or("at", |point| point.budget.as_str());
    let headers = ["arm", budget, "resolved", "rate\n95%", "F2P passed", "at the limit"];
    let rows = curve.points.iter().map(|point| {
        let truncated = if point.truncated { " (truncated)" } else { "" };
        vec![
            format!("{}{truncated}", point.name),
            format_number(point.at),
            format!("{}/{}", point.resolved, point.trials),
            format!("{}{}", format_percent(point.resolved_rate), format_interval(point.interval)),
            format_percent(point.passed_rate),
            format!("{}/{}", point.bound, point.trials),
        ]
    });
    // `--every` without budgets yields no points.
    let mut out = match curve.points.is_empty() {
        true => String::new(),
        false => format_table(&headers, rows, |column| column > 0),
    };
    let missing: u64 = curve.points.iter().map(|point| point.trials - point.graded).sum();
    if missing > 0 {
        let verdicts = count_with_noun(missing, "verdict");
        let _ = writeln!(
            out,
            "incomplete: {verdicts} missing, counted as not resolved; the intervals cover both outcomes."
        );
    }
    if curve.points.iter().any(|point| point.truncated) {
        out.push_str("truncated: the prompt stated a larger budget, so the model might have behaved differently with this one.\n");
    }
    for first in &curve.first_resolved {
        let step = match (first.step, first.trees) {
            (Some(step), _) => format!("step {step}"),
            (None, 0) => "unknown (no step has a snapshot)".to_owned(),
            (None, _) => "never".to_owned(),
        };
        let exact = if first.exact { "" } else { ", by bisection" };
        let _ = writeln!(
            out,
            "{} / {} / {}: first resolved: {step}{exact}",
            first.task, first.name, first.attempt
        );
    }
    for check in &curve.checks {
        let _ = writeln!(
            out,
            "{}, {} tasks rerun with {} limited to {}: {} resolved, {} according to the curve; gap {:.1} points{}",
            check.name,
            check.tasks,
            check.budget,
            format_number(check.at),
            check.real_resolved,
            check.curve_resolved,
            check.gap.unwrap_or_default() * 100.0,
            format_interval(check.interval).replace('\n', ", 95% "),
        );
    }
    let cost = curve.cost;
    let _ = writeln!(
        out,
        "{}, {}",
        count_with_noun(cost.model_calls, "model call"),
        count_with_noun(cost.gradings, "graded patch")
    );
    out
}

pub fn curve_csv(curve: &Curve) -> String {
    let mut out = String::from(
        "arm,name,budget,at,trials,graded,resolved,resolved_rate,lower,upper,passed_rate,truncated\n",
    );
    for point in &curve.points {
        let [lower, upper] =
            point.interval.map_or([String::new(), String::new()], |ends| ends.map(format_number));
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{lower},{upper},{},{}",
            point.arm,
            csv_field(&point.name),
            point.budget,
            format_number(point.at),
            point.trials,
            point.graded,
            point.resolved,
            format_number(point.resolved_rate),
            format_number(point.passed_rate),
            point.truncated,
        );
    }
    out
}

/// Returns a self-contained HTML page with a plot and a table.
pub fn curve_html(curve: &Curve) -> String {
    const STYLE: &str = "body{font:15px system-ui,sans-serif;margin:2em auto;max-width:52em;color:#222}\
        table{border-collapse:collapse}td,th{padding:.25em .8em;border-bottom:1px solid #ddd;text-align:right}\
        td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto}";
    let mut rows = String::new();
    for point in &curve.points {
        let interval = point.interval.map_or_else(String::new, |[lower, upper]| {
            format!("{:.1} - {:.1}", lower * 100.0, upper * 100.0)
        });
        let truncated = if point.truncated { " (truncated)" } else { "" };
        let _ = writeln!(
            rows,
            "<tr><td>{}{truncated}</td><td>{}</td><td>{}/{}</td><td>{}</td><td>{interval}</td><td>{}</td></tr>",
            escape_xml(&point.name),
            format_number(point.at),
            point.resolved,
            point.trials,
            format_percent(point.resolved_rate),
            format_percent(point.passed_rate),
        );
    }
    let budget = curve.points.first().map_or("budget", |point| point.budget.as_str());
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Resolved by {budget}</title>\
         <style>{STYLE}</style>\n<h1>Resolved by {budget}</h1>\n{}\n<table>\n<tr><th>arm</th>\
         <th>{budget}</th><th>resolved</th><th>rate</th><th>95%</th><th>F2P passed</th></tr>\n{rows}\
         </table>\n</html>\n",
        plot_svg(curve)
    )
}

fn plot_svg(curve: &Curve) -> String {
    const COLORS: [&str; 6] = ["#1b6ca8", "#c8553d", "#3a7d44", "#8e5ea2", "#b8860b", "#444444"];
    const LEFT: f64 = 50.0;
    const RIGHT: f64 = 620.0;
    const TOP: f64 = 15.0;
    const BOTTOM: f64 = 265.0;
    let ats: Vec<f64> = curve.points.iter().map(|point| point.at).collect();
    let most = ats.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let x = |at: f64| LEFT + (RIGHT - LEFT) * at / most;
    let y = |rate: f64| BOTTOM - (BOTTOM - TOP) * rate;
    let mut svg =
        String::from("<svg viewBox=\"0 0 800 300\" role=\"img\" aria-label=\"resolved rate\">\n");
    for tenths in [0, 25, 50, 75, 100] {
        let at = y(f64::from(tenths) / 100.0);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" text-anchor=\"end\">{tenths}%</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    let mut tick_values = ats.clone();
    tick_values.sort_by(f64::total_cmp);
    tick_values.dedup();
    for at in tick_values {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" text-anchor=\"middle\">{}</text>",
            x(at),
            BOTTOM + 16.0,
            format_number(at)
        );
    }
    let mut arms: Vec<&ArmId> = Vec::new();
    for point in curve.points.iter().filter(|point| point.trials > 0) {
        if !arms.contains(&&point.arm) {
            arms.push(&point.arm);
        }
    }
    for (index, arm) in arms.into_iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        let points: Vec<&CurvePoint> =
            curve.points.iter().filter(|point| point.arm == *arm).collect();
        let line: Vec<String> = points
            .iter()
            .map(|point| format!("{:.1},{:.1}", x(point.at), y(point.resolved_rate)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
            line.join(" ")
        );
        for point in &points {
            let at = x(point.at);
            if let Some([lower, upper]) = point.interval {
                let _ = writeln!(
                    svg,
                    "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{color}\" \
                     stroke-opacity=\".45\"/>",
                    y(lower),
                    y(upper)
                );
            }
            let _ = writeln!(
                svg,
                "<circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{color}\"/>",
                y(point.resolved_rate)
            );
        }
        let name = points.first().map_or("", |point| point.name.as_str());
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\" fill=\"{color}\">{}</text>",
            RIGHT + 12.0,
            TOP + 14.0 + 18.0 * index as f64,
            escape_xml(name)
        );
    }
    svg.push_str("</svg>");
    svg
}

fn escape_xml(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}
