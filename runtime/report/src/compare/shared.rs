//! Finds the tasks on which two arms can be compared.

use std::collections::BTreeMap;

use proctor_types::ArmId;
use serde::{Deserialize, Serialize};

use crate::TrialResult;

/// Number of tasks excluded from a comparison, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExcludedTasks {
    /// Tasks for which at least one trial of either arm has no verdict.
    pub without_verdict: u64,
    /// Tasks that were run by only one of the arms.
    pub not_shared: u64,
    /// Tasks that both arms ran, but in different revisions.
    pub revised: u64,
}

impl ExcludedTasks {
    pub fn total(&self) -> u64 {
        self.without_verdict + self.not_shared + self.revised
    }
}

/// One task's trials under both arms. Every trial has a verdict.
pub(super) struct SharedTask<'a> {
    pub(super) a: Vec<&'a TrialResult>,
    pub(super) b: Vec<&'a TrialResult>,
}

impl SharedTask<'_> {
    pub(super) fn repository(&self) -> Option<&str> {
        self.a.first().and_then(|trial| trial.facts.repo.as_deref())
    }
}

/// Groups an arm's trials by task.
pub(super) fn group_by_task<'a>(
    trials: &'a [TrialResult],
    arm: &ArmId,
) -> BTreeMap<&'a str, Vec<&'a TrialResult>> {
    let mut tasks: BTreeMap<&str, Vec<&TrialResult>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.arm == *arm) {
        tasks.entry(trial.task.as_str()).or_default().push(trial);
    }
    tasks
}

pub(super) fn shared_tasks<'a>(
    a: &BTreeMap<&'a str, Vec<&'a TrialResult>>,
    b: &BTreeMap<&'a str, Vec<&'a TrialResult>>,
) -> (Vec<SharedTask<'a>>, ExcludedTasks) {
    let mut excluded = ExcludedTasks {
        not_shared: b.keys().filter(|task| !a.contains_key(*task)).count() as u64,
        ..ExcludedTasks::default()
    };
    let mut shared = Vec::new();
    for (task, a) in a {
        let Some(b) = b.get(task) else {
            excluded.not_shared += 1;
            continue;
        };
        let mut both = a.iter().chain(b);
        let revision = a.first().and_then(|trial| trial.facts.revision.as_ref());
        if both.clone().any(|trial| trial.facts.revision.as_ref() != revision) {
            excluded.revised += 1;
        } else if both.any(|trial| trial.verdict.is_none()) {
            excluded.without_verdict += 1;
        } else {
            shared.push(SharedTask { a: a.clone(), b: b.clone() });
        }
    }
    (shared, excluded)
}
