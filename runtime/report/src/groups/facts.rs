//! Properties of tasks that a report uses to group trials.

use proctor_types::{ShippedTable, Task};
use serde::Deserialize;

static CATEGORIES: ShippedTable<Categories> = ShippedTable::new(
    "tables/feabench-categories.toml",
    include_str!("../../../../configs/tables/feabench-categories.toml"),
);

/// The contents of `configs/tables/feabench-categories.toml`.
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

/// Returns FEA-Bench's category for a repository.
fn feabench_category(repo: &str) -> Option<String> {
    let all = CATEGORIES.get().ok()?;
    let is_in = |category: &&Category| category.repos.iter().any(|one| one == repo);
    all.category.iter().find(is_in).map(|category| category.name.clone())
}

/// The properties that a report uses to group tasks. If a task lacks a property, it is in no group
/// of that kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFacts {
    pub level: Option<u32>,
    pub repo: Option<String>,
    pub categories: Vec<String>,
    /// Number of functions that the gold patch adds (FEA-Bench).
    pub added_functions: Option<u64>,
    /// The benchmark from which the task's row comes.
    pub benchmark: Option<String>,
    /// The benchmark's split: `lite`, `full`.
    pub split: Option<String>,
    /// Whether the task's solution was written on or after the model's knowledge cutoff
    /// (`models.NAME.cutoff`). Absent if either date is unknown.
    pub is_after_cutoff: Option<bool>,
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
            added_functions: task
                .details()
                .and_then(|details| details.functions_added.get().copied()),
            benchmark: benchmark.map(str::to_owned),
            split: task.benchmark.as_ref().and_then(|benchmark| benchmark.split.clone()),
            is_after_cutoff: None,
            revision: None,
        }
    }

    /// Adds whether the task is newer than the model's knowledge cutoff.
    #[must_use]
    pub fn with_cutoff(self, task: &Task, cutoff: Option<&str>) -> Self {
        // ISO dates can be compared as strings.
        let after = task.date().zip(cutoff).map(|(day, cutoff)| day >= cutoff);
        Self { is_after_cutoff: after, ..self }
    }

    /// Returns the kind and name of every group that a trial of the task belongs to.
    pub(super) fn group_keys(&self, attempt: u32) -> Vec<(&'static str, String)> {
        let mut groups = vec![("attempt", attempt.to_string())];
        groups.extend(self.level.map(|level| ("level", level.to_string())));
        groups.extend(self.repo.clone().map(|repo| ("repo", repo)));
        groups.extend(self.categories.iter().map(|category| ("category", category.clone())));
        groups.extend(self.benchmark.clone().map(|benchmark| ("benchmark", benchmark)));
        groups.extend(self.split.clone().map(|split| ("split", split)));
        let side = |after: bool| if after { "after" } else { "before" };
        groups.extend(self.is_after_cutoff.map(|after| ("cutoff", side(after).to_owned())));
        groups.extend(self.added_functions.map(|count| ("functions_added", size_class(count))));
        // Also add the class for three or more functions that FEA-Bench's text uses. The paper's
        // Figure 5 has separate classes instead.
        let several = self.added_functions.filter(|count| *count >= 3);
        groups.extend(several.map(|_| ("functions_added", THREE_AND_MORE.to_owned())));
        groups
    }
}

/// A group that contains the tasks of several size classes.
pub(crate) const THREE_AND_MORE: &str = "3+";

/// Returns FEA-Bench's size class, by number of functions: 1, 2, 3, 4 or more.
fn size_class(count: u64) -> String {
    match count {
        0..=4 => count.to_string(),
        _ => "5+".into(),
    }
}
