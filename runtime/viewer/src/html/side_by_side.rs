//! Renders one task's trials side by side, and shows where and how they diverge.

use std::collections::HashMap;

use minijinja::Error;
use serde::Serialize;

use super::{
    ComparedResult, Divergence, Links, Step, StepRow, TrialName,
    divergence::{
        align_steps, describe_divergence, differing_lines, find_divergence, is_same_step,
    },
    excerpt::{MarkedText, excerpts, mark_differences},
    patch_difference::{PatchDifference, patch_difference},
    result_difference::{describe_groups, describe_results, equal_groups},
    sentence::Sentence,
    templates::render_template,
};
use crate::{response_text::join_texts, urls::percent_encode};

/// Maximum number of links to pairs of arms.
const MAX_PAIRS: usize = 15;

/// One of the trials shown side by side.
#[derive(Debug, Clone, Serialize)]
pub struct TrialColumn {
    /// The trial's arm and attempt, and its run if there are several.
    pub name: TrialName,
    /// The trial's URL, relative to the root.
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
    /// The calls of steps that differ from other trials, by the step's number. Contains the message
    /// if a step has no calls.
    #[serde(skip)]
    pub step_texts: HashMap<u64, String>,
    #[serde(skip)]
    pub result: ComparedResult,
}

/// A trial that the user can select for the page.
#[derive(Debug, Clone, Serialize)]
pub struct TrialChoice {
    /// The trial's value in the query string.
    pub value: String,
    pub name: TrialName,
    pub shown: bool,
}

#[derive(Serialize)]
struct PageContext<'a> {
    task: &'a str,
    /// The trials with steps.
    sides: Vec<&'a TrialColumn>,
    /// The trials without steps, such as those of a control.
    idle: Vec<&'a TrialColumn>,
    choices: &'a [TrialChoice],
    pairs: Vec<TrialPair<'a>>,
    /// How the results differ, one sentence for tests, patches and edits each.
    results: Vec<Sentence>,
    /// The lines in which the patches differ.
    patches: PatchDifference<'a>,
    parted: &'a Divergence,
    /// How the trials diverge, as a sentence. Empty if they don't.
    how: Sentence,
    /// The steps of the last row in which two trials differ. Empty if there is no other than the
    /// first.
    last_difference: String,
    /// For each call of the step at which the trials diverge, each trial's arguments.
    calls: Vec<Vec<Option<MarkedText>>>,
    /// Each trial's message at the step at which the trials diverge.
    messages: Vec<MarkedText>,
    /// The lines in which the first differing outputs differ, with the trial's name.
    outputs: Vec<(&'a TrialName, String)>,
    alike: Vec<AlignedRow<'a>>,
    after: Vec<AlignedRow<'a>>,
    links: &'a Links<'a>,
    live: bool,
}

/// A link to the page with two arms' trials of the task.
#[derive(Debug, Serialize)]
struct TrialPair<'a> {
    /// The query string.
    query: String,
    one: &'a TrialName,
    other: &'a TrialName,
}

/// One row of the table of steps.
#[derive(Debug, Serialize)]
struct AlignedRow<'a> {
    steps: Vec<Option<&'a StepRow>>,
    /// For each step of a row whose steps differ, the lines that differ. `None` if they are not
    /// known.
    excerpts: Vec<Option<Vec<MarkedText>>>,
    /// Whether all trials have this step and it is the same in all of them.
    is_same: bool,
    /// Whether at least two trials have a step in this row, and the steps differ.
    differs: bool,
    /// If there are more than two trials, which of them have the same step.
    groups: Sentence,
    /// Whether this is the last row with two different steps, but not the first.
    is_last_difference: bool,
}

impl AlignedRow<'_> {
    /// Returns the number of the row's step, or of each trial's step if the numbers differ.
    fn step_names(&self) -> String {
        let mut numbers: Vec<u64> = self.steps.iter().flatten().map(|step| step.number).collect();
        numbers.dedup();
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        match numbers.as_slice() {
            [number] => format!("step {number}"),
            _ => format!("steps {}", numbers.join(" and ")),
        }
    }
}

