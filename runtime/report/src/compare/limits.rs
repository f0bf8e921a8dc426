//! Limits and prices that differ between two arms.

use proctor_types::{Arm, Budget};
use serde::{Deserialize, Serialize};

use super::comparison::Pair;
use crate::format::format_dollars;

/// A limit of each trial that differs between the arms of a pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitDifference {
    /// The limit's key in `[budget]`, such as `steps`.
    pub limit: String,
    /// Each arm's limit. Null if the arm has no such limit.
    pub a: Option<f64>,
    pub b: Option<f64>,
}

/// A kind of limit.
struct LimitKind {
    key: &'static str,
    /// The words after an amount. Empty for dollars, which have a sign instead.
    unit: &'static str,
    value: fn(&Budget) -> Option<f64>,
}

static LIMIT_KINDS: [LimitKind; 11] = [
    LimitKind { key: "steps", unit: " steps", value: |budget| count(budget.steps) },
    LimitKind {
        key: "main_steps",
        unit: " steps of the agent itself",
        value: |budget| count(budget.main_steps),
    },
    LimitKind {
        key: "input_tokens",
        unit: " input tokens",
        value: |budget| count(budget.input_tokens),
    },
    LimitKind {
        key: "output_tokens",
        unit: " output tokens",
        value: |budget| count(budget.output_tokens),
    },
    LimitKind { key: "total_tokens", unit: " tokens", value: |budget| count(budget.total_tokens) },
    LimitKind {
        key: "uncached_input_tokens",
        unit: " uncached input tokens",
        value: |budget| count(budget.uncached_input_tokens),
    },
    LimitKind { key: "cost_usd", unit: "", value: |budget| budget.cost_usd },
    LimitKind { key: "wall_seconds", unit: " s", value: |budget| budget.wall_seconds },
    LimitKind {
        key: "working_seconds",
        unit: " s of working time",
        value: |budget| budget.working_seconds,
    },
    LimitKind { key: "tool_seconds", unit: " s in tools", value: |budget| budget.tool_seconds },
    LimitKind {
        key: "command_seconds",
        unit: " s per command",
        value: |budget| budget.command_seconds,
    },
];

fn count(limit: Option<u64>) -> Option<f64> {
    limit.map(|limit| limit as f64)
}

/// Returns the limits that differ. Arms without a model have no steps, tokens or cost to limit, so
/// their limits are not compared.
pub(super) fn differing_limits(a: &Arm, b: &Arm) -> Vec<LimitDifference> {
    if a.model.is_none() || b.model.is_none() {
        return Vec::new();
    }
    let kinds =
        LIMIT_KINDS.iter().map(|kind| (kind, (kind.value)(&a.budget), (kind.value)(&b.budget)));
    kinds
        .filter(|(_, a, b)| a != b)
        .map(|(kind, a, b)| LimitDifference { limit: kind.key.to_owned(), a, b })
        .collect()
}

/// Returns the smaller step limit if the arms' step limits differ.
pub(super) fn common_step_limit(a: &Arm, b: &Arm) -> Option<u64> {
    if a.model.is_none() || b.model.is_none() || a.budget.steps == b.budget.steps {
        return None;
    }
    a.budget.steps.into_iter().chain(b.budget.steps).min()
}

/// Whether the arms' models have different prices.
pub(super) fn differ_in_price(a: &Arm, b: &Arm) -> bool {
    let models = a.model.as_ref().zip(b.model.as_ref());
    models.is_some_and(|(a, b)| a.price != b.price)
}

/// Describes the limits that differ, in the order of the arms: ` with limits of 30 and 8 steps`.
/// Empty if no limit differs. If `turned` is set, the second arm comes first.
pub(super) fn limits_phrase(pair: &Pair, turned: bool) -> String {
    let phrases: Vec<String> = pair
        .limits
        .iter()
        .map(|one| {
            let (first, second) = if turned { (one.b, one.a) } else { (one.a, one.b) };
            describe_limits(&one.limit, first, second)
        })
        .collect();
    if phrases.is_empty() { String::new() } else { format!(" with {}", phrases.join(" and ")) }
}

fn describe_limits(key: &str, first: Option<f64>, second: Option<f64>) -> String {
    let unit = LIMIT_KINDS.iter().find(|kind| kind.key == key).map_or("", |kind| kind.unit);
    let amount = |value: f64| match key {
        "cost_usd" => format_dollars(value),
        _ => format!("{value}"),
    };
    match (first, second) {
        (Some(first), Some(second)) => {
            format!("limits of {} and {}{unit}", amount(first), amount(second))
        }
        (Some(first), None) => format!("a limit of {}{unit} and no such limit", amount(first)),
        (None, Some(second)) => format!("no limit and a limit of {}{unit}", amount(second)),
        (None, None) => "equal limits".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::describe_limits;

    #[test]
    fn limits_are_described_in_order_with_their_unit() {
        for (key, first, second, words) in [
            ("steps", Some(30.0), Some(8.0), "limits of 30 and 8 steps"),
            ("cost_usd", Some(0.5), Some(2.0), "limits of $0.50 and $2.00"),
            ("wall_seconds", Some(900.0), Some(0.5), "limits of 900 and 0.5 s"),
            ("steps", Some(30.0), None, "a limit of 30 steps and no such limit"),
            ("total_tokens", None, Some(8000.0), "no limit and a limit of 8000 tokens"),
        ] {
            assert_eq!(describe_limits(key, first, second), words);
        }
    }
}
