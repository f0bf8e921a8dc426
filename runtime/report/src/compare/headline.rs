//! Summarizes a comparison in one line per pair of arms.

use proctor_statistics::ALPHA;
use proctor_types::count_with_noun;

use super::{
    comparison::{Comparison, Pair},
    limits::{differ_in_steps, limits_phrase},
    sentence::{
        common_limit_phrase, excluded_tasks_phrase, format_interval_end, format_metric_value,
        format_p_value, has_too_few_tasks, missing_verdicts_caveat, missing_verdicts_phrase,
        repository_phrase, tasks_needed_clause,
    },
    usage::usage_phrase,
};
use crate::{
    Report,
    format::{capitalize, format_dollars, format_percent},
};

/// The result for one pair of arms. The arm that resolves more comes first.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// For example `b resolves 4.2 points more than a (95% 0.5 to 7.9, 200 tasks) at 1.3 times the cost.`
    pub text: String,
    /// The rates, the p-value, and the number of excluded tasks.
    pub detail: String,
    /// Whether the arms differ in `resolved`, no matter what the missing verdicts are.
    pub is_distinguishable: bool,
    /// The difference in `resolved`, as a fraction; at least 0.
    pub difference: f64,
}

/// Returns one headline for each pair of arms that are not controls. Pairs that differ come first,
/// by decreasing difference; the others follow in plan order.
pub fn headlines(comparison: &Comparison) -> Vec<Headline> {
    headlines_with_escape(comparison, str::to_owned)
}

/// Like [`headlines`], but escapes each arm's name with `escape`.
pub fn headlines_with_escape(
    comparison: &Comparison,
    escape: impl Fn(&str) -> String,
) -> Vec<Headline> {
    let pairs = pairs_in_headline_order(&comparison.pairs).into_iter();
    pairs.filter_map(|metrics| build_headline(metrics, &escape)).collect()
}

/// Groups pairs by their two arms, in the order of the headlines. Each group has one entry per
/// metric.
pub fn pairs_in_headline_order(pairs: &[Pair]) -> Vec<&[Pair]> {
    let same_arms = |one: &Pair, next: &Pair| one.a_arm == next.a_arm && one.b_arm == next.b_arm;
    let mut groups: Vec<&[Pair]> = pairs.chunk_by(same_arms).collect();
    let size = |metrics: &[Pair]| {
        let resolved = metrics.iter().find(|pair| pair.metric == "resolved");
        let clear = resolved.filter(|pair| pair.is_clear());
        clear.and_then(|pair| pair.difference).map_or(-1.0, f64::abs)
    };
    // The sort is stable, so the other pairs keep their order.
    groups.sort_by(|one, other| size(other).total_cmp(&size(one)));
    groups
}

/// Whether the second arm of a pair resolves more tasks. Charts show such a pair in reverse order.
pub fn is_second_arm_better(resolved: &Pair) -> bool {
    resolved.difference.is_some_and(|difference| difference < 0.0)
}

