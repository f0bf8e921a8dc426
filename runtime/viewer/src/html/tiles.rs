//! Shows the results by task and arm: a strip of tiles for each arm, and a table with the same
//! data.

use proctor_report::{Grid, Report, TaskReport, build_grid, cell_text, resolved_fraction};
use proctor_types::count_with_noun;
use serde::Serialize;

use crate::html::{
    figures::NumberedArms,
    plot::{round_to_hundredth, round_to_tenth},
};

/// Height of a strip in pixels.
const STRIP_HEIGHT: f64 = 26.0;
/// With more tasks than this, tiles have no gaps, and adjacent tasks with the same result are
/// merged into one tile.
const MAX_SEPARATE_TILES: usize = 60;
/// With more tasks than this, the table is collapsed.
const MAX_EXPANDED_TASKS: usize = 40;

/// The results of all tasks, easiest task first.
#[derive(Debug, Serialize)]
pub(crate) struct TaskChart {
    pub(crate) sentence: String,
    pub(crate) strips: Vec<TaskStrip>,
    /// Whether the table is expanded.
    pub(crate) is_open: bool,
    pub(crate) rows: Vec<TaskRow>,
}

#[derive(Debug, Serialize)]
pub(crate) struct TaskStrip {
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) tiles: Vec<Tile>,
    pub(crate) value: String,
}

/// One task, or several adjacent tasks with the same result. `x` and `width` are in percent, `y`
/// and `height` in pixels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Tile {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) tone: &'static str,
}

#[derive(Debug, Serialize)]
pub(crate) struct TaskRow {
    pub(crate) task: String,
    pub(crate) cells: Vec<TaskCell>,
}

#[derive(Debug, Serialize)]
pub(crate) struct TaskCell {
    pub(crate) tone: &'static str,
    pub(crate) text: String,
}

/// Builds the chart. Returns `None` if there are fewer than two tasks.
pub(crate) fn task_chart(report: &Report, arms: &NumberedArms<'_>) -> Option<TaskChart> {
    let study: Vec<_> = arms.iter().map(|(_, arm)| *arm).collect();
    let mut grid = build_grid(report, &study);
    let count = grid.rows.len();
    if count < 2 {
        return None;
    }
    let [all, none, some] = grid.task_counts();
    // The sort is stable, so equally hard tasks stay in plan order.
    grid.rows.sort_by(|one, other| other.score().total_cmp(&one.score()));
    let strips = arms.iter().enumerate().map(|(index, (number, arm))| TaskStrip {
        number: *number,
        name: arm.name.clone(),
        tiles: arm_tiles(&grid, index),
        value: format!("{}/{}", arm.resolved, arm.trials),
    });
    let rest = match report.is_complete() {
        true => "differ between arms or attempts",
        false => "differ between arms or attempts, or have no verdict",
    };
    Some(TaskChart {
        sentence: format!(
            "Of {}, {all} are resolved by every arm in every attempt and {none} by none; {some} {rest}.",
            count_with_noun(count, "task")
        ),
        strips: strips.collect(),
        is_open: count <= MAX_EXPANDED_TASKS,
        rows: grid
            .rows
            .iter()
            .map(|row| TaskRow {
                task: row.task.to_string(),
                cells: row
                    .cells
                    .iter()
                    .map(|trials| TaskCell { tone: cell_class(trials), text: cell_text(trials) })
                    .collect(),
            })
            .collect(),
    })
}

fn cell_class(trials: &[&TaskReport]) -> &'static str {
    if trials.iter().any(|trial| trial.resolved.is_none()) {
        return "unknown";
    }
    match resolved_fraction(trials) {
        None => "",
        Some(share) if share >= 1.0 => "all",
        Some(share) if share > 0.0 => "some",
        Some(_) => "none",
    }
}

/// Returns one arm's tiles. A task has no tile if the arm resolved it in no attempt and all
/// attempts have a verdict.
fn arm_tiles(grid: &Grid<'_>, arm: usize) -> Vec<Tile> {
    let count = grid.rows.len();
    let wide = 100.0 / count as f64;
    let (merges, width) =
        (count > MAX_SEPARATE_TILES, if count > MAX_SEPARATE_TILES { wide } else { wide * 0.86 });
    let mut tiles: Vec<Tile> = Vec::new();
    for (index, row) in grid.rows.iter().enumerate() {
        let Some(trials) = row.cells.get(arm).filter(|trials| !trials.is_empty()) else { continue };
        let (y, height, tone) =
            match (cell_class(trials), resolved_fraction(trials).unwrap_or_default()) {
                ("unknown", _) => (1.0, STRIP_HEIGHT - 2.0, "open"),
                (_, share) if share <= 0.0 => continue,
                (_, share) => (
                    round_to_tenth(STRIP_HEIGHT * (1.0 - share)),
                    round_to_tenth(STRIP_HEIGHT * share),
                    "",
                ),
            };
        let x = index as f64 * wide;
        let tile =
            Tile { x: round_to_hundredth(x), y, width: round_to_hundredth(width), height, tone };
        match tiles.last_mut() {
            Some(last)
                if merges
                    && (last.y, last.height, last.tone) == (y, height, tone)
                    && last.x + last.width + 0.02 >= tile.x =>
            {
                last.width = round_to_hundredth(x + wide - last.x);
            }
            _ => tiles.push(tile),
        }
    }
    tiles
}
