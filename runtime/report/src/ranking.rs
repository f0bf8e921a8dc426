//! Summarizes the comparisons of three or more arms in one sentence.

use proctor_types::join_first_few;

use crate::{ArmReport, Comparison, Pair, Report, format::format_percent};

/// Returns which arm resolves the most, and whether it is clearly ahead of the others. If the arms'
/// limits differ, says so, with each arm's rate at the common step limit. `None` with fewer than
/// three arms, for which a headline says the same, or if no arm resolves a task.
pub fn ranking_sentence(report: &Report, comparison: &Comparison) -> Option<String> {
    let mut arms = report.arms_under_study();
    if arms.len() < 3 {
        return None;
    }
    // In these rates, missing verdicts count as failures. The pairs compare only graded trials, so
    // a pair may favor another arm. The sort is stable, so equally good arms stay in plan order.
    arms.sort_by(|one, other| other.resolved_rate.total_cmp(&one.resolved_rate));
    let (first, others) = arms.split_first()?;
    if first.resolved == 0 {
        return None;
    }
    let is_ahead_in = |pair: &Pair| {
        let difference = pair.difference.unwrap_or_default();
        let lead = if pair.a_arm == first.arm { difference } else { -difference };
        pair.is_clear() && lead > 0.0
    };
    let (ahead, unclear): (Vec<&ArmReport>, Vec<&ArmReport>) = others.iter().partition(|other| {
        let pair = comparison.pairs.iter().filter(|pair| pair.metric == "resolved").find(|pair| {
            let arms = [&pair.a_arm, &pair.b_arm];
            arms.contains(&&first.arm) && arms.contains(&&other.arm)
        });
        pair.is_some_and(is_ahead_in)
    });
    let [ahead, unclear] = [ahead, unclear].map(|arms| -> Option<String> {
        let names: Vec<String> = arms.iter().map(|arm| arm.name.clone()).collect();
        (!names.is_empty()).then(|| join_first_few(names))
    });
    let (name, rate) = (&first.name, format_percent(first.resolved_rate));
    let sentence = match (ahead, unclear) {
        (Some(ahead), None) => {
            format!("{name} is first: it resolves {rate}, clearly more than {ahead}.")
        }
        (Some(ahead), Some(unclear)) => format!(
            "{name} resolves the most ({rate}), clearly more than {ahead}, but not clearly more than {unclear}."
        ),
        (None, unclear) => format!(
            "No arm is clearly first: {name} resolves the most ({rate}), but not clearly more than {}.",
            unclear.unwrap_or_default()
        ),
    };
    let caveats = [report.describe_differing_limits(), report.describe_rates_at_common_limit()];
    let caveats: String =
        caveats.into_iter().flatten().map(|caveat| format!(" {caveat}.")).collect();
    Some(sentence + &caveats)
}
