//! Describes what the first arm of a headline used, relative to the second.

use super::{comparison::Pair, sentence::has_too_few_tasks};
use crate::{
    Ratio,
    format::{format_ratio, format_ratio_interval},
};

/// Describes the cost ratio, or the token ratio if the cost is unknown. If the prices differ, describes
/// both. A ratio that may be 1, or that rests on too few tasks, is not stated. If `names` is given, the
/// phrase names the arms.
pub(super) fn usage_phrase(
    pair: &Pair,
    cost: Option<Ratio>,
    tokens: Option<Ratio>,
    names: Option<[&String; 2]>,
) -> String {
    let is_clear = |ratio: Ratio| !has_too_few_tasks(pair) && excludes_one(ratio);
    // The tables have the totals of all tasks, whose ratio may be another.
    let basis = match pair.excluded > 0 || pair.missing_verdicts.is_some() {
        true => " on the shared tasks",
        false => "",
    };
    let (name_first, name_second) = match names {
        None => (String::new(), String::new()),
        Some([first, second]) => (format!("; {first}"), format!(" of {second}")),
    };
    match (cost, tokens) {
        (None, None) => String::new(),
        (Some(cost), _) if !is_clear(cost) => unclear_phrase("cost", cost),
        (None, Some(tokens)) if !is_clear(tokens) => unclear_phrase("token", tokens),
        (Some(cost), tokens) => {
            let interval = interval_phrase(cost);
            let ratio = match format_ratio(cost.value).as_str() {
                "1.0" => format!(" at the same cost{basis}{interval}"),
                times => {
                    format!("{name_first} at {times} times the cost{name_second}{basis}{interval}")
                }
            };
            let more = match tokens {
                _ if !pair.prices_differ => String::new(),
                None => ", at different prices".to_owned(),
                Some(tokens) if is_clear(tokens) => {
                    format!(" and with {}, at different prices", token_count(tokens, ""))
                }
                Some(tokens) => {
                    format!(", at different prices{}", unclear_phrase("token", tokens))
                }
            };
            ratio + &more
        }
        (None, Some(tokens)) if format_ratio(tokens.value) == "1.0" => {
            format!(" with as many tokens{basis}{}", interval_phrase(tokens))
        }
        (None, Some(tokens)) => {
            format!("{name_first} with {}", token_count(tokens, &(name_second + basis)))
        }
    }
}

/// Whether a ratio's interval shows that the ratio is not 1. Without an interval, all tasks have the
/// same ratio.
fn excludes_one(ratio: Ratio) -> bool {
    match (ratio.lower, ratio.upper) {
        (None, _) => true,
        (Some(lower), upper) => lower > 1.0 || upper.is_some_and(|upper| upper < 1.0),
    }
}

/// Formats a token ratio: `1.3 times the tokens (95% 1.1 to 1.4)`. `suffix` follows the word "tokens".
fn token_count(tokens: Ratio, suffix: &str) -> String {
    let interval = interval_phrase(tokens);
    match format_ratio(tokens.value).as_str() {
        "1.0" => format!("as many tokens{suffix}{interval}"),
        times => format!("{times} times the tokens{suffix}{interval}"),
    }
}

/// Says that a ratio is not known well enough. Empty if the data does not bound it.
fn unclear_phrase(quantity: &str, ratio: Ratio) -> String {
    let interval = interval_phrase(ratio);
    if interval.is_empty() { interval } else { format!("; {quantity} ratio unclear{interval}") }
}

fn interval_phrase(ratio: Ratio) -> String {
    format_ratio_interval(ratio).map_or_else(String::new, |ends| format!(" (95% {ends})"))
}
