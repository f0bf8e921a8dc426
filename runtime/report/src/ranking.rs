//! Summarizes the comparisons of three or more arms in one sentence.

use proctor_types::{ArmId, count_with_noun, join_first_few};

use crate::{
    ArmReport, Comparison, Pair, Report, common_limit::LimitedRate, format::format_percent,
};

/// Returns which arm resolves the most, and whether it is clearly ahead of the others. If the arms'
/// limits differ, says so, with each arm's rate at the common step limit. If this limit changes which
/// arm is first or clearly ahead, the result at this limit comes first. `None` with fewer than three
/// arms, for which a headline says the same, or if no arm resolves a task.
pub fn ranking_sentence(report: &Report, comparison: &Comparison) -> Option<String> {
    let arms = report.arms_under_study();
    if arms.len() < 3 {
        return None;
    }
    // In these rates, missing verdicts count as failures. The pairs compare only graded trials, so
    // a pair may favor another arm.
    let rates = arms.into_iter().map(|arm| (arm, arm.resolved_rate)).collect();
    let own = Ranking::new(rates, |first, other| is_ahead(comparison, first, other, own_lead))?;
    if own.first.resolved == 0 {
        return None;
    }
    let name = |arm: &ArmReport| arm.name.clone();
    let differing =
        report.describe_differing_limits().map_or_else(String::new, |text| format!(" {text}."));
    let Some((steps, limited)) = report.rates_at_common_limit() else {
        return Some(own.describe("", own_rate_range, name) + &differing);
    };
    let limit = count_with_noun(steps, "step");
    let rates = limited.iter().map(|rate| (rate.arm, rate.lowest)).collect();
    let common = Ranking::new(rates, |first, other| {
        // An arm with a larger limit might adapt to this one, so no other arm is clearly ahead of it.
        let is_bound = limited.iter().any(|rate| rate.arm.arm == *other && rate.is_lower_bound);
        !is_bound && is_ahead(comparison, first, other, |pair| lead_within(pair, steps))
    })?;
    if limited.iter().all(|rate| rate.lowest == 0.0) {
        let own = own.describe("With their own limits, ", own_rate_range, name);
        return Some(format!(
            "No trial is known to resolve its task within {limit}. {own}{differing}"
        ));
    }
    if common.has_same_result(&own) {
        let rates: Vec<String> = limited
            .iter()
            .enumerate()
            .map(|(index, rate)| {
                let verb = if index == 0 { " resolves" } else { "" };
                format!("{}{verb} {}", rate.arm.name, rate.describe())
            })
            .collect();
        let own = own.describe("", own_rate_range, name);
        return Some(format!("{own}{differing} Within {limit}, {}.", rates.join(", ")));
    }
    let rate_of = |arm: &ArmReport| {
        let rate = limited.iter().find(|rate| rate.arm.arm == arm.arm);
        rate.map_or_else(String::new, LimitedRate::describe)
    };
    let labeled = |arm: &ArmReport| format!("{} ({})", arm.name, rate_of(arm));
    let common = common.describe(&format!("Within {limit}, "), rate_of, labeled);
    let own = own.describe("With their own limits, ", own_rate_range, name);
    Some(format!("{common} {own}{differing}"))
}

/// Formats an arm's rate. If verdicts are missing, formats the range of possible rates.
fn own_rate_range(arm: &ArmReport) -> String {
    let lowest = format_percent(arm.resolved_rate);
    match arm.complete {
        true => lowest,
        false => format!("{lowest} to {}", format_percent(arm.resolved_bounds.upper)),
    }
}

/// Whether the first arm resolves clearly more than the other. `lead_of` returns the difference of a
/// pair if it is clear.
fn is_ahead(
    comparison: &Comparison,
    first: &ArmId,
    other: &ArmId,
    lead_of: impl Fn(&Pair) -> Option<f64>,
) -> bool {
    let pair = comparison.pairs.iter().filter(|pair| pair.metric == "resolved").find(|pair| {
        let arms = [&pair.a_arm, &pair.b_arm];
        arms.contains(&first) && arms.contains(&other)
    });
    let lead = |pair: &Pair| {
        let difference = lead_of(pair)?;
        Some(if pair.a_arm == *first { difference } else { -difference })
    };
    pair.and_then(lead).is_some_and(|lead| lead > 0.0)
}

/// Returns the difference of a pair with the arms' own limits if it is clear.
fn own_lead(pair: &Pair) -> Option<f64> {
    pair.difference.filter(|_| pair.is_clear())
}

/// Returns the difference of a pair at a common step limit if it is clear.
fn lead_within(pair: &Pair, steps: u64) -> Option<f64> {
    let common = pair.common_limit.filter(|common| common.steps == steps)?;
    (common.clear == Some(true)).then_some(common.difference)
}

/// The arm that resolves the most, and the others by whether it is clearly ahead of them.
struct Ranking<'a> {
    first: &'a ArmReport,
    ahead_of: Vec<&'a ArmReport>,
    unclear: Vec<&'a ArmReport>,
}

impl<'a> Ranking<'a> {
    /// Returns `None` without arms.
    fn new(
        mut rates: Vec<(&'a ArmReport, f64)>,
        is_ahead: impl Fn(&ArmId, &ArmId) -> bool,
    ) -> Option<Self> {
        // The sort is stable, so equally good arms stay in plan order.
        rates.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let mut arms = rates.into_iter().map(|(arm, _)| arm);
        let first = arms.next()?;
        let (ahead_of, unclear) = arms.partition(|other| is_ahead(&first.arm, &other.arm));
        Some(Self { first, ahead_of, unclear })
    }

    /// Whether both rankings have the same first arm, which is clearly ahead of the same arms.
    fn has_same_result(&self, other: &Self) -> bool {
        let is_ahead_in_both =
            |arm: &&ArmReport| other.ahead_of.iter().any(|same| same.arm == arm.arm);
        self.first.arm == other.first.arm
            && self.ahead_of.len() == other.ahead_of.len()
            && self.ahead_of.iter().all(is_ahead_in_both)
    }

    /// Describes the ranking in a sentence that begins with `start`. `rate_of` formats the rate of the
    /// first arm, and `label_of` formats the others.
    fn describe(
        &self,
        start: &str,
        rate_of: impl Fn(&ArmReport) -> String,
        label_of: impl Fn(&ArmReport) -> String,
    ) -> String {
        let join = |arms: &[&ArmReport]| {
            let labels: Vec<String> = arms.iter().map(|arm| label_of(arm)).collect();
            (!labels.is_empty()).then(|| join_first_few(labels))
        };
        let (name, rate) = (&self.first.name, rate_of(self.first));
        match (join(&self.ahead_of), join(&self.unclear)) {
            (Some(ahead), None) => {
                format!("{start}{name} is first: it resolves {rate}, clearly more than {ahead}.")
            }
            (Some(ahead), Some(unclear)) => format!(
                "{start}{name} resolves the most ({rate}), clearly more than {ahead}, but not clearly more than {unclear}."
            ),
            (None, unclear) => format!(
                "{start}{} arm is clearly first: {name} resolves the most ({rate}), but not clearly more than {}.",
                if start.is_empty() { "No" } else { "no" },
                unclear.unwrap_or_default()
            ),
        }
    }
}
