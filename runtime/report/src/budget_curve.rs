//! Budget curves: the fraction of trials that are resolved, as a function of usage. They are
//! computed from existing verdicts, so nothing is graded again.

use proctor_types::ArmId;

use crate::{ArmReport, Report, TaskReport};

/// The quantity that a budget limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageKind {
    Steps,
    /// Input and output tokens.
    Tokens,
    /// US dollars.
    Cost,
}

impl UsageKind {
    pub const ALL: [Self; 3] = [Self::Steps, Self::Tokens, Self::Cost];

    fn amount_used(self, trial: &TaskReport) -> Option<f64> {
        match self {
            Self::Steps => trial.steps.map(|steps| steps as f64),
            Self::Tokens => {
                trial.spent.as_ref().map(|spent| (spent.input_tokens + spent.output_tokens) as f64)
            }
            Self::Cost => trial.cost_usd,
        }
    }
}

/// The usage of an arm's trials. Includes only the try of each trial that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetCurve<'a> {
    pub arm: &'a ArmId,
    /// Planned trials.
    pub trials: u64,
    /// The usage of each resolved trial, ascending.
    pub resolved_usage: Vec<f64>,
    /// The highest usage of any trial, resolved or not.
    pub highest_usage: f64,
}

impl BudgetCurve<'_> {
    /// Returns the fraction of all trials that resolve their task and use at most `budget`. If
    /// `budget` had been a real limit, the fraction would be at least this high, because a trial
    /// that the limit cuts off may already have a solution.
    pub fn resolved_fraction(&self, budget: f64) -> f64 {
        let count = self.resolved_usage.partition_point(|used| *used <= budget);
        count as f64 / self.trials.max(1) as f64
    }
}

/// Returns one curve for each arm that resolved a task and whose usage is known.
pub fn budget_curves<'a>(
    report: &'a Report,
    arms: &[&'a ArmReport],
    kind: UsageKind,
) -> Vec<BudgetCurve<'a>> {
    let curve = |arm: &&'a ArmReport| {
        let arm_trials: Vec<&TaskReport> =
            report.tasks.iter().filter(|trial| trial.arm == arm.arm).collect();
        let amounts: Option<Vec<f64>> = arm_trials
            .iter()
            .filter(|trial| trial.resolved == Some(true))
            .map(|trial| kind.amount_used(trial))
            .collect();
        let mut resolved = amounts?;
        resolved.sort_by(f64::total_cmp);
        let most =
            arm_trials.iter().filter_map(|trial| kind.amount_used(trial)).fold(0.0, f64::max);
        let is_known = resolved.last().is_some_and(|used| *used > 0.0);
        is_known.then_some(BudgetCurve {
            arm: &arm.arm,
            trials: arm.trials,
            resolved_usage: resolved,
            highest_usage: most,
        })
    };
    arms.iter().filter_map(curve).collect()
}
