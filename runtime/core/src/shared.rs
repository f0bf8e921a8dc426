//! Limits that trials share, and what earlier calls of the runtime have spent of them.

use std::{collections::BTreeMap, path::Path};

use proctor_gateway::SharedMeter;
use proctor_record::{RunDir, read_journal};
use proctor_types::{ArmId, BudgetKind, BudgetScope, Event, Fault, RequestClass, Spent, TrialId};

use crate::{Plan, recorder::record_fault};

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
            add_trial(run, &id, spent.entry(arm.id.clone()).or_default())?;
        }
        let all = spent.values().fold(Spent::default(), |mut all, one| {
            let usage = proctor_types::Usage {
                input: one.input_tokens,
                output: one.output_tokens,
                cached: one.cached_tokens,
                ..Default::default()
            };
            all.add(RequestClass::Main, &usage, Some(one.cost_usd), false);
            all.steps += one.steps;
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

fn add_trial(run: &RunDir, id: &TrialId, spent: &mut Spent) -> Result<(), Fault> {
    let dir = run.trial_path(id);
    add_journal(&dir.trajectory(), spent)?;
    let Ok(tries) = std::fs::read_dir(dir.tries()) else { return Ok(()) };
    for entry in tries.flatten() {
        add_journal(&entry.path().join("trajectory.jsonl"), spent)?;
    }
    Ok(())
}

fn add_journal(path: &Path, spent: &mut Spent) -> Result<(), Fault> {
    if !path.exists() {
        return Ok(());
    }
    for envelope in read_journal(path).map_err(record_fault)?.events {
        match envelope.event {
            // Steps are counted by the answers below; tokens and cost by every go that was billed.
            Event::ModelAttempted { usage: Some(usage), cost_usd, .. } => {
                spent.add(RequestClass::Main, &usage, cost_usd, false);
            }
            Event::ModelAnswered { .. } => spent.steps += 1,
            _ => {}
        }
    }
    Ok(())
}
