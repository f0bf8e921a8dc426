//! Renders one task's trials side by side, with where they diverge and how.

use minijinja::Error;
use serde::Serialize;

use super::{
    Divergence, Links, Step, StepRow,
    divergence::{
        MarkedText, align_steps, describe_divergence, differing_lines, find_divergence,
        mark_differences,
    },
    templates::render_template,
};

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
    /// The trial's first step whose calls returned something else than in another trial.
    pub saw: Option<Step>,
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
    parted: &'a Divergence,
    /// How the trials diverge, as a sentence. Empty if they don't.
    how: String,
    /// For each call of the step at which the trials diverge, each trial's arguments.
    calls: Vec<Vec<Option<MarkedText>>>,
    /// Each trial's message at the step at which the trials diverge.
    messages: Vec<MarkedText>,
    /// The lines in which the first differing outputs differ, with the trial's name.
    outputs: Vec<(&'a str, String)>,
    alike: Vec<AlignedRow<'a>>,
    after: Vec<AlignedRow<'a>>,
    links: &'a Links<'a>,
    live: bool,
}

/// One row of the table of steps.
#[derive(Debug, Serialize)]
struct AlignedRow<'a> {
    steps: Vec<Option<&'a StepRow>>,
    /// Whether all trials have this step and it is the same in all of them.
    is_same: bool,
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
    let halves = steps.iter().map(|rows| rows.split_at(parted.alike.min(rows.len())));
    let (before, behind): (Vec<&[StepRow]>, Vec<&[StepRow]>) = halves.unzip();
    let (alike, after) = (aligned_rows(&before), aligned_rows(&behind));
    let named: Vec<(&str, &Step)> =
        sides.iter().filter_map(|side| Some((side.name.as_str(), side.at.as_ref()?))).collect();
    let how = if parted.parted { describe_divergence(&named) } else { String::new() };
    let filling = PageContext {
        task,
        sides,
        choices,
        parted: &parted,
        how,
        calls: marked_calls(sides),
        messages: marked_messages(sides),
        outputs: differing_outputs(sides),
        alike,
        after,
        links,
        live: false,
    };
    render_template("beside.html", filling)
}

fn aligned_rows<'a>(trials: &[&'a [StepRow]]) -> Vec<AlignedRow<'a>> {
    let row = |indexes: Vec<Option<usize>>| {
        let steps: Vec<Option<&StepRow>> = trials
            .iter()
            .zip(indexes)
            .map(|(rows, index)| index.and_then(|index| rows.get(index)))
            .collect();
        let first = steps.first().copied().flatten().map(|row| row.action_hash);
        let is_same =
            first.is_some() && steps.iter().all(|step| step.map(|row| row.action_hash) == first);
        AlignedRow { steps, is_same }
    };
    align_steps(trials).into_iter().map(row).collect()
}

/// Marks where the trials' calls differ, call by call. A trial that makes fewer calls has `None`.
fn marked_calls(sides: &[TrialColumn]) -> Vec<Vec<Option<MarkedText>>> {
    let calls_of = |side: &TrialColumn| side.at.as_ref().map_or(0, |step| step.calls.len());
    let most = sides.iter().map(calls_of).max().unwrap_or_default();
    let arguments =
        |side: &TrialColumn, at: usize| Some(side.at.as_ref()?.calls.get(at)?.arguments.clone());
    let marked = |at: usize| {
        let texts: Vec<Option<String>> = sides.iter().map(|side| arguments(side, at)).collect();
        let given: Vec<&str> = texts.iter().flatten().map(String::as_str).collect();
        let mut marked = mark_differences(&given).into_iter();
        texts.iter().map(|text| text.as_ref().and_then(|_| marked.next())).collect()
    };
    (0..most).map(marked).collect()
}

/// Marks where the trials' messages differ. A trial that had ended has an empty message.
fn marked_messages(sides: &[TrialColumn]) -> Vec<MarkedText> {
    let given: Vec<&str> =
        sides.iter().filter_map(|side| Some(side.at.as_ref()?.message.as_str())).collect();
    let mut marked = mark_differences(&given).into_iter();
    let of_side = |side: &TrialColumn| side.at.as_ref().and_then(|_| marked.next());
    sides.iter().map(of_side).map(Option::unwrap_or_default).collect()
}

fn differing_outputs(sides: &[TrialColumn]) -> Vec<(&str, String)> {
    let outputs = |step: &Step| -> String {
        let all: Vec<&str> = step.calls.iter().filter_map(|call| call.shown.as_deref()).collect();
        all.join("\n")
    };
    let (names, texts): (Vec<&str>, Vec<String>) = sides
        .iter()
        .filter_map(|side| Some((side.name.as_str(), outputs(side.saw.as_ref()?))))
        .unzip();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    names.into_iter().zip(differing_lines(&texts)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &str, action_hashes: &[u64]) -> TrialColumn {
        let row = |(number, hash): (u64, &u64)| StepRow {
            number,
            action_hash: *hash,
            ..StepRow::default()
        };
        TrialColumn {
            name: name.to_owned(),
            href: format!("1/t/{name}/1"),
            word: "resolved",
            class: "yes",
            detail: String::new(),
            steps: (1..).zip(action_hashes).map(row).collect(),
            at: None,
            saw: None,
        }
    }

    #[test]
    fn page_says_that_a_trial_ended_instead_of_diverging() {
        let page = |sides: &[TrialColumn]| {
            render_side_by_side_page("t", sides, &[], &Links::default()).unwrap_or_default()
        };
        let ended = page(&[side("A", &[1, 2, 3]), side("B", &[1, 2])]);
        assert!(ended.contains("don't diverge") && ended.contains("</bdi> ended after 2 steps"));
        assert!(!ended.contains("Where they diverge"), "{ended}");
        let parted = page(&[side("A", &[1, 2, 3]), side("B", &[1, 4, 3])]);
        assert!(parted.contains("the trials diverge at") && parted.contains("Where they diverge"));
    }
}
