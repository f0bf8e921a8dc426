//! Resolved rates at the step limit that all arms have in common.

use std::collections::BTreeSet;

use proctor_types::count_with_noun;

use crate::{ArmReport, Report, format::format_percent};

/// Returns the smallest of several limits. `None` if all are equal.
pub(crate) fn smallest_differing_limit(
    limits: impl IntoIterator<Item = Option<u64>>,
) -> Option<u64> {
    let limits: BTreeSet<Option<u64>> = limits.into_iter().collect();
    if limits.len() < 2 { None } else { limits.into_iter().flatten().min() }
}

/// An arm's resolved rate at a step limit: a trial counts only if it took at most this many steps.
#[derive(Debug, Clone)]
pub(crate) struct LimitedRate<'a> {
    pub(crate) arm: &'a ArmReport,
    /// The rate if no missing verdict is a success.
    pub(crate) lowest: f64,
    /// The rate if every missing verdict is a success.
    highest: f64,
    /// Whether the arm's own limit is larger. The arm might then resolve more tasks if it had to
    /// adapt to the smaller limit.
    pub(crate) is_lower_bound: bool,
}

impl LimitedRate<'_> {
    /// Formats the rate: `30.0%`, `at least 40.0%`, or `34.7% to 52.1% with 58 missing verdicts`.
    pub(crate) fn describe(&self) -> String {
        let lowest = format_percent(self.lowest);
        match self.arm.trials - self.arm.graded {
            _ if self.is_lower_bound => format!("at least {lowest}"),
            0 => lowest,
            missing => {
                let verdicts = count_with_noun(missing, "missing verdict");
                format!("{lowest} to {} with {verdicts}", format_percent(self.highest))
            }
        }
    }
}

impl Report {
    /// If the step limits of the arms under study differ, returns the smallest of them, and each
    /// arm's rate at this limit. `None` if the limits are equal, or if the steps of a resolved trial
    /// are unknown.
    pub(crate) fn rates_at_common_limit(&self) -> Option<(u64, Vec<LimitedRate<'_>>)> {
        let study = self.arms_under_study();
        let limits: Vec<Option<u64>> =
            study.iter().filter_map(|arm| arm.budget.as_ref()).map(|budget| budget.steps).collect();
        if limits.len() < study.len() {
            return None;
        }
        let steps = smallest_differing_limit(limits.iter().copied())?;
        let rates: Option<Vec<LimitedRate<'_>>> = study
            .into_iter()
            .zip(limits)
            .map(|(arm, limit)| self.rate_within(arm, steps, limit != Some(steps)))
            .collect();
        Some((steps, rates?))
    }

    /// Returns an arm's rate at a step limit. `None` if the steps of a resolved trial are unknown.
    fn rate_within<'a>(
        &'a self,
        arm: &'a ArmReport,
        steps: u64,
        is_lower_bound: bool,
    ) -> Option<LimitedRate<'a>> {
        let trials = self.tasks.iter().filter(|trial| trial.arm == arm.arm);
        let used: Option<Vec<u64>> = trials
            .filter(|trial| trial.resolved == Some(true))
            // A resolved trial has at least one step, so 0 means that the steps were not counted.
            .map(|trial| trial.steps.filter(|steps| *steps > 0))
            .collect();
        let within = used?.into_iter().filter(|used| *used <= steps).count() as u64;
        let rate = |resolved: u64| resolved as f64 / arm.trials.max(1) as f64;
        let highest = rate(within + (arm.trials - arm.graded));
        Some(LimitedRate { arm, lowest: rate(within), highest, is_lower_bound })
    }
}
