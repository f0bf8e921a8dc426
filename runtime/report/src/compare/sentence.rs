//! Describes a comparison in one sentence.

use proctor_statistics::ALPHA;
use proctor_types::{count_with_noun, noun_for_count};

use super::{comparison::Pair, limits::limits_phrase};
use crate::format::format_percent;

/// The smallest p-value of a comparison of `tasks` tasks, if every task favors the same arm, is
/// `2 * 0.5^tasks`.
fn smallest_p_value(tasks: u64) -> f64 {
    2.0 * 0.5_f64.powf(tasks as f64)
}

impl Pair {
    /// Returns the sentence with the arms' names escaped by `escape`, so that formats with markup
    /// don't parse the names as markup.
    pub fn sentence_with_escape(&self, escape: impl Fn(&str) -> String) -> String {
        sentence(&Self { a: escape(&self.a), b: escape(&self.b), ..self.clone() })
    }
}

/// Describes a pair: `a resolves 4.2 points more than b on 200 shared tasks, 95% interval -0.5 to
/// 8.9, p = 0.14: not distinguishable; 610 tasks would be needed to detect a difference of this
/// size.`
///
/// If there are several pairs, the sentence contains the adjusted interval and p-value, so that its
/// conclusion agrees with its numbers.
pub(super) fn sentence(pair: &Pair) -> String {
    let excluded = excluded_tasks_phrase(pair);
    let (Some(difference), Some(p)) = (pair.difference, pair.p_adjusted.or(pair.p_value)) else {
        return format!(
            "{} and {} have no shared tasks with verdicts for both{excluded}.",
            pair.a, pair.b
        );
    };
    let claim = difference_phrase(pair, difference);
    let limits = limits_phrase(pair, false);
    let tasks = format!("{} shared {}", pair.tasks, noun_for_count(pair.tasks, "task"));
    let interval = pair.interval_adjusted.or(pair.interval);
    let interval_text = interval.map_or_else(String::new, |ends| {
        let [lower, upper] = ends.map(|end| format_interval_end(pair, end, p < ALPHA));
        format!(", 95% interval {lower} to {upper}")
    });
    let adjusted = match (pair.adjusted_for, interval) {
        (..=1, _) => String::new(),
        (count, Some(_)) => format!(", both adjusted for {count} pairs"),
        (count, None) => format!(", adjusted for {count} pairs"),
    };
    let end = match (missing_verdicts_caveat(pair), p < ALPHA) {
        (Some(doubt), _) => doubt,
        (None, true) => "distinguishable".to_owned(),
        (None, false) if has_too_few_tasks(pair) => {
            "not distinguishable, too few tasks to tell".to_owned()
        }
        (None, false) => format!("not distinguishable{}", needed_tasks_phrase(pair)),
    };
    let prices = match pair.prices_differ && pair.metric == "cost" {
        true => "; the prices of their models differ",
        false => "",
    };
    let common = common_limit_phrase(pair, false, [&pair.a, &pair.b])
        .map_or_else(String::new, |words| format!("; within{words}"));
    let repository = repository_phrase(pair, p < ALPHA);
    let missing = missing_verdicts_phrase(pair, false);
    format!(
        "{claim}{limits} on {tasks}{interval_text}, {}{adjusted}: {end}{prices}{common}{repository}{missing}{excluded}.",
        format_p_value(p)
    )
}

/// Whether the comparison has so few tasks that no result could be significant.
pub(super) fn has_too_few_tasks(pair: &Pair) -> bool {
    smallest_p_value(pair.tasks) >= ALPHA
}

/// If the graded trials show a difference, but the missing verdicts could hide it, says so. The
/// sentence has no full stop.
pub(super) fn missing_verdicts_caveat(pair: &Pair) -> Option<String> {
    let missing = pair.missing_verdicts?;
    if pair.distinguishable != Some(true) || missing.is_difference_certain {
        return None;
    }
    let verdicts = match missing.trials {
        1 => "the missing verdict".to_owned(),
        count => format!("the {count} missing verdicts"),
    };
    Some(format!(
        "the graded trials show a difference, but it would not be clear if {verdicts} went the other \
         way (worst-case {})",
        format_p_value(missing.p_adjusted.unwrap_or(missing.p_value))
    ))
}

