//! One table for each kind of group, over all arms.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{facts::THREE_AND_MORE, numbers::GroupReport};
use crate::Report;

/// If there are at least this many tasks, a table of groups is shown even if each group has only
/// one task.
const MIN_TASKS_FOR_ALL_GROUPS: usize = 10;

/// Which tables of groups to show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GroupSelection {
    /// Tables that add information to the table of tasks: some group has several tasks, or there
    /// are at least ten tasks.
    #[default]
    Informative,
    All,
}

/// The table of one kind of group, over all arms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupTable<'a> {
    pub kind: &'a str,
    /// Each group with each arm's numbers.
    pub rows: Vec<(&'a str, Vec<Option<&'a GroupReport>>)>,
}

/// Returns a table for each kind of group that at least one arm has and that `selection` selects.
pub fn group_tables(report: &Report, selection: GroupSelection) -> Vec<GroupTable<'_>> {
    let tasks: BTreeSet<_> = report.tasks.iter().map(|trial| &trial.task).collect();
    let all = selection == GroupSelection::All || tasks.len() >= MIN_TASKS_FOR_ALL_GROUPS;
    let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (kind, groups) in report.arms.iter().flat_map(|arm| &arm.groups) {
        let group_names = groups.iter().filter(|(name, _)| *name != THREE_AND_MORE);
        if all || group_names.map(|(_, group)| group.tasks).any(|tasks| tasks > 1) {
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
