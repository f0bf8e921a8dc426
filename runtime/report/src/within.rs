//! Resolved trials as a function of what they used: budget curves without further gradings.

use proctor_types::ArmId;

use crate::{ArmReport, Report, TaskReport};

/// What a budget limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Used {
    Steps,
    /// Input and output.
    Tokens,
    /// US dollars.
    Cost,
}

impl Used {
    pub const ALL: [Self; 3] = [Self::Steps, Self::Tokens, Self::Cost];

    fn of(self, trial: &TaskReport) -> Option<f64> {
        match self {
            Self::Steps => trial.steps.map(|steps| steps as f64),
            Self::Tokens => {
                trial.spent.as_ref().map(|spent| (spent.input_tokens + spent.output_tokens) as f64)
            }
            Self::Cost => trial.cost_usd,
        }
    }
}

/// What an arm's trials used in the attempts that count.
#[derive(Debug, Clone, PartialEq)]
pub struct Within<'a> {
    pub arm: &'a ArmId,
    /// Planned trials.
    pub trials: u64,
    /// By each resolved trial, ascending.
    pub resolved: Vec<f64>,
    /// The most that any trial used.
    pub most: f64,
}

impl Within<'_> {
    /// The share of all trials that resolve their task and use at most `budget`. A smaller limit
    /// gives at least this share: a trial that it cuts off may hold a solution by then.
    pub fn share(&self, budget: f64) -> f64 {
        let count = self.resolved.partition_point(|used| *used <= budget);
        count as f64 / self.trials.max(1) as f64
    }
}

/// One curve for each arm whose trials resolved a task and are known to have used something.
pub fn within<'a>(report: &'a Report, arms: &[&'a ArmReport], kind: Used) -> Vec<Within<'a>> {
    let curve = |arm: &&'a ArmReport| {
        let own: Vec<&TaskReport> =
            report.tasks.iter().filter(|trial| trial.arm == arm.arm).collect();
        let known: Option<Vec<f64>> = own
            .iter()
            .filter(|trial| trial.resolved == Some(true))
            .map(|trial| kind.of(trial))
            .collect();
        let mut resolved = known?;
        resolved.sort_by(f64::total_cmp);
        let most = own.iter().filter_map(|trial| kind.of(trial)).fold(0.0, f64::max);
        let is_known = resolved.last().is_some_and(|used| *used > 0.0);
        is_known.then_some(Within { arm: &arm.arm, trials: arm.trials, resolved, most })
    };
    arms.iter().filter_map(curve).collect()
}
