//! Finds where trials of a task diverge, and describes how.

use std::ops::Range;

use serde::Serialize;

use super::{Step, StepRow, TrialName, sentence::Sentence, step_pairs::pair_steps};

/// Maximum number of table cells for the alignment of two trials: 2,000 steps each. Longer trials
/// are aligned by step number.
const MAX_ALIGNMENT_CELLS: usize = 4_000_000;
/// Maximum number of lines shown of an output, from the first line that differs.
const MAX_OUTPUT_LINES: usize = 20;
/// Where trials diverge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Number of steps before the trials diverge. If they never diverge, the number of steps that
    /// at least two trials have.
    pub alike: usize,
    /// Whether two trials took different steps. A trial that ended earlier than the others has not
    /// diverged.
    pub parted: bool,
    /// The first identical step whose results differ between the trials, counted from 1.
    pub saw: Option<usize>,
    /// The trials that ended before the others diverged or ended, by index.
    pub ended: Vec<usize>,
}

/// Finds where trials diverge. Two steps count as the same if the model made the same calls or,
/// without calls, wrote the same message.
pub fn find_divergence(trials: &[&[StepRow]]) -> Divergence {
    let longest = trials.iter().map(|rows| rows.len()).max().unwrap_or_default();
    let (mut alike, mut parted, mut saw) = (0, false, None);
    for at in 0..longest {
        let mut rows = trials.iter().filter_map(|rows| rows.get(at));
        let Some(first) = rows.next() else { break };
        let others: Vec<&StepRow> = rows.collect();
        // Only one trial has this many steps, so there is nothing to compare it with.
        if others.is_empty() {
            break;
        }
        if others.iter().any(|row| row.action_hash != first.action_hash) {
            parted = true;
            break;
        }
        alike = at + 1;
        if saw.is_none() && others.iter().any(|row| row.result_hash != first.result_hash) {
            saw = Some(alike);
        }
    }
    let end = if parted { alike + 1 } else { longest };
    let ended = trials.iter().enumerate().filter(|(_, rows)| rows.len() < end);
    Divergence { alike, parted, saw, ended: ended.map(|(index, _)| index).collect() }
}

/// Describes how steps differ, in one sentence. `steps` has the name and the step of each trial
/// that has one.
pub(crate) fn describe_divergence(steps: &[(&TrialName, &Step)]) -> Sentence {
    let (calling, silent): (Vec<_>, Vec<_>) =
        steps.iter().partition(|(_, step)| !step.calls.is_empty());
    if calling.is_empty() {
        return Sentence::from_text("They write different messages.");
    }
    if !silent.is_empty() {
        let plain = |names: &[&(&TrialName, &Step)]| -> Vec<TrialName> {
            names.iter().map(|(name, _)| (*name).clone()).collect()
        };
        let (calling, silent) = (plain(&calling), plain(&silent));
        return Sentence::default()
            .names(calling.iter().map(|name| (name, String::new())), " and ")
            .text(if calling.len() == 1 { " calls a tool; " } else { " call a tool; " })
            .names(silent.iter().map(|name| (name, String::new())), " and ")
            .text(if silent.len() == 1 {
                " only writes a message."
            } else {
                " only write a message."
            });
    }
    let most = steps.iter().map(|(_, step)| step.calls.len()).max().unwrap_or_default();
    for at in 0..most {
        let calls: Vec<_> = steps.iter().filter_map(|(_, step)| step.calls.get(at)).collect();
        let Some(first) = calls.first() else { break };
        if calls.len() < steps.len() {
            let counts =
                steps.iter().map(|(name, step)| (*name, format!(" makes {}", step.calls.len())));
            return Sentence::from_text("They make different numbers of calls: ")
                .names(counts, ", ")
                .text(".");
        }
        if calls.iter().any(|call| call.name != first.name) {
            let tools = steps.iter().zip(&calls);
            let tools = tools.map(|((name, _), call)| (*name, format!(" calls {}", call.name)));
            return Sentence::from_text("They call different tools: ").names(tools, ", ").text(".");
        }
        if calls.iter().any(|call| call.arguments != first.arguments) {
            return Sentence::from_text(format!(
                "They call {} with different arguments.",
                first.name
            ));
        }
    }
    Sentence::from_text("Their calls look the same but were recorded differently.")
}

/// Returns the lines in which outputs differ: each text without the lines that all texts have in
/// common at their start and end.
pub(crate) fn differing_lines(texts: &[&str]) -> Vec<String> {
    let all: Vec<Vec<&str>> = texts.iter().map(|text| text.lines().collect()).collect();
    let Some((first, others)) = all.split_first() else { return Vec::new() };
    let shortest = all.iter().map(Vec::len).min().unwrap_or_default();
    let before =
        (0..shortest).take_while(|at| others.iter().all(|lines| lines[*at] == first[*at])).count();
    let after = (1..=shortest - before)
        .take_while(|at| {
            others.iter().all(|lines| lines[lines.len() - at] == first[first.len() - at])
        })
        .count();
    let different = |lines: &Vec<&str>| {
        let lines = &lines[before..lines.len() - after];
        let shown = &lines[..lines.len().min(MAX_OUTPUT_LINES)];
        let mut text = shown.join("\n");
        if shown.len() < lines.len() {
            text += &format!("\n[{} more lines]", lines.len() - shown.len());
        }
        text
    };
    all.iter().map(different).collect()
}