/// Describes the result at a common step limit, after the word "within": ` 8 steps, a resolves at
/// least 40.0% and b 30.0%: no clear difference (95% -5.0 to 25.0)`. The names are in the order in
/// which the arms are shown.
pub(super) fn common_limit_phrase(
    pair: &Pair,
    turned: bool,
    [first, second]: [&String; 2],
) -> Option<String> {
    let common = pair.common_limit?;
    let (a, b) = common.a_mean.zip(common.b_mean)?;
    let rate = |rate: f64, is_lower_bound: bool| match is_lower_bound {
        true => format!("at least {}", format_percent(rate)),
        false => format_percent(rate),
    };
    let (a, b) = (rate(a, common.is_a_lower_bound), rate(b, common.is_b_lower_bound));
    let (first_rate, second_rate) = if turned { (b, a) } else { (a, b) };
    // An arm with a larger limit might resolve more tasks if it had to adapt to this one.
    let is_a_better = common.difference > 0.0;
    let (worse, is_lower_bound) = match is_a_better {
        true => (if turned { first } else { second }, common.is_b_lower_bound),
        false => (if turned { second } else { first }, common.is_a_lower_bound),
    };
    let verdict = match (common.clear, is_lower_bound) {
        (Some(true), false) => "a clear difference".to_owned(),
        (Some(true), true) => format!("a clear difference unless {worse} adapts to this limit"),
        _ => "no clear difference".to_owned(),
    };
    let interval = common.interval_adjusted.or(common.interval);
    let interval = interval.map_or_else(String::new, |[lower, upper]| {
        let ends = if turned { [0.0 - upper, 0.0 - lower] } else { [lower, upper] };
        let [lower, upper] =
            ends.map(|end| format_interval_end(pair, end, common.clear == Some(true)));
        format!(" (95% {lower} to {upper})")
    });
    Some(format!(
        " {}, {first} resolves {first_rate} and {second} {second_rate}: {verdict}{interval}",
        count_with_noun(common.steps, "step"),
    ))
}

/// If an analysis that resamples whole repositories leads to a different conclusion, describes its
/// result. Otherwise, returns an empty string. The conclusions may differ because tasks in the same
/// repository resemble each other.
pub(super) fn repository_phrase(pair: &Pair, distinguishable: bool) -> String {
    let Some(by) = pair.by_repository.filter(|by| by.changes_conclusion) else {
        return String::new();
    };
    let repositories = count_with_noun(by.repositories, "repository");
    let p = format_p_value(by.p_adjusted.unwrap_or(by.p_value));
    match distinguishable {
        true => format!(
            "; when whole {repositories} are resampled, {p}, so the difference may not hold in other repositories"
        ),
        false => format!("; when whole {repositories} are resampled, {p}"),
    }
}

/// If verdicts are missing, describes the possible differences over all tasks. Otherwise, returns an
/// empty text. If `turned` is set, the differences are b - a.
pub(super) fn missing_verdicts_phrase(pair: &Pair, turned: bool) -> String {
    let Some(missing) = &pair.missing_verdicts else { return String::new() };
    let [lower, upper] = missing.difference;
    let ends = if turned { [0.0 - upper, 0.0 - lower] } else { [lower, upper] };
    let [lower, upper] = ends.map(|end| format_metric_value(pair, end));
    let verdicts = count_with_noun(missing.trials, "missing verdict");
    let tasks = count_with_noun(missing.tasks, "task");
    format!("; with the {verdicts}, the difference on {tasks} is from {lower} to {upper} points")
}

/// Formats one end of an interval. Nonzero values are not rounded to 0 if that would contradict the
/// sentence.
pub(super) fn format_interval_end(pair: &Pair, end: f64, distinguishable: bool) -> String {
    let text = format_metric_value(pair, end);
    let is_zero = text.parse::<f64>().is_ok_and(|shown| shown == 0.0);
    if !distinguishable || !is_zero || end == 0.0 {
        return text;
    }
    let scale =
        if matches!(pair.metric.as_str(), "resolved" | "passed_rate") { 100.0 } else { 1.0 };
    // Use enough digits so that the value does not appear as 0.
    let shown = (2..=12)
        .map(|digits| format!("{:.digits$}", end * scale))
        .find(|text| text.parse::<f64>().is_ok_and(|shown| shown != 0.0));
    shown.unwrap_or_else(|| if end > 0.0 { "above 0".to_owned() } else { "below 0".to_owned() })
}