/// Builds the headline from all metrics of one pair of arms.
fn build_headline(metrics: &[Pair], escape: &impl Fn(&str) -> String) -> Option<Headline> {
    let of = |name: &str| metrics.iter().find(|pair| pair.metric == name);
    let pair = of("resolved")?;
    let names = [escape(&pair.a), escape(&pair.b)];
    let [first, second] = better_arm_first(pair, names);
    let tasks = count_with_noun(pair.tasks, "shared task");
    let left_out = excluded_tasks_phrase(pair);
    let (Some(difference), Some(p)) = (pair.difference, pair.p_adjusted.or(pair.p_value)) else {
        return Some(Headline {
            text: format!("{first} and {second} have no shared tasks with verdicts for both."),
            detail: format!("{tasks}{left_out}."),
            is_distinguishable: false,
            difference: 0.0,
        });
    };
    let (distinguishable, clear) = (p < ALPHA, pair.is_clear());
    let interval = pair.interval_adjusted.or(pair.interval);
    let interval = interval.map_or_else(String::new, |[lower, upper]| {
        let ends =
            if is_second_arm_better(pair) { [0.0 - upper, 0.0 - lower] } else { [lower, upper] };
        let [lower, upper] = ends.map(|end| format_interval_end(pair, end, distinguishable));
        format!("95% {lower} to {upper}, ")
    });
    let used = match pair.tasks + pair.excluded {
        all if all == pair.tasks => count_with_noun(all, "task"),
        all => format!("{} of {}", pair.tasks, count_with_noun(all, "task")),
    };
    let basis = format!(" ({interval}{used})");
    let ratio = |metric: &str| {
        let ratio = of(metric)?.ratio.filter(|ratio| ratio.value > 0.0)?;
        if is_second_arm_better(pair) { ratio.inverse() } else { Some(ratio) }
    };
    let (cost, tokens) = (ratio("cost"), ratio("tokens"));
    // Equally good arms have no subject to which "at twice the cost" could refer.
    let names = (difference == 0.0).then_some([&first, &second]);
    let price = usage_phrase(pair, cost, tokens, names);
    let size = format_metric_value(pair, difference.abs());
    let verdict = match missing_verdicts_caveat(pair) {
        _ if clear => String::new(),
        Some(doubt) => format!("{}: ", capitalize(&doubt)),
        None if has_too_few_tasks(pair) => "Too few tasks to tell: ".to_owned(),
        None => "No clear difference: ".to_owned(),
    };
    let claim = match difference == 0.0 {
        true => format!("{first} and {second} resolve equally many tasks"),
        false => format!("{first} resolves {size} points more than {second}"),
    };
    let turned = is_second_arm_better(pair);
    let limits = limits_phrase(pair, turned);
    let common = common_limit_phrase(pair, turned, [&first, &second]);
    // With equal limits, the result at the limit of another arm is a detail.
    let (common, common_detail) = match (common, differ_in_steps(pair)) {
        (None, _) => (String::new(), String::new()),
        (Some(words), true) => (format!(" Within{words}."), String::new()),
        (Some(words), false) => (String::new(), format!("; within{words}")),
    };
    let text = format!("{verdict}{claim}{limits}{basis}{price}.{common}");
    let rates = pair.a_mean.zip(pair.b_mean).map_or_else(String::new, |(a, b)| {
        let [first, second] = better_arm_first(pair, [a, b]);
        format!("{} vs {} of ", format_percent(first), format_percent(second))
    });
    let adjusted = match pair.adjusted_for {
        ..=1 => String::new(),
        count => format!(", adjusted for {count} pairs"),
    };
    let needed = pair.tasks_needed.filter(|needed| !distinguishable && *needed > pair.tasks);
    let needed =
        needed.map_or_else(String::new, |tasks| format!("; {}", tasks_needed_clause(tasks)));
    let p = format_p_value(p);
    let by_repository = repository_phrase(pair, distinguishable);
    let bounds = missing_verdicts_phrase(pair, turned);
    let detail = format!(
        "{rates}{tasks}; {p}{adjusted}{needed}{common_detail}{by_repository}{bounds}{left_out}."
    );
    Some(Headline { text, detail, is_distinguishable: clear, difference: difference.abs() })
}

/// Puts the arm that resolves more first.
fn better_arm_first<T>(pair: &Pair, [a, b]: [T; 2]) -> [T; 2] {
    if is_second_arm_better(pair) { [b, a] } else { [a, b] }
}

/// Returns the headline of a report with one arm under study: the arm's score and cost per resolved
/// trial. Returns `None` if there are several arms.
pub fn single_arm_headline(report: &Report) -> Option<String> {
    let study = report.arms_under_study();
    let [arm] = study.as_slice() else { return None };
    let interval = arm.intervals.resolved_rate.map_or_else(String::new, |[lower, upper]| {
        format!(" (95% {:.1} to {:.1})", lower * 100.0, upper * 100.0)
    });
    let each = arm.per_resolved.and_then(|each| each.cost_usd);
    let each = each.map_or_else(String::new, |cost| {
        format!(" at {} per resolved trial", format_dollars(cost.value))
    });
    let (name, rate) = (&arm.name, format_percent(arm.resolved_rate));
    Some(format!(
        "{name} resolves {rate} of {}{interval}{each}.",
        count_with_noun(arm.trials, "trial")
    ))
}
