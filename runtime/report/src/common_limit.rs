//! Resolved rates at the step limit that all arms have in common.

use crate::{ArmReport, Report, format::format_percent};

impl Report {
    /// If the step limits of the arms under study differ, returns each arm's resolved rate at the
    /// smallest of them, without a full stop: `Within 8 steps, a resolves 40.0%, b 30.0%`. A trial
    /// counts only if it took at most this many steps. `None` if the limits are equal, or if the
    /// steps of a resolved trial are unknown.
    pub fn describe_rates_at_common_limit(&self) -> Option<String> {
        let study = self.arms_under_study();
        let limits: Vec<Option<u64>> =
            study.iter().filter_map(|arm| arm.budget.as_ref()).map(|budget| budget.steps).collect();
        if limits.len() < study.len() || limits.windows(2).all(|pair| pair[0] == pair[1]) {
            return None;
        }
        let steps = limits.into_iter().flatten().min()?;
        let rates: Option<Vec<(&str, String)>> = study
            .iter()
            .map(|arm| {
                let rate = self.resolved_rate_within(arm, steps)?;
                Some((arm.name.as_str(), format_percent(rate)))
            })
            .collect();
        let rates: Vec<String> = rates?
            .into_iter()
            .enumerate()
            .map(|(index, (name, rate))| match index {
                0 => format!("{name} resolves {rate}"),
                _ => format!("{name} {rate}"),
            })
            .collect();
        Some(format!("Within {steps} steps, {}", rates.join(", ")))
    }

    /// Returns the fraction of an arm's planned trials that resolve their task in at most this many
    /// steps. `None` if the steps of a resolved trial are unknown.
    fn resolved_rate_within(&self, arm: &ArmReport, steps: u64) -> Option<f64> {
        let trials = self.tasks.iter().filter(|trial| trial.arm == arm.arm);
        let used: Option<Vec<u64>> = trials
            .filter(|trial| trial.resolved == Some(true))
            // A resolved trial has at least one step, so 0 means that the steps were not counted.
            .map(|trial| trial.steps.filter(|steps| *steps > 0))
            .collect();
        let within = used?.into_iter().filter(|used| *used <= steps).count();
        Some(within as f64 / arm.trials.max(1) as f64)
    }
}
