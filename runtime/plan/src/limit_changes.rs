//! Describes changes to the limits that trials share, for the run's record.

use proctor_types::{Arm, SharedLimits};
use serde_json::{Map, Value};

/// Describes every shared limit that differs between two versions of a plan's arms, once each:
/// `changed budget.run.cost_usd from 1.0 to 10.0`. New arms are ignored.
pub(crate) fn describe_limit_changes(before: &[Arm], after: &[Arm]) -> Vec<String> {
    let mut changes: Vec<String> = Vec::new();
    for new in after {
        let Some(old) = before.iter().find(|old| old.id == new.id) else { continue };
        let of_run = compare_limits("run", old.budget.run, new.budget.run);
        let of_arm = compare_limits("arm", old.budget.arm, new.budget.arm);
        for change in of_run.into_iter().chain(of_arm) {
            if !changes.contains(&change) {
                changes.push(change);
            }
        }
    }
    changes
}

fn compare_limits(
    scope: &str,
    before: Option<SharedLimits>,
    after: Option<SharedLimits>,
) -> Vec<String> {
    let (before, after) = (limit_fields(before), limit_fields(after));
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    let keys = after.keys().chain(removed);
    let change = |key: &String| match (before.get(key), after.get(key)) {
        (old, new) if old == new => None,
        (Some(old), Some(new)) => Some(format!("changed budget.{scope}.{key} from {old} to {new}")),
        (None, Some(new)) => Some(format!("set budget.{scope}.{key} to {new}")),
        (Some(old), None) => Some(format!("removed budget.{scope}.{key}, which was {old}")),
        (None, None) => None,
    };
    keys.filter_map(change).collect()
}

/// Returns the limits that are set, by their configuration key.
fn limit_fields(limits: Option<SharedLimits>) -> Map<String, Value> {
    match limits.map(serde_json::to_value) {
        Some(Ok(Value::Object(fields))) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compare_limits_names_the_key_and_both_values() {
        let cost = |cost_usd| Some(SharedLimits { cost_usd: Some(cost_usd), ..Default::default() });
        let steps = Some(SharedLimits { steps: Some(40), ..Default::default() });
        for (before, after, expected) in [
            (cost(1.0), cost(10.0), vec!["changed budget.run.cost_usd from 1.0 to 10.0"]),
            (None, cost(2.5), vec!["set budget.run.cost_usd to 2.5"]),
            (steps, None, vec!["removed budget.run.steps, which was 40"]),
            (
                steps,
                cost(1.0),
                vec!["set budget.run.cost_usd to 1.0", "removed budget.run.steps, which was 40"],
            ),
            (cost(1.0), cost(1.0), vec![]),
            (None, None, vec![]),
        ] {
            assert_eq!(compare_limits("run", before, after), expected, "{before:?} {after:?}");
        }
    }
}
