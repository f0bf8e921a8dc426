//! A table of tasks by arms.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::{ArmId, NO_PREDICTION, TaskId};

use crate::{
    ArmReport, Report, TaskReport, format::format_percent, single_shot::BEYOND_WINDOW_MARK,
};

/// Tasks with their trials under each of the given arms.
#[derive(Debug, Clone)]
pub struct Grid<'a> {
    /// Tasks in plan order.
    pub rows: Vec<GridRow<'a>>,
}

#[derive(Debug, Clone)]
pub struct GridRow<'a> {
    pub task: &'a TaskId,
    /// The trials of this task under each arm. An arm's list is empty if the arm does not have the
    /// task.
    pub cells: Vec<Vec<&'a TaskReport>>,
}

impl GridRow<'_> {
    /// Returns the fraction of trials that resolve the task, summed over the arms.
    pub fn score(&self) -> f64 {
        self.cells.iter().filter_map(|cell| resolved_fraction(cell)).sum()
    }

    fn all_trials_have(&self, resolved: bool) -> bool {
        self.cells.iter().flatten().all(|trial| trial.resolved == Some(resolved))
    }
}

impl Grid<'_> {
    /// Returns three counts: tasks that every trial resolves, tasks that no trial resolves, and the
    /// remaining tasks.
    pub fn task_counts(&self) -> [usize; 3] {
        let count = |resolved| self.rows.iter().filter(|row| row.all_trials_have(resolved)).count();
        let (all, none) = (count(true), count(false));
        [all, none, self.rows.len() - all - none]
    }

    /// Returns the number of tasks that some but not all of the arm's trials resolve. `arm` is the
    /// arm's index.
    pub fn mixed_task_count(&self, arm: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.cells.get(arm));
        cells
            .filter(|cell| resolved_fraction(cell).is_some_and(|share| share > 0.0 && share < 1.0))
            .count()
    }
}

/// Returns the fraction of trials that resolve the task. `None` if there are no trials.
pub fn resolved_fraction(cell: &[&TaskReport]) -> Option<f64> {
    let resolved = cell.iter().filter(|trial| trial.resolved == Some(true)).count();
    (!cell.is_empty()).then(|| resolved as f64 / cell.len() as f64)
}

/// Builds the grid of a report for the given arms. Tasks that none of these arms have are left out.
pub fn build_grid<'a>(report: &'a Report, arms: &[&ArmReport]) -> Grid<'a> {
    let mut task_ids: BTreeSet<&TaskId> = BTreeSet::new();
    let mut order: Vec<&TaskId> = Vec::new();
    let mut trials: BTreeMap<(&TaskId, &ArmId), Vec<&TaskReport>> = BTreeMap::new();
    for trial in &report.tasks {
        if arms.iter().all(|arm| arm.arm != trial.arm) {
            continue;
        }
        if task_ids.insert(&trial.task) {
            order.push(&trial.task);
        }
        trials.entry((&trial.task, &trial.arm)).or_default().push(trial);
    }
    let row = |task: &'a TaskId| GridRow {
        task,
        cells: arms
            .iter()
            .map(|arm| trials.get(&(task, &arm.arm)).cloned().unwrap_or_default())
            .collect(),
    };
    Grid { rows: order.into_iter().map(row).collect() }
}

/// Formats the trials of one task under one arm: `yes`, `no (25.0% F2P)`, `no prediction`,
/// `2/3, 1 open`.
pub fn cell_text(trials: &[&TaskReport]) -> String {
    match trials {
        [] => String::new(),
        [one] if one.single_shot.as_ref().is_some_and(|shot| shot.beyond_window) => {
            BEYOND_WINDOW_MARK.into()
        }
        [one] => match (one.resolved, one.passed_rate) {
            (Some(true), _) => "yes".into(),
            (Some(false), _) if one.why.as_deref() == Some(NO_PREDICTION) => "no prediction".into(),
            (Some(false), rate) => format!("no ({} F2P)", format_percent(rate.unwrap_or_default())),
            (None, _) if one.fault.is_some() => "fault".into(),
            (None, _) => one.outcome.as_ref().map_or("not ended", |_| "not graded").into(),
        },
        several => {
            let yes = several.iter().filter(|trial| trial.resolved == Some(true)).count();
            let missing = several.iter().filter(|trial| trial.resolved.is_none()).count();
            let open = if missing > 0 { format!(", {missing} open") } else { String::new() };
            format!("{yes}/{}{open}", several.len())
        }
    }
}