fn difference_phrase(pair: &Pair, difference: f64) -> String {
    let (a, b) = (&pair.a, &pair.b);
    let more = if difference < 0.0 { "less" } else { "more" };
    let size = format_metric_value(pair, difference.abs());
    let none = difference == 0.0;
    match pair.metric.as_str() {
        "resolved" if none => format!("{a} resolves as many tasks as {b}"),
        "resolved" => format!("{a} resolves {size} points {more} than {b}"),
        "passed_rate" if none => format!("{a} passes as many F2P tests as {b}"),
        "passed_rate" => format!("{a} passes {size} points {more} of the F2P tests than {b}"),
        "cost" if none => format!("{a} costs as much per trial as {b}"),
        "cost" => format!("{a} costs ${size} {more} per trial than {b}"),
        unit if none => format!("{a} uses as many {unit} per trial as {b}"),
        unit => {
            let fewer = if difference < 0.0 { "fewer" } else { "more" };
            let unit = if size == "1" { unit.trim_end_matches('s') } else { unit };
            format!("{a} uses {size} {fewer} {unit} per trial than {b}")
        }
    }
}

/// Returns a phrase with the number of tasks needed to detect a difference of this size, or with
/// the smallest difference that could have been detected.
fn needed_tasks_phrase(pair: &Pair) -> String {
    if let Some(tasks) = pair.tasks_needed.filter(|tasks| *tasks > pair.tasks) {
        return format!("; {}", tasks_needed_clause(tasks));
    }
    match pair.smallest_visible {
        Some(least) if pair.difference == Some(0.0) => {
            let least = format_metric_value(pair, least);
            let unit = match pair.metric.as_str() {
                "resolved" | "passed_rate" => " points",
                "cost" => " dollars",
                unit => return format!("; differences below {least} {unit} could not be detected"),
            };
            format!("; differences below {least}{unit} could not be detected")
        }
        _ => String::new(),
    }
}

/// Says how many tasks are needed to detect a difference of the observed size.
pub(super) fn tasks_needed_clause(tasks: u64) -> String {
    format!("{tasks} tasks would be needed to detect a difference of this size")
}

pub(super) fn excluded_tasks_phrase(pair: &Pair) -> String {
    if pair.excluded == 0 {
        return String::new();
    }
    let by = pair.excluded_by;
    let parts = [
        (by.without_verdict, "without a verdict for one of the arms"),
        (by.not_shared, "run by only one arm"),
        (by.revised, "with different revisions"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{count} {why}"))
        .collect();
    format!("; {} excluded: {}", count_with_noun(pair.excluded, "task"), parts.join(", "))
}

/// Formats a value. Rates are converted to percentage points, and amounts are unchanged.
pub(super) fn format_metric_value(pair: &Pair, value: f64) -> String {
    // Add zero so that sentences never contain -0.0.
    match pair.metric.as_str() {
        "resolved" | "passed_rate" => format!("{:.1}", (value * 1000.0).round() / 10.0 + 0.0),
        "cost" => format!("{:.4}", (value * 1e4).round() / 1e4 + 0.0),
        "steps" => format!("{:.1}", (value * 10.0).round() / 10.0 + 0.0),
        _ => format!("{:.0}", value.round() + 0.0),
    }
}

/// Formats a p-value with its name: `p = 0.14`, `p < 0.0001`.
pub(super) fn format_p_value(p: f64) -> String {
    if p < 0.0001 {
        return "p < 0.0001".into();
    }
    if p >= 0.1 {
        return format!("p = {p:.2}");
    }
    // Use more digits for a value close to the significance level, so that rounding does not move
    // the value onto the level or across it.
    let texts = (4..=12).map(|digits| format!("{p:.digits$}"));
    let is_told = |text: &String| {
        text.parse::<f64>().is_ok_and(|shown| shown != ALPHA && (shown < ALPHA) == (p < ALPHA))
    };
    let shown = texts.clone().find(is_told).or_else(|| texts.clone().next()).unwrap_or_default();
    format!("p = {shown}")
}

#[cfg(test)]
mod tests {
    use super::{ALPHA, format_p_value, smallest_p_value};

    #[test]
    fn six_tasks_are_the_fewest_that_can_show_a_difference() {
        assert!(smallest_p_value(5) >= ALPHA && smallest_p_value(6) < ALPHA);
        assert_eq!(smallest_p_value(1), 1.0);
    }

    #[test]
    fn p_value_near_alpha_is_not_rounded_to_alpha() {
        for (p, said) in [
            (0.04999, "p = 0.04999"),
            (0.050001, "p = 0.050001"),
            (0.0312, "p = 0.0312"),
            (0.05, "p = 0.0500"),
            (0.14, "p = 0.14"),
            (1e-9, "p < 0.0001"),
        ] {
            assert_eq!(format_p_value(p), said);
        }
    }
}
