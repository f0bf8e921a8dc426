//! Limits that trials share, and what earlier calls of the runtime have spent of them.

use std::collections::BTreeMap;

use proctor_gateway::SharedMeter;
use proctor_record::RunDir;
use proctor_types::{ArmId, BudgetKind, BudgetScope, Fault, Spent};

use crate::{Plan, spending::spent_by};

/// The meters of a run and of its arms, where there are such limits.
#[derive(Debug, Default)]
pub struct SharedMeters {
    run: Option<SharedMeter>,
    arms: BTreeMap<ArmId, SharedMeter>,
}

impl SharedMeters {
    /// The meters that the arms' budgets ask for. What every try so far has spent is read from the
    /// journals, those that did not count included: it was paid for.
    pub fn of(run: &RunDir, plan: &Plan) -> Result<Self, Fault> {
        let limited = |arm: &std::sync::Arc<proctor_types::Arm>| {
            arm.budget.run.is_some() || arm.budget.arm.is_some()
        };
        if !plan.arms.iter().any(limited) {
            return Ok(Self::default());
        }
        let mut spent: BTreeMap<ArmId, Spent> = BTreeMap::new();
        for (id, _, arm) in plan.trials() {
            let paid = spent_by(&run.trial_path(&id))?;
            spent.entry(arm.id.clone()).or_default().merge(&paid);
        }
        let all = spent.values().fold(Spent::default(), |mut all, one| {
            all.merge(one);
            all
        });
        let of_run = plan.arms.iter().find_map(|arm| arm.budget.run);
        let run = of_run.map(|limits| SharedMeter::new(BudgetScope::Run, &limits, all));
        let arms = plan.arms.iter().filter_map(|arm| {
            let spent = spent.get(&arm.id).copied().unwrap_or_default();
            let meter = SharedMeter::new(BudgetScope::Arm, &arm.budget.arm?, spent);
            Some((arm.id.clone(), meter))
        });
        Ok(Self { run, arms: arms.collect() })
    }

    /// The meters that a trial of the arm shares, in the order in which it holds.
    pub fn of_arm(&self, arm: &ArmId) -> Vec<SharedMeter> {
        self.arms.get(arm).into_iter().chain(&self.run).cloned().collect()
    }

    /// The limit that leaves nothing for a further trial of the arm.
    pub fn reached(&self, arm: &ArmId) -> Option<(BudgetScope, BudgetKind)> {
        self.of_arm(arm).iter().find_map(|meter| Some((meter.scope(), meter.reached()?)))
    }
}