/// Aligns steps so that equal steps of two trials share a row. Each row has the index of each
/// trial's step. More than two trials are aligned by step number.
pub(crate) fn align_steps(trials: &[&[StepRow]]) -> Vec<Vec<Option<usize>>> {
    if let [one, other] = trials
        && one.len().saturating_mul(other.len()) <= MAX_ALIGNMENT_CELLS
    {
        return align_pair(one, other);
    }
    let longest = trials.iter().map(|rows| rows.len()).max().unwrap_or_default();
    let row = |at: usize| trials.iter().map(|rows| (at < rows.len()).then_some(at)).collect();
    (0..longest).map(row).collect()
}

/// Whether a row's trials all have a step and it is the same in all of them. `row` has the index of
/// each trial's step.
pub(crate) fn is_same_step(trials: &[&[StepRow]], row: &[Option<usize>]) -> bool {
    let mut hashes = trials
        .iter()
        .zip(row)
        .map(|(rows, at)| at.and_then(|at| rows.get(at)).map(|step| step.action_hash));
    let first = hashes.next().flatten();
    first.is_some() && hashes.all(|hash| hash == first)
}

/// Returns, for each trial, the numbers of the steps that share a row with a different step of
/// another trial.
pub fn differing_steps(trials: &[&[StepRow]]) -> Vec<Vec<u64>> {
    let mut numbers = vec![Vec::new(); trials.len()];
    for row in align_steps(trials) {
        if row.iter().flatten().count() < 2 || is_same_step(trials, &row) {
            continue;
        }
        for ((rows, at), of_trial) in trials.iter().zip(row).zip(&mut numbers) {
            of_trial.extend(at.and_then(|at| rows.get(at)).map(|step| step.number));
        }
    }
    numbers
}

/// Finds the longest common subsequence of two trials' steps. Between two common steps, similar
/// steps share rows, such as two edits of the same file. The other steps share rows in order.
fn align_pair(one: &[StepRow], other: &[StepRow]) -> Vec<Vec<Option<usize>>> {
    let is_same = |a: usize, b: usize| one[a].action_hash == other[b].action_hash;
    let width = other.len() + 1;
    // The length of the longest common subsequence of the steps from `a` and from `b` on.
    let mut lengths = vec![0_u32; (one.len() + 1) * width];
    for a in (0..one.len()).rev() {
        for b in (0..other.len()).rev() {
            lengths[a * width + b] = match is_same(a, b) {
                true => lengths[(a + 1) * width + b + 1] + 1,
                false => lengths[(a + 1) * width + b].max(lengths[a * width + b + 1]),
            };
        }
    }
    let mut rows = Vec::new();
    let (mut a, mut b) = (0, 0);
    loop {
        let (from_a, from_b) = (a, b);
        // Skip to the next common step, or to the end of both trials.
        while a < one.len() && b < other.len() && !is_same(a, b) {
            if lengths[(a + 1) * width + b] >= lengths[a * width + b + 1] {
                a += 1;
            } else {
                b += 1;
            }
        }
        let is_end = a == one.len() || b == other.len();
        if is_end {
            (a, b) = (one.len(), other.len());
        }
        let pairs = pair_steps(&one[from_a..a], &other[from_b..b]);
        let (mut next_a, mut next_b) = (from_a, from_b);
        for (index_a, index_b) in pairs {
            add_rows(&mut rows, next_a..from_a + index_a, next_b..from_b + index_b);
            rows.push(vec![Some(from_a + index_a), Some(from_b + index_b)]);
            (next_a, next_b) = (from_a + index_a + 1, from_b + index_b + 1);
        }
        add_rows(&mut rows, next_a..a, next_b..b);
        if is_end {
            return rows;
        }
        rows.push(vec![Some(a), Some(b)]);
        (a, b) = (a + 1, b + 1);
    }
}

