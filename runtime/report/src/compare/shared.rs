//! Finds the tasks on which two arms can be compared.

use std::collections::BTreeMap;

use proctor_types::ArmId;
use serde::{Deserialize, Serialize};

use crate::TrialResult;

/// Number of tasks excluded from a comparison, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExcludedTasks {
    /// Tasks for which no trial of one of the arms has a verdict.
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

/// One task's trials under both arms.
pub(super) struct SharedTask<'a> {
    /// The trials with a verdict.
    pub(super) a: Vec<&'a TrialResult>,
    pub(super) b: Vec<&'a TrialResult>,
    /// The number of each arm's trials without a verdict.
    pub(super) a_missing: usize,
    pub(super) b_missing: usize,
}

/// The tasks that both arms ran in the same revision, and the number of excluded tasks.
pub(super) struct SharedTasks<'a> {
    /// Tasks for which each arm has at least one verdict.
    pub(super) graded: Vec<SharedTask<'a>>,
    /// Tasks for which one of the arms has no verdict. They are excluded.
    pub(super) ungraded: Vec<SharedTask<'a>>,
    pub(super) excluded: ExcludedTasks,
}

impl<'a> SharedTask<'a> {
    fn from_trials(a: &[&'a TrialResult], b: &[&'a TrialResult]) -> Self {
        let graded = |trials: &[&'a TrialResult]| -> Vec<&'a TrialResult> {
            trials.iter().copied().filter(|trial| trial.verdict.is_some()).collect()
        };
        let (graded_a, graded_b) = (graded(a), graded(b));
        Self {
            a_missing: a.len() - graded_a.len(),
            b_missing: b.len() - graded_b.len(),
            a: graded_a,
            b: graded_b,
        }
    }

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
) -> SharedTasks<'a> {
    let mut excluded = ExcludedTasks {
        not_shared: b.keys().filter(|task| !a.contains_key(*task)).count() as u64,
        ..ExcludedTasks::default()
    };
    let (mut graded, mut ungraded) = (Vec::new(), Vec::new());
    for (task, a) in a {
        let Some(b) = b.get(task) else {
            excluded.not_shared += 1;
            continue;
        };
        let mut both = a.iter().chain(b);
        let revision = a.first().and_then(|trial| trial.facts.revision.as_ref());
        if both.any(|trial| trial.facts.revision.as_ref() != revision) {
            excluded.revised += 1;
            continue;
        }
        let task = SharedTask::from_trials(a, b);
        if task.a.is_empty() || task.b.is_empty() {
            excluded.without_verdict += 1;
            ungraded.push(task);
        } else {
            graded.push(task);
        }
    }
    SharedTasks { graded, ungraded, excluded }
}
