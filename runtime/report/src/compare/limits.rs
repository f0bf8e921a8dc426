//! Limits and prices that differ between two arms.

use proctor_types::{Arm, Budget};
use serde::{Deserialize, Serialize};

use super::comparison::Pair;
use crate::{common_limit::smallest_differing_limit, format::format_dollars};

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

const STEPS_KEY: &str = "steps";

static LIMIT_KINDS: [LimitKind; 11] = [
    LimitKind { key: STEPS_KEY, unit: " steps", value: |budget| count(budget.steps) },
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

/// Returns the smallest step limit if the arms' step limits differ. Arms without a model have no
/// steps to limit, so they are left out.
pub(super) fn common_step_limit<'a>(arms: impl IntoIterator<Item = &'a Arm>) -> Option<u64> {
    let with_model = arms.into_iter().filter(|arm| arm.model.is_some());
    smallest_differing_limit(with_model.map(|arm| arm.budget.steps))
}

/// A step limit at which a pair is compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepLimit {
    pub(super) steps: u64,
    /// Whether each arm's own limit is larger.
    pub(super) is_below_own: [bool; 2],
}

impl StepLimit {
    /// Returns `None` if one of the arms has no model.
    pub(super) fn from_arms(steps: u64, a: &Arm, b: &Arm) -> Option<Self> {
        let has_models = a.model.is_some() && b.model.is_some();
        let is_below_own = [a, b].map(|arm| arm.budget.steps != Some(steps));
        has_models.then_some(Self { steps, is_below_own })
    }
}

/// Whether the step limits of a pair's arms differ.
pub(super) fn differ_in_steps(pair: &Pair) -> bool {
    pair.limits.iter().any(|one| one.limit == STEPS_KEY)
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
    use proctor_types::Arm;

    use super::{StepLimit, common_step_limit, describe_limits};

    fn arm(steps: Option<u64>, has_model: bool) -> Arm {
        let model = serde_json::json!({ "base_url": "https://model.example/v1", "name": "m" });
        serde_json::from_value(serde_json::json!({
            "id": "", "name": "a", "scaffold": "tools", "model": has_model.then_some(model),
            "budget": { "steps": steps }, "network": {}, "prompts": null, "settings": null,
            "sandbox": { "kind": "native", "cpus": 1.0, "memory_mb": 512 },
        }))
        .unwrap()
    }

    #[test]
    fn common_step_limit_is_the_smallest_limit_of_arms_with_a_model() {
        let [long, short, none] = [Some(30), Some(8), None].map(|steps| arm(steps, true));
        let without_model = arm(Some(1), false);
        for (arms, limit) in [
            (vec![&long, &long, &short], Some(8)),
            (vec![&long, &none], Some(30)),
            (vec![&long, &long], None),
            (vec![&none, &none], None),
            (vec![&long, &without_model], None),
        ] {
            assert_eq!(common_step_limit(arms), limit);
        }
        let limit = StepLimit::from_arms(8, &none, &short).unwrap();
        assert_eq!((limit.steps, limit.is_below_own), (8, [true, false]));
        assert!(StepLimit::from_arms(8, &short, &without_model).is_none());
    }

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