/// Adds rows in which steps share rows in order.
fn add_rows(rows: &mut Vec<Vec<Option<usize>>>, one: Range<usize>, other: Range<usize>) {
    for at in 0..one.len().max(other.len()) {
        let step = |range: &Range<usize>| range.clone().nth(at);
        rows.push(vec![step(&one), step(&other)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::Call;

    fn step_rows(action_hashes: &[u64], result_hashes: &[u64]) -> Vec<StepRow> {
        let row = |(act, seen): (&u64, &u64)| StepRow {
            action_hash: *act,
            result_hash: *seen,
            ..StepRow::default()
        };
        action_hashes.iter().zip(result_hashes).map(row).collect()
    }

    fn step(calls: &[(&str, &str)]) -> Step {
        let call = |(name, arguments): &(&str, &str)| Call {
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
            ..Call::default()
        };
        Step { calls: calls.iter().map(call).collect(), ..Step::default() }
    }

    #[test]
    fn trials_diverge_at_first_differing_step() {
        let (a, b) = (step_rows(&[1, 2, 3], &[1, 1, 1]), step_rows(&[1, 2, 4, 5], &[1, 9, 1, 1]));
        let short = step_rows(&[1], &[1]);
        let none = |alike| Divergence { alike, parted: false, saw: None, ended: vec![] };
        assert_eq!(
            find_divergence(&[&a, &b]),
            Divergence { parted: true, saw: Some(2), ..none(2) }
        );
        assert_eq!(
            find_divergence(&[&a, &b, &short]),
            Divergence { parted: true, saw: Some(2), ended: vec![2], ..none(2) }
        );
        assert_eq!(find_divergence(&[&a, &a]), none(3));
        assert_eq!(find_divergence(&[]), none(0));
    }

    #[test]
    fn trial_that_ends_early_does_not_diverge() {
        let (long, short) = (step_rows(&[1, 2, 3], &[1, 1, 1]), step_rows(&[1, 2], &[1, 1]));
        let ended = Divergence { alike: 2, parted: false, saw: None, ended: vec![1] };
        assert_eq!(find_divergence(&[&long, &short]), ended);
        assert_eq!(find_divergence(&[&long, &[]]), Divergence { alike: 0, ..ended });
    }

    #[test]
    fn divergence_is_described() {
        let (shell, other) = (step(&[("shell", "ls")]), step(&[("shell", "cat a")]));
        let (edit, message) = (step(&[("edit", "a")]), step(&[]));
        let two = step(&[("shell", "ls"), ("shell", "pwd")]);
        for (a, b, expected) in [
            (&shell, &other, "They call shell with different arguments."),
            (&shell, &edit, "They call different tools: A calls shell, B calls edit."),
            (&shell, &message, "A calls a tool; B only writes a message."),
            (&message, &message, "They write different messages."),
            (&shell, &two, "They make different numbers of calls: A makes 1, B makes 2."),
        ] {
            let [one, other] =
                ["A", "B"].map(|arm| TrialName { arm: arm.to_owned(), ..TrialName::default() });
            let sentence = describe_divergence(&[(&one, a), (&other, b)]);
            let text = sentence.plain_text();
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn steps_that_share_a_row_but_differ_are_listed() {
        let numbered = |hashes: &[u64]| -> Vec<StepRow> {
            let rows = step_rows(hashes, hashes).into_iter().zip(1..);
            rows.map(|(row, number)| StepRow { number, ..row }).collect()
        };
        let (a, b) = (numbered(&[1, 7, 2, 3]), numbered(&[1, 2, 4]));
        // Step 2 of the first trial has no counterpart.
        assert_eq!(differing_steps(&[&a, &b]), [vec![4], vec![3]]);
        assert_eq!(differing_steps(&[&a, &a]), [vec![], vec![]] as [Vec<u64>; 2]);
    }

    #[test]
    fn outputs_are_reduced_to_lines_that_differ() {
        assert_eq!(differing_lines(&["a\nb\nz", "a\nc\nd\nz"]), ["b", "c\nd"]);
        assert_eq!(differing_lines(&["a\na", "a"]), ["a", ""]);
        let long = "x\n".repeat(MAX_OUTPUT_LINES + 2);
        assert!(differing_lines(&[&long, ""])[0].ends_with("x\n[2 more lines]"));
    }

    #[test]
    fn equal_steps_share_a_row() {
        let rows = |hashes: &[u64]| step_rows(hashes, hashes);
        let (a, b) = (rows(&[1, 7, 2, 3]), rows(&[1, 2, 8, 9, 3]));
        assert_eq!(
            align_steps(&[&a, &b]),
            [
                vec![Some(0), Some(0)],
                vec![Some(1), None],
                vec![Some(2), Some(1)],
                vec![None, Some(2)],
                vec![None, Some(3)],
                vec![Some(3), Some(4)],
            ]
        );
        let (a, b) = (rows(&[5, 6]), rows(&[7]));
        assert_eq!(align_steps(&[&a, &b]), [vec![Some(0), Some(0)], vec![Some(1), None]]);
        assert_eq!(align_steps(&[&a, &b, &a]).len(), 2);
    }

    #[test]
    fn similar_steps_share_a_row() {
        let row = |(hash, text): (u64, &&str)| {
            let changed = u64::from(text.starts_with("edit"));
            StepRow {
                action_hash: hash,
                did: vec![(*text).to_owned()],
                changed,
                ..StepRow::default()
            }
        };
        let one: Vec<StepRow> =
            (1..).zip(&["shell: ls", "shell: cat a.py", "edit: a.py def f"]).map(row).collect();
        let other: Vec<StepRow> =
            (10..).zip(&["edit: a.py def f two", "shell: pytest"]).map(row).collect();
        assert_eq!(
            align_steps(&[&one, &other]),
            [vec![Some(0), None], vec![Some(1), None], vec![Some(2), Some(0)], vec![None, Some(1)],]
        );
    }
}
