//! Pairs similar steps of two trials, so that a page can show them next to each other.

use std::collections::BTreeSet;

use super::StepRow;

/// Maximum number of pairs of steps that are compared. Longer sequences are not paired.
const MAX_COMPARED_PAIRS: usize = 40_000;
/// The least similarity of two steps that are not edits. Half of their words are the same.
const MIN_SIMILARITY: u32 = 50;
/// What two edits count more than their common words. So edits are paired with edits first, even if
/// other steps have more words in common.
const EDIT_BONUS: u32 = 200;

/// Pairs steps so that the sum of their similarities is as large as possible, in the order of both
/// trials. Each pair has the indexes of its steps. Of equally good pairs, the first ones are taken.
pub(crate) fn pair_steps(one: &[StepRow], other: &[StepRow]) -> Vec<(usize, usize)> {
    if one.len().saturating_mul(other.len()) > MAX_COMPARED_PAIRS {
        return Vec::new();
    }
    let words = |rows: &[StepRow]| -> Vec<BTreeSet<String>> { rows.iter().map(words_of).collect() };
    let (words_one, words_other) = (words(one), words(other));
    let width = other.len() + 1;
    let mut similarities = vec![0_u32; one.len() * other.len()];
    // The largest sum of similarities of the steps from `a` and from `b` on.
    let mut sums = vec![0_u32; (one.len() + 1) * width];
    for a in (0..one.len()).rev() {
        for b in (0..other.len()).rev() {
            let is_edit = (one[a].changed > 0, other[b].changed > 0);
            let similarity = similarity(is_edit, &words_one[a], &words_other[b]);
            similarities[a * other.len() + b] = similarity;
            let apart = sums[(a + 1) * width + b].max(sums[a * width + b + 1]);
            let paired = sums[(a + 1) * width + b + 1] + similarity;
            sums[a * width + b] = if similarity > 0 { apart.max(paired) } else { apart };
        }
    }
    let (mut pairs, mut a, mut b) = (Vec::new(), 0, 0);
    while a < one.len() && b < other.len() {
        let similarity = similarities[a * other.len() + b];
        let paired = sums[(a + 1) * width + b + 1] + similarity;
        if similarity > 0 && sums[a * width + b] == paired {
            pairs.push((a, b));
            (a, b) = (a + 1, b + 1);
        } else if sums[(a + 1) * width + b] >= sums[a * width + b + 1] {
            a += 1;
        } else {
            b += 1;
        }
    }
    pairs
}

/// Returns how similar two steps are. 0 means that they don't belong together: an edit is never
/// similar to a step that changes nothing. `is_edit` says which of the steps are edits.
fn similarity(
    is_edit: (bool, bool),
    words_one: &BTreeSet<String>,
    words_other: &BTreeSet<String>,
) -> u32 {
    let common = words_one.intersection(words_other).count();
    let all = words_one.union(words_other).count();
    // Two steps without words are as similar as they can be.
    let percent = (common * 100).checked_div(all).unwrap_or(100) as u32;
    match is_edit {
        (true, true) => EDIT_BONUS + percent,
        (false, false) if percent >= MIN_SIMILARITY => percent,
        _ => 0,
    }
}

/// Returns the words of a step's calls, such as the names of the tool and the file.
fn words_of(row: &StepRow) -> BTreeSet<String> {
    let is_outside = |sign: char| !(sign.is_alphanumeric() || "_./-".contains(sign));
    let words = row.did.iter().flat_map(|text| text.split(is_outside));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps whose text begins with `edit` change a file.
    fn rows(texts: &[&str]) -> Vec<StepRow> {
        let row = |text: &&str| StepRow {
            did: vec![(*text).to_owned()],
            changed: u64::from(text.starts_with("edit")),
            ..StepRow::default()
        };
        texts.iter().map(row).collect()
    }

    #[test]
    fn edits_of_the_same_file_are_paired() {
        for (one, other, expected) in [
            // An edit is paired with an edit, whatever the step's number is.
            (
                vec!["shell: ls", "edit: a.py def f"],
                vec!["edit: a.py def f(x)", "shell: pytest"],
                vec![(1, 0)],
            ),
            // Of several edits, the one of the same file is taken.
            (vec!["edit: a.py x"], vec!["edit: b.py y", "edit: a.py z"], vec![(0, 1)]),
            (vec!["edit: a.py x"], vec!["shell: cat a.py x"], vec![]),
            (vec!["shell: cat a.py"], vec!["shell: cat b.py"], vec![(0, 0)]),
            (vec!["shell: cat a.py"], vec!["shell: pytest -q"], vec![]),
            // Pairs keep the order of both trials.
            (
                vec!["edit: a.py 1", "edit: b.py 2"],
                vec!["edit: b.py 2", "edit: a.py 1"],
                vec![(0, 0), (1, 1)],
            ),
            (vec![], vec!["edit: a.py"], vec![]),
        ] {
            assert_eq!(pair_steps(&rows(&one), &rows(&other)), expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn long_sequences_are_not_compared() {
        let long = rows(&vec!["edit: a.py"; MAX_COMPARED_PAIRS + 1]);
        assert!(pair_steps(&long, &rows(&["edit: a.py"])).is_empty());
    }
}