/// # Errors
/// See [`super::render_trial`].
pub fn render_side_by_side_page(
    task: &str,
    sides: &[TrialColumn],
    choices: &[TrialChoice],
    links: &Links<'_>,
) -> Result<String, Error> {
    let (results, patches) = (describe_results(sides), patch_difference(sides));
    // Without steps, there is nothing to align.
    let (sides, idle): (Vec<&TrialColumn>, Vec<&TrialColumn>) =
        sides.iter().partition(|side| !side.steps.is_empty());
    let steps: Vec<&[StepRow]> = sides.iter().map(|side| side.steps.as_slice()).collect();
    let parted = find_divergence(&steps);
    let halves = steps.iter().map(|rows| rows.split_at(parted.alike.min(rows.len())));
    let (before, behind): (Vec<&[StepRow]>, Vec<&[StepRow]>) = halves.unzip();
    let (alike, mut after) = match sides.len() {
        0 | 1 => (Vec::new(), Vec::new()),
        _ => (aligned_rows(&sides, &before), aligned_rows(&sides, &behind)),
    };
    let last_difference = mark_last_difference(&mut after, sides.len());
    let named: Vec<(&TrialName, &Step)> =
        sides.iter().filter_map(|side| Some((&side.name, side.at.as_ref()?))).collect();
    let how = if parted.parted { describe_divergence(&named) } else { Sentence::default() };
    let filling = PageContext {
        task,
        calls: marked_calls(&sides),
        messages: marked_messages(&sides),
        outputs: differing_outputs(&sides),
        sides,
        idle,
        choices,
        pairs: arm_pairs(choices),
        results,
        patches,
        parted: &parted,
        how,
        last_difference,
        alike,
        after,
        links,
        live: false,
    };
    render_template("beside.html", filling)
}

/// Returns the pairs of trials that differ only in their arm.
fn arm_pairs(choices: &[TrialChoice]) -> Vec<TrialPair<'_>> {
    if choices.len() < 3 {
        return Vec::new();
    }
    let mut pairs = Vec::new();
    for (index, one) in choices.iter().enumerate() {
        for other in &choices[index + 1..] {
            let (a, b) = (&one.name, &other.name);
            if (a.attempt, &a.run) == (b.attempt, &b.run) && a.arm != b.arm {
                let [one, other] = [one, other].map(|choice| percent_encode(&choice.value));
                let query = format!("?trial={one}&trial={other}");
                pairs.push(TrialPair { query, one: a, other: b });
            }
        }
    }
    pairs.truncate(MAX_PAIRS);
    pairs
}

fn aligned_rows<'a>(sides: &[&TrialColumn], trials: &[&'a [StepRow]]) -> Vec<AlignedRow<'a>> {
    let row = |indexes: Vec<Option<usize>>| {
        let steps: Vec<Option<&StepRow>> = trials
            .iter()
            .zip(&indexes)
            .map(|(rows, index)| index.and_then(|index| rows.get(index)))
            .collect();
        let is_same = is_same_step(trials, &indexes);
        let excerpts = if is_same { Vec::new() } else { row_excerpts(sides, &steps) };
        let differs = !is_same && steps.iter().flatten().count() > 1;
        let groups = if differs { row_groups(sides, &steps) } else { Sentence::default() };
        AlignedRow { steps, excerpts, is_same, differs, groups, is_last_difference: false }
    };
    align_steps(trials).into_iter().map(row).collect()
}

/// Says which of more than two trials have the same step in a row.
fn row_groups(sides: &[&TrialColumn], steps: &[Option<&StepRow>]) -> Sentence {
    if sides.len() < 3 {
        return Sentence::default();
    }
    let present = sides.iter().zip(steps);
    let (names, hashes): (Vec<&TrialName>, Vec<u64>) =
        present.filter_map(|(side, step)| Some((&side.name, step.as_ref()?.action_hash))).unzip();
    let missing = names.len() < sides.len();
    let sentence = match equal_groups(&hashes) {
        // The trials that have the step agree.
        groups if groups.len() == 1 => {
            Sentence::default().names(names.into_iter().map(|name| (name, String::new())), " = ")
        }
        groups => describe_groups(&names, &groups),
    };
    if missing { sentence.text("; the others have ended") } else { sentence }
}

/// Returns the differing parts of the steps in one row.
fn row_excerpts(
    sides: &[&TrialColumn],
    steps: &[Option<&StepRow>],
) -> Vec<Option<Vec<MarkedText>>> {
    let texts: Vec<Option<&str>> = sides
        .iter()
        .zip(steps)
        .map(|(side, step)| side.step_texts.get(&step.as_ref()?.number).map(String::as_str))
        .collect();
    let known: Vec<&str> = texts.iter().copied().flatten().collect();
    // A text that is compared with nothing has no part that differs.
    let marked = if known.len() > 1 { excerpts(&known) } else { Vec::new() };
    let mut marked = marked.into_iter();
    // An empty excerpt says nothing, so the row then shows the first words of the step.
    let of_side =
        |text: &Option<&str>| text.and_then(|_| marked.next()).filter(|lines| !lines.is_empty());
    texts.iter().map(of_side).collect()
}

