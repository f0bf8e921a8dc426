//! Breakdowns of an arm: by what its tasks are, and by attempt.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::Task;
use serde::{Deserialize, Serialize};

use crate::{TrialResult, build::round};

/// What a report groups tasks by. Absent facts put a task into no group of that kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFacts {
    pub level: Option<u32>,
    pub repo: Option<String>,
    pub categories: Vec<String>,
    /// Functions that the gold adds (FEA-Bench).
    pub functions_added: Option<u64>,
}

impl TaskFacts {
    pub fn of(task: &Task) -> Self {
        Self {
            level: task.level,
            repo: task.repo.clone(),
            categories: task.categories.clone(),
            functions_added: task
                .details()
                .and_then(|details| details.functions_added.get().copied()),
        }
    }

    /// Kind and name of every group that a trial of the task belongs to.
    fn groups(&self, attempt: u32) -> Vec<(&'static str, String)> {
        let mut groups = vec![("attempt", attempt.to_string())];
        groups.extend(self.level.map(|level| ("level", level.to_string())));
        groups.extend(self.repo.clone().map(|repo| ("repo", repo)));
        groups.extend(self.categories.iter().map(|category| ("category", category.clone())));
        groups.extend(self.functions_added.map(|count| ("functions_added", few(count))));
        groups
    }
}

/// FEA-Bench's own classes of size: 1, 2, 3, 4, and more.
fn few(count: u64) -> String {
    match count {
        0..=4 => count.to_string(),
        _ => "5+".into(),
    }
}

/// One group's numbers; rates are over all its trials of the plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupReport {
    /// Tasks that its trials are of.
    #[serde(default)]
    pub tasks: u64,
    pub trials: u64,
    pub graded: u64,
    pub resolved: u64,
    pub resolved_rate: f64,
    pub passed_rate: f64,
    pub applied_rate: f64,
}

/// Kind of group to name to numbers. A kind whose only group is the whole arm says nothing new and
/// is left out.
pub(crate) fn groups(trials: &[&TrialResult]) -> BTreeMap<String, BTreeMap<String, GroupReport>> {
    let mut members: BTreeMap<&str, BTreeMap<String, Vec<&TrialResult>>> = BTreeMap::new();
    for trial in trials {
        for (kind, name) in trial.facts.groups(trial.attempt) {
            members.entry(kind).or_default().entry(name).or_default().push(trial);
        }
    }
    members
        .into_iter()
        .filter(|(_, groups)| {
            groups.len() > 1 || groups.values().any(|group| group.len() < trials.len())
        })
        .map(|(kind, groups)| {
            let groups = groups.into_iter().map(|(name, group)| (name, numbers(&group)));
            (kind.to_owned(), groups.collect())
        })
        .collect()
}

fn numbers(trials: &[&TrialResult]) -> GroupReport {
    let verdicts = || trials.iter().filter_map(|trial| trial.verdict.as_ref());
    let share = |sum: f64| round(sum / trials.len().max(1) as f64);
    let resolved = verdicts().filter(|verdict| verdict.resolved).count();
    let tasks: BTreeSet<&str> = trials.iter().map(|trial| trial.task.as_str()).collect();
    GroupReport {
        tasks: tasks.len() as u64,
        trials: trials.len() as u64,
        graded: verdicts().count() as u64,
        resolved: resolved as u64,
        resolved_rate: share(resolved as f64),
        passed_rate: share(verdicts().map(|verdict| verdict.passed_rate).sum()),
        applied_rate: share(trials.iter().filter(|trial| trial.applied()).count() as f64),
    }
}

/// pass@k for every k up to the number of attempts: the chance that of k attempts drawn without
/// replacement from those made at least one resolves the task, 1 - C(n-c, k) / C(n, k), in the
/// mean over tasks (the unbiased estimator of Chen et al. 2021). Empty with one attempt, and while
/// a verdict is missing: an estimate over those that happen to be graded would be biased.
pub(crate) fn pass_at_k(trials: &[&TrialResult]) -> BTreeMap<u32, f64> {
    let mut tasks: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for trial in trials {
        let Some(verdict) = &trial.verdict else { return BTreeMap::new() };
        let (attempts, resolved) = tasks.entry(trial.task.as_str()).or_default();
        *attempts += 1;
        *resolved += u32::from(verdict.resolved);
    }
    let most = tasks.values().map(|(attempts, _)| *attempts).min().unwrap_or(0);
    if most < 2 {
        return BTreeMap::new();
    }
    let of = |k: u32| {
        let sum: f64 = tasks.values().map(|&(n, c)| estimate(n, c, k)).sum();
        round(sum / tasks.len() as f64)
    };
    (1..=most).map(|k| (k, of(k))).collect()
}

fn estimate(n: u32, c: u32, k: u32) -> f64 {
    if n - c < k {
        return 1.0;
    }
    // As a product: the binomials themselves overflow early.
    1.0 - (n - c + 1..=n).map(|i| 1.0 - f64::from(k) / f64::from(i)).product::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(n: u32, k: u32) -> f64 {
        (0..k).map(|i| f64::from(n - i) / f64::from(i + 1)).product()
    }

    #[test]
    fn the_product_is_the_quotient_of_binomials() {
        for n in 1..12 {
            for c in 0..=n {
                for k in 1..=n {
                    let lost = if n - c < k { 0.0 } else { choose(n - c, k) / choose(n, k) };
                    let found = estimate(n, c, k);
                    assert!((found - (1.0 - lost)).abs() < 1e-12, "{n} {c} {k}: {found}");
                }
            }
        }
    }
}
