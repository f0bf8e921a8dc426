//! Results of each group of an arm's trials.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{TrialResult, rounding::round_to_four_decimals};

/// The results of one group. Rates cover all planned trials of the group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupReport {
    /// Number of distinct tasks.
    #[serde(default)]
    pub tasks: u64,
    pub trials: u64,
    pub graded: u64,
    pub resolved: u64,
    pub resolved_rate: f64,
    pub passed_rate: f64,
    pub applied_rate: f64,
}

/// Returns the results by kind of group, then by the group's name. A kind is left out if a single
/// group covers the whole arm.
pub(crate) fn summarize_groups(
    trials: &[&TrialResult],
) -> BTreeMap<String, BTreeMap<String, GroupReport>> {
    let shared = shared_repositories(trials);
    let mut members: BTreeMap<&str, BTreeMap<String, Vec<&TrialResult>>> = BTreeMap::new();
    for trial in trials {
        let of_shared = trial
            .facts
            .benchmark
            .clone()
            .filter(|_| trial.facts.repo.as_deref().is_some_and(|repo| shared.contains(repo)));
        let of_shared = of_shared.map(|benchmark| ("shared_repositories", benchmark));
        for (kind, name) in trial.facts.group_keys(trial.attempt).into_iter().chain(of_shared) {
            members.entry(kind).or_default().entry(name).or_default().push(trial);
        }
    }
    members
        .into_iter()
        .filter(|(_, groups)| {
            groups.len() > 1 || groups.values().any(|group| group.len() < trials.len())
        })
        .map(|(kind, groups)| {
            let groups = groups.into_iter().map(|(name, group)| (name, summarize_group(&group)));
            (kind.to_owned(), groups.collect())
        })
        .collect()
}

/// Returns the repositories with tasks in several benchmarks. FeatureBench's paper compares
/// benchmarks on these repositories.
fn shared_repositories<'a>(trials: &[&'a TrialResult]) -> BTreeSet<&'a str> {
    let mut benchmarks: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for facts in trials.iter().map(|trial| &trial.facts) {
        if let (Some(repo), Some(benchmark)) = (&facts.repo, &facts.benchmark) {
            benchmarks.entry(repo).or_default().insert(benchmark);
        }
    }
    benchmarks.into_iter().filter(|(_, of)| of.len() > 1).map(|(repo, _)| repo).collect()
}

fn summarize_group(trials: &[&TrialResult]) -> GroupReport {
    let verdicts = || trials.iter().filter_map(|trial| trial.verdict.as_ref());
    let share = |sum: f64| round_to_four_decimals(sum / trials.len().max(1) as f64);
    let resolved = verdicts().filter(|verdict| verdict.resolved).count();
    let tasks: BTreeSet<&str> = trials.iter().map(|trial| trial.task.as_str()).collect();
    GroupReport {
        tasks: tasks.len() as u64,
        trials: trials.len() as u64,
        graded: verdicts().count() as u64,
        resolved: resolved as u64,
        resolved_rate: share(resolved as f64),
        passed_rate: share(verdicts().map(|verdict| verdict.passed_rate).sum()),
        applied_rate: share(trials.iter().filter(|trial| trial.has_applied_patch()).count() as f64),
    }
}
