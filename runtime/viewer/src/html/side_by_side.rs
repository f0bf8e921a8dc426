//! Renders one task's trials side by side, and finds where they diverge.

use minijinja::Error;
use serde::Serialize;

use super::{Links, Step, StepRow, templates::render_template};

/// One of the trials shown side by side.
#[derive(Debug, Clone, Serialize)]
pub struct TrialColumn {
    /// The trial's arm and attempt, and its run if there are several.
    pub name: String,
    /// The trial's address, relative to the root.
    pub href: String,
    /// The verdict in words, such as `resolved`, and its CSS class.
    pub word: &'static str,
    pub class: &'static str,
    pub detail: String,
    pub steps: Vec<StepRow>,
    /// The trial's step at which the trials diverge, with all details.
    pub at: Option<Step>,
}

/// A trial that the user can select for the page.
#[derive(Debug, Clone, Serialize)]
pub struct TrialChoice {
    /// The trial's value in the query string.
    pub value: String,
    pub name: String,
    pub shown: bool,
}

#[derive(Serialize)]
struct PageContext<'a> {
    task: &'a str,
    sides: &'a [TrialColumn],
    choices: &'a [TrialChoice],
    parted: Divergence,
    alike: Vec<Vec<Option<&'a StepRow>>>,
    after: Vec<Vec<Option<&'a StepRow>>>,
    links: &'a Links<'a>,
    live: bool,
}

/// Where trials diverge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Number of identical steps at the start of all trials.
    pub alike: usize,
    /// The first identical step whose results differ between the trials, counted from 1.
    pub saw: Option<usize>,
    /// Whether the trials are identical from start to end.
    pub never: bool,
}

/// Finds where trials diverge. Two steps count as the same if the model made the same calls or,
/// without calls, wrote the same message.
pub fn find_divergence(trials: &[&[StepRow]]) -> Divergence {
    let Some((first, others)) = trials.split_first() else {
        return Divergence { alike: 0, saw: None, never: true };
    };
    let same = |at: &usize| -> bool {
        let row = &first[*at];
        others
            .iter()
            .all(|other| other.get(*at).is_some_and(|one| one.action_hash == row.action_hash))
    };
    let alike = (0..first.len()).take_while(same).count();
    let saw = (0..alike)
        .find(|at| others.iter().any(|other| other[*at].result_hash != first[*at].result_hash))
        .map(|at| at + 1);
    Divergence { alike, saw, never: trials.iter().all(|one| one.len() == alike) }
}

/// # Errors
/// See [`super::render_trial`].
pub fn render_side_by_side_page(
    task: &str,
    sides: &[TrialColumn],
    choices: &[TrialChoice],
    links: &Links<'_>,
) -> Result<String, Error> {
    let steps: Vec<&[StepRow]> = sides.iter().map(|side| side.steps.as_slice()).collect();
    let parted = find_divergence(&steps);
    let longest = steps.iter().map(|rows| rows.len()).max().unwrap_or_default();
    let rows = |from: usize, to: usize| -> Vec<Vec<Option<&StepRow>>> {
        (from..to).map(|at| steps.iter().map(|rows| rows.get(at)).collect()).collect()
    };
    let (alike, after) = (rows(0, parted.alike), rows(parted.alike, longest));
    let filling = PageContext { task, sides, choices, parted, alike, after, links, live: false };
    render_template("beside.html", filling)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_rows(action_hashes: &[u64], result_hashes: &[u64]) -> Vec<StepRow> {
        let row = |(act, seen): (&u64, &u64)| StepRow {
            action_hash: *act,
            result_hash: *seen,
            ..StepRow::default()
        };
        action_hashes.iter().zip(result_hashes).map(row).collect()
    }

    #[test]
    fn trials_diverge_at_first_differing_or_missing_step() {
        let (a, b) = (step_rows(&[1, 2, 3], &[1, 1, 1]), step_rows(&[1, 2, 4, 5], &[1, 9, 1, 1]));
        let short = step_rows(&[1], &[1]);
        assert_eq!(find_divergence(&[&a, &b]), Divergence { alike: 2, saw: Some(2), never: false });
        assert_eq!(
            find_divergence(&[&a, &b, &short]),
            Divergence { alike: 1, saw: None, never: false }
        );
        assert_eq!(find_divergence(&[&a, &a]), Divergence { alike: 3, saw: None, never: true });
        assert_eq!(find_divergence(&[&a, &[]]), Divergence { alike: 0, saw: None, never: false });
        assert_eq!(find_divergence(&[]), Divergence { alike: 0, saw: None, never: true });
    }
}
