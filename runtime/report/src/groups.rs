//! Breaks an arm's results down by properties of its tasks, and by attempt.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::{ShippedTable, Task};
use serde::{Deserialize, Serialize};

use crate::{Report, TrialResult, build::round_to_four_decimals};

static CATEGORIES: ShippedTable<Categories> = ShippedTable::new(
    "feabench-categories.toml",
    include_str!("../../../configs/feabench-categories.toml"),
);

/// The contents of `configs/feabench-categories.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Categories {
    category: Vec<Category>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Category {
    name: String,
    repos: Vec<String>,
}

/// Returns FEA-Bench's category of a repository.
fn feabench_category(repo: &str) -> Option<String> {
    let all = CATEGORIES.get().ok()?;
    let is_in = |category: &&Category| category.repos.iter().any(|one| one == repo);
    all.category.iter().find(is_in).map(|category| category.name.clone())
}

/// The properties by which a report groups tasks. If a property is absent, the task is in no group
/// of that kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFacts {
    pub level: Option<u32>,
    pub repo: Option<String>,
    pub categories: Vec<String>,
    /// Functions that the gold patch adds (FEA-Bench).
    pub functions_added: Option<u64>,
    /// The benchmark that the task's row comes from.
    pub benchmark: Option<String>,
    /// The split of the benchmark: `lite`, `full`.
    pub split: Option<String>,
    /// Whether the task's solution was written on or after the model's knowledge cutoff
    /// (`models.NAME.cutoff`). Absent if either date is unknown.
    pub after_cutoff: Option<bool>,
    /// SHA-256 of the task in this run. Not used for grouping.
    pub revision: Option<String>,
}

impl TaskFacts {
    pub fn from_task(task: &Task) -> Self {
        let benchmark = task.benchmark.as_ref().map(|benchmark| benchmark.name.as_str());
        let of_repo = task.repo.as_deref().filter(|_| benchmark == Some("fea-bench"));
        let mut categories = task.categories.clone();
        categories.extend(of_repo.and_then(feabench_category));
        Self {
            level: task.level,
            repo: task.repo.clone(),
            categories,
            functions_added: task
                .details()
                .and_then(|details| details.functions_added.get().copied()),
            benchmark: benchmark.map(str::to_owned),
            split: task.benchmark.as_ref().and_then(|benchmark| benchmark.split.clone()),
            after_cutoff: None,
            revision: None,
        }
    }

    /// Adds whether the task is newer than the model's knowledge cutoff.
    #[must_use]
    pub fn with_cutoff(self, task: &Task, cutoff: Option<&str>) -> Self {
        // ISO dates sort as text.
        let after = task.date().zip(cutoff).map(|(day, cutoff)| day >= cutoff);
        Self { after_cutoff: after, ..self }
    }

    /// Returns the kind and name of every group that a trial of the task belongs to.
    fn group_keys(&self, attempt: u32) -> Vec<(&'static str, String)> {
        let mut groups = vec![("attempt", attempt.to_string())];
        groups.extend(self.level.map(|level| ("level", level.to_string())));
        groups.extend(self.repo.clone().map(|repo| ("repo", repo)));
        groups.extend(self.categories.iter().map(|category| ("category", category.clone())));
        groups.extend(self.benchmark.clone().map(|benchmark| ("benchmark", benchmark)));
        groups.extend(self.split.clone().map(|split| ("split", split)));
        let side = |after: bool| if after { "after" } else { "before" };
        groups.extend(self.after_cutoff.map(|after| ("cutoff", side(after).to_owned())));
        groups.extend(self.functions_added.map(|count| ("functions_added", size_class(count))));
        // FEA-Bench's text combines three and more functions; its Figure 5 does not.
        let several = self.functions_added.filter(|count| *count >= 3);
        groups.extend(several.map(|_| ("functions_added", THREE_AND_MORE.to_owned())));
        groups
    }
}

/// Returns FEA-Bench's size class: 1, 2, 3, 4, or more.
fn size_class(count: u64) -> String {
    match count {
        0..=4 => count.to_string(),
        _ => "5+".into(),
    }
}

/// The numbers of one group. Rates are over all planned trials of the group.
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

/// Returns the numbers by kind and name of the group. Kinds with a single group that covers the
/// whole arm are left out.
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

/// Returns the repositories that have tasks in several benchmarks. FeatureBench's paper compares
/// benchmarks on them.
fn shared_repositories<'a>(trials: &[&'a TrialResult]) -> BTreeSet<&'a str> {
    let mut benchmarks: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for facts in trials.iter().map(|trial| &trial.facts) {
        if let (Some(repo), Some(benchmark)) = (&facts.repo, &facts.benchmark) {
            benchmarks.entry(repo).or_default().insert(benchmark);
        }
    }
    benchmarks.into_iter().filter(|(_, of)| of.len() > 1).map(|(repo, _)| repo).collect()
}

/// A group that overlaps with other groups.
const THREE_AND_MORE: &str = "3+";

/// Minimum number of tasks for which a table of groups is useful even if each group is one task.
const MIN_TASKS_FOR_ALL_GROUPS: usize = 10;

/// Which tables of groups to show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GroupSelection {
    /// Tables that add information to the table of tasks: some group has several tasks, or there
    /// are at least ten tasks.
    #[default]
    Telling,
    All,
}

/// The table of one kind of group, over all arms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupTable<'a> {
    pub kind: &'a str,
    /// Each group with each arm's numbers.
    pub rows: Vec<(&'a str, Vec<Option<&'a GroupReport>>)>,
}

/// Returns a table for each kind of group that any arm has and that `shown` selects.
pub fn group_tables(report: &Report, shown: GroupSelection) -> Vec<GroupTable<'_>> {
    let tasks: BTreeSet<_> = report.tasks.iter().map(|trial| &trial.task).collect();
    let all = shown == GroupSelection::All || tasks.len() >= MIN_TASKS_FOR_ALL_GROUPS;
    let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (kind, groups) in report.arms.iter().flat_map(|arm| &arm.groups) {
        let own = groups.iter().filter(|(name, _)| *name != THREE_AND_MORE);
        if all || own.map(|(_, group)| group.tasks).any(|tasks| tasks > 1) {
            kinds.entry(kind).or_default().extend(groups.keys().map(String::as_str));
        }
    }
    let cells = |kind: &str, name: &str| {
        let of_arm = report.arms.iter().map(|arm| arm.groups.get(kind)?.get(name));
        of_arm.collect()
    };
    kinds
        .into_iter()
        .map(|(kind, names)| GroupTable {
            kind,
            rows: names.into_iter().map(|name| (name, cells(kind, name))).collect(),
        })
        .collect()
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
