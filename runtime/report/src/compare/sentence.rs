//! What a comparison says, in one sentence.

use proctor_statistics::ALPHA;
use proctor_types::{noun_of, plural};

use super::pairs::Pair;

impl Pair {
    /// The sentence with the arms' names written otherwise: in a format where a name must not be markup.
    pub fn sentence_with(&self, written: impl Fn(&str) -> String) -> String {
        sentence(&Self { a: written(&self.a), b: written(&self.b), ..self.clone() })
    }
}

/// `a resolves 4.2 points more than b on 200 shared tasks, 95 % interval -0.5 to 8.9, p = 0.14: not
/// distinguishable; 610 tasks would be needed.`
pub(super) fn sentence(pair: &Pair) -> String {
    let excluded = excluded(pair);
    let (Some(difference), Some(p)) = (pair.difference, pair.p_adjusted.or(pair.p_value)) else {
        return format!(
            "{} and {} share no task on which both have verdicts{excluded}.",
            pair.a, pair.b
        );
    };
    let claim = claim(pair, difference);
    let tasks = format!("{} shared {}", pair.tasks, noun_of(pair.tasks, "task"));
    let interval = pair.interval.map_or_else(String::new, |[lower, upper]| {
        let (lower, upper) = (number(pair, lower), number(pair, upper));
        format!(", 95 % interval {lower} to {upper}")
    });
    let end = if p < ALPHA {
        "distinguishable".to_owned()
    } else {
        format!("not distinguishable{}", needed(pair))
    };
    format!("{claim} on {tasks}{interval}, p = {}: {end}{excluded}.", probability(p))
}

fn claim(pair: &Pair, difference: f64) -> String {
    let (a, b) = (&pair.a, &pair.b);
    let more = if difference < 0.0 { "less" } else { "more" };
    let size = number(pair, difference.abs());
    let none = difference == 0.0;
    match pair.metric.as_str() {
        "resolved" if none => format!("{a} resolves as much as {b}"),
        "resolved" => format!("{a} resolves {size} points {more} than {b}"),
        "passed_rate" if none => format!("{a} passes as many F2P tests as {b}"),
        "passed_rate" => format!("{a} passes {size} points {more} of the F2P tests than {b}"),
        "cost" if none => format!("{a} costs as much a trial as {b}"),
        "cost" => format!("{a} costs ${size} {more} a trial than {b}"),
        unit if none => format!("{a} uses as many {unit} a trial as {b}"),
        unit => {
            let fewer = if difference < 0.0 { "fewer" } else { "more" };
            let unit = if size == "1" { unit.trim_end_matches('s') } else { unit };
            format!("{a} uses {size} {fewer} {unit} a trial than {b}")
        }
    }
}

/// What it would take to see a difference like this one, or the smallest that could have been seen.
fn needed(pair: &Pair) -> String {
    if let Some(tasks) = pair.tasks_needed.filter(|tasks| *tasks > pair.tasks) {
        return format!("; {tasks} tasks would be needed");
    }
    match pair.smallest_visible {
        Some(least) if pair.difference == Some(0.0) => {
            let least = number(pair, least);
            let unit = match pair.metric.as_str() {
                "resolved" | "passed_rate" => " points",
                "cost" => " dollars",
                unit => return format!("; a difference under {least} {unit} would not be visible"),
            };
            format!("; a difference under {least}{unit} would not be visible")
        }
        _ => String::new(),
    }
}

fn excluded(pair: &Pair) -> String {
    if pair.excluded == 0 {
        return String::new();
    }
    let by = pair.excluded_by;
    let parts = [
        (by.without_verdict, "without a verdict in every trial"),
        (by.not_shared, "given to one arm only"),
        (by.revised, "in different revisions"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{count} {why}"))
        .collect();
    format!("; {} excluded: {}", plural(pair.excluded, "task"), parts.join(", "))
}

/// Shares in points, amounts as they are.
fn number(pair: &Pair, value: f64) -> String {
    // Plus zero: no sentence should say -0.0.
    match pair.metric.as_str() {
        "resolved" | "passed_rate" => format!("{:.1}", (value * 1000.0).round() / 10.0 + 0.0),
        "cost" => format!("{:.4}", (value * 1e4).round() / 1e4 + 0.0),
        "steps" => format!("{:.1}", (value * 10.0).round() / 10.0 + 0.0),
        _ => format!("{:.0}", value.round() + 0.0),
    }
}

fn probability(p: f64) -> String {
    if p < 0.0001 {
        return "under 0.0001".into();
    }
    // What is just above the level must not read as the level.
    if p < 0.1 { format!("{p:.4}") } else { format!("{p:.2}") }
}