/// Marks the last row of two trials in which their steps differ, and returns the names of its steps.
/// Returns an empty string if this is the first row, to which the page links anyway. More than two
/// trials are aligned by number, so their last difference says little.
fn mark_last_difference(rows: &mut [AlignedRow<'_>], trials: usize) -> String {
    let last = rows.iter().rposition(|row| row.differs).filter(|at| trials == 2 && *at > 0);
    let Some(row) = last.and_then(|at| rows.get_mut(at)) else { return String::new() };
    row.is_last_difference = true;
    row.step_names()
}

/// Marks where the trials' calls differ, call by call. A trial that makes fewer calls has `None`.
fn marked_calls(sides: &[&TrialColumn]) -> Vec<Vec<Option<MarkedText>>> {
    let calls_of = |side: &&TrialColumn| side.at.as_ref().map_or(0, |step| step.calls.len());
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

/// Marks where the trials' messages differ. The message is empty for a trial that ended before the step at which the trials diverge.
fn marked_messages(sides: &[&TrialColumn]) -> Vec<MarkedText> {
    let text = |step: &Step| join_texts(&step.message, &step.refusal);
    let given: Vec<String> = sides.iter().filter_map(|side| side.at.as_ref()).map(text).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let mut marked = mark_differences(&given).into_iter();
    let of_side = |side: &&TrialColumn| side.at.as_ref().and_then(|_| marked.next());
    sides.iter().map(of_side).map(Option::unwrap_or_default).collect()
}

fn differing_outputs<'a>(sides: &[&'a TrialColumn]) -> Vec<(&'a TrialName, String)> {
    let outputs = |step: &Step| -> String {
        let all: Vec<&str> = step.calls.iter().filter_map(|call| call.shown.as_deref()).collect();
        all.join("\n")
    };
    let (names, texts): (Vec<&TrialName>, Vec<String>) =
        sides.iter().filter_map(|side| Some((&side.name, outputs(side.saw.as_ref()?)))).unzip();
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
            name: TrialName { arm: name.to_owned(), attempt: 1, ..TrialName::default() },
            href: format!("1/t/{name}/1"),
            word: "resolved",
            class: "yes",
            detail: String::new(),
            steps: (1..).zip(action_hashes).map(row).collect(),
            at: None,
            saw: None,
            step_texts: HashMap::new(),
            result: ComparedResult::default(),
        }
    }

    #[test]
    fn rows_show_the_part_that_differs_and_the_last_difference_has_a_link() {
        let [mut one, mut other] = [side("A", &[1, 2, 5, 3]), side("B", &[9, 2, 5, 4])];
        let long = "same text ".repeat(30);
        one.step_texts.insert(4, format!("{long}return 1"));
        other.step_texts.insert(4, format!("{long}return 2"));
        let page = render_side_by_side_page("t", &[one, other], &[], &Links::default()).unwrap();
        for mark in ["<mark>1</mark>", "<mark>2</mark>"] {
            assert!(page.contains(mark), "{mark}: {page}");
        }
        assert!(page.contains("The last difference is in <a href=\"#last\">step 4</a>"), "{page}");
        assert_eq!(page.matches("id=\"last\"").count(), 1);
        // If the trials differ in a single row, the link to the divergence is enough.
        let sides = [side("A", &[1, 2]), side("B", &[9, 2])];
        let page = render_side_by_side_page("t", &sides, &[], &Links::default()).unwrap();
        assert!(!page.contains("#last"), "{page}");
    }

    #[test]
    fn rows_of_three_trials_say_which_are_equal_and_show_each_difference() {
        let mut sides = [side("A", &[1, 2]), side("B", &[1, 3]), side("C", &[1, 2])];
        let long = "same text ".repeat(60);
        for (side, result) in sides.iter_mut().zip(["7", "8", "7"]) {
            side.step_texts.insert(2, format!("first line\n{long}return {result}"));
        }
        let page = render_side_by_side_page("t", &sides, &[], &Links::default()).unwrap();
        assert_eq!(page.matches("<mark>7</mark>").count(), 2, "{page}");
        assert_eq!(page.matches("<mark>8</mark>").count(), 1, "{page}");
        let groups = "<bdi>A</bdi> / 1 = <bdi>C</bdi> / 1; <bdi>B</bdi> / 1 differs";
        let plain = page.replace("<bdi> = </bdi>", " = ").replace("<bdi>; </bdi>", "; ");
        let plain = plain.replace("<bdi> differs</bdi>", " differs");
        assert!(plain.contains(groups), "{page}");
    }

    #[test]
    fn page_begins_with_the_results() {
        let result = |test: &str| ComparedResult {
            failed_tests: Some(vec![test.to_owned()]),
            patch: Some(vec![("a.py".to_owned(), format!("+{test}"))]),
            different_edit: Some(2),
            ..ComparedResult::default()
        };
        let sides = [("A", "t::x"), ("B", "t::y")]
            .map(|(arm, test)| TrialColumn { result: result(test), ..side(arm, &[1, 2]) });
        let page = render_side_by_side_page("t", &sides, &[], &Links::default()).unwrap();
        let lead = page.split("class=\"lead\"").nth(1).unwrap();
        let found = [
            "2 tests have different results",
            "The patches differ in a.py",
            "The first different edit",
            "step by step",
        ]
        .map(|text| lead.find(text).unwrap_or_else(|| panic!("{text}: {lead}")));
        assert!(found.is_sorted(), "{found:?}");
        assert!(lead.contains("href=\"1&#x2f;t&#x2f;A&#x2f;1&#x2f;step&#x2f;2\""), "{lead}");
    }

    #[test]
    fn trial_without_steps_is_compared_by_its_results_only() {
        let sides = [side("A", &[1, 2]), side("gold", &[])];
        let page = render_side_by_side_page("t", &sides, &[], &Links::default()).unwrap();
        assert!(page.contains("has no steps, so only results are compared"), "{page}");
        for text in ["diverge", "different</span>", "ended after"] {
            assert!(!page.contains(text), "{text}: {page}");
        }
    }

    #[test]
    fn step_of_only_one_trial_is_not_marked_as_a_difference() {
        let sides = [side("A", &[1, 2, 5, 6]), side("B", &[1, 3])];
        let page = render_side_by_side_page("t", &sides, &[], &Links::default()).unwrap();
        assert_eq!(page.matches("class=\"hidden\">different<").count(), 1, "{page}");
        assert_eq!(page.matches("class=\"hidden\">only one trial<").count(), 2, "{page}");
    }

    #[test]
    fn page_links_to_pairs_of_arms() {
        let choice = |arm: &str, attempt| TrialChoice {
            value: format!("1/t/{arm}/{attempt}"),
            name: TrialName { arm: arm.to_owned(), attempt, ..TrialName::default() },
            shown: true,
        };
        let choices = [choice("a", 1), choice("a", 2), choice("b", 1), choice("c", 1)];
        let pairs: Vec<String> = arm_pairs(&choices).into_iter().map(|pair| pair.query).collect();
        assert_eq!(pairs.len(), 3, "{pairs:?}");
        assert_eq!(pairs[0], "?trial=1%2Ft%2Fa%2F1&trial=1%2Ft%2Fb%2F1");
        assert!(arm_pairs(&choices[1..3]).is_empty(), "the page shows both anyway");
    }

    #[test]
    fn parts_of_a_trial_name_are_isolated_from_right_to_left_text() {
        let names = [("\u{5e9}", 1), ("b", 2)];
        let sides = names.map(|(arm, attempt)| TrialColumn {
            name: TrialName {
                run: "r".to_owned(),
                arm: arm.to_owned(),
                attempt,
                ..TrialName::default()
            },
            ..side("", &[1])
        });
        let page = render_side_by_side_page("t", &sides, &[], &Links::default()).unwrap();
        assert!(page.contains("<bdi>r</bdi>: <bdi>\u{5e9}</bdi> / 1"), "{page}");
    }

    #[test]
    fn page_says_that_a_trial_ended_instead_of_diverging() {
        let page = |sides: &[TrialColumn]| {
            render_side_by_side_page("t", sides, &[], &Links::default()).unwrap_or_default()
        };
        let ended = page(&[side("A", &[1, 2, 3]), side("B", &[1, 2])]);
        assert!(
            ended.contains("don't diverge") && ended.contains("</bdi> / 1 ended after 2 steps")
        );
        assert!(!ended.contains("Where they diverge"), "{ended}");
        let parted = page(&[side("A", &[1, 2, 3]), side("B", &[1, 4, 3])]);
        assert!(parted.contains("the trials diverge at") && parted.contains("Where they diverge"));
    }
}
