//! Why trials have no verdict.

use std::collections::BTreeMap;

use proctor_types::{ArmId, count_with_noun};

use crate::{Report, TaskReport};

/// Why a trial has no verdict, in the order in which reasons are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MissingReason {
    Corrupt,
    Fault,
    ArmLimit,
    RunLimit,
    Cancelled,
    NotGraded,
    /// The run did not request a grading. A report cannot tell this from `NotGraded`.
    GradingNotRequested,
    NotEnded,
    /// The trial started and did not end. A report cannot tell this from `NotEnded`.
    Interrupted,
    /// The trial did not start. A report cannot tell this from `NotEnded`.
    NotStarted,
}

impl MissingReason {
    /// Returns the reason for a trial without a verdict, as far as its report shows it.
    pub fn for_trial(trial: &TaskReport) -> Self {
        match trial.outcome.as_deref() {
            _ if !trial.damage.is_empty() => Self::Corrupt,
            None => Self::NotEnded,
            Some(name) if name.starts_with("infrastructure_fault") => Self::Fault,
            Some(name) if name.starts_with("budget_arm_") => Self::ArmLimit,
            Some(name) if name.starts_with("budget_run_") => Self::RunLimit,
            Some("cancelled") => Self::Cancelled,
            Some(_) => Self::NotGraded,
        }
    }

    /// Returns the number of trials with this reason, in words.
    pub fn describe(self, count: u64) -> String {
        match self {
            Self::Corrupt => count_with_noun(count, "corrupt record"),
            Self::Fault => count_with_noun(count, "infrastructure fault"),
            Self::ArmLimit => format!("{count} stopped by the arm's limit"),
            Self::RunLimit => format!("{count} stopped by the run's limit"),
            Self::Cancelled => format!("{count} cancelled"),
            Self::NotGraded => format!("{count} not graded"),
            Self::GradingNotRequested => format!("{count} grading not requested"),
            Self::NotEnded => format!("{count} not ended"),
            Self::Interrupted => format!("{count} interrupted"),
            Self::NotStarted => format!("{count} not started"),
        }
    }
}

impl Report {
    /// Says how many of the trials that ended in a fault were interrupted and resumed before: `2 of
    /// them were resumed and failed again`. `None` if none was.
    pub(crate) fn describe_resumed_faults(&self) -> Option<String> {
        let faults: Vec<&TaskReport> =
            self.tasks.iter().filter(|trial| trial.fault.is_some()).collect();
        let resumed = faults.iter().filter(|trial| !trial.interruptions.is_empty()).count();
        match resumed {
            0 => None,
            1 if faults.len() == 1 => Some("it was resumed and failed again".to_owned()),
            count if count == faults.len() => Some("all were resumed and failed again".to_owned()),
            1 => Some("1 of them was resumed and failed again".to_owned()),
            count => Some(format!("{count} of them were resumed and failed again")),
        }
    }

    /// Returns why trials have no verdict, by arm: `a: 1 infrastructure fault, 12 not ended; b: 4
    /// infrastructure faults`. `None` if no verdict is missing.
    pub fn missing_verdict_reasons(&self) -> Option<String> {
        let arms: Vec<String> = self
            .arms
            .iter()
            .filter_map(|arm| {
                Some(format!("{}: {}", arm.name, self.missing_verdict_reasons_for(&arm.arm)?))
            })
            .collect();
        (!arms.is_empty()).then(|| arms.join("; "))
    }

    /// Returns why trials of one arm have no verdict. `None` if all of them have one.
    pub fn missing_verdict_reasons_for(&self, arm: &ArmId) -> Option<String> {
        let mut counts: BTreeMap<MissingReason, u64> = BTreeMap::new();
        let of_arm = self.tasks.iter().filter(|trial| trial.arm == *arm);
        for trial in of_arm.filter(|trial| trial.resolved.is_none()) {
            *counts.entry(MissingReason::for_trial(trial)).or_default() += 1;
        }
        let reasons: Vec<String> =
            counts.iter().map(|(reason, count)| reason.describe(*count)).collect();
        // The fault probably halted the arm only if both reasons occur.
        let is_halted = counts.contains_key(&MissingReason::Fault)
            && counts.contains_key(&MissingReason::NotEnded);
        let halted = if is_halted { " (a fault may have halted the arm)" } else { "" };
        (!reasons.is_empty()).then(|| format!("{}{halted}", reasons.join(", ")))
    }
}
