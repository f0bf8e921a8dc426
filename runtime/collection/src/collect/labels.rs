//! Compares a collection's tops with manual labels (`tests/tops.toml`). FeatureBench's paper does
//! the same for its model.

use std::collections::BTreeMap;

use proctor_types::{Fault, FaultLayer, ShippedTable};
use serde::{Deserialize, Serialize};

use super::{found_tops::TestFileTops, outcome::round_fraction};

const LABELS_TOML: &str = include_str!("../../tests/tops.toml");

/// Labeled tops by origin and test file. `Class.*` means all methods of a class, except those whose
/// names start with a single underscore.
type Labels = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// How accurate the tops are, over all functions that the labeled test files reach. All rates are
/// in [0, 1].
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TopsScore {
    pub files: usize,
    pub precision: f64,
    pub recall: f64,
    pub f1: f64,
    pub accuracy: f64,
}

/// Compares the tops of test files with their labels. Returns `None` if none of the files has
/// labels.
///
/// # Errors
/// Fails if the built-in labels file is invalid.
pub(super) fn score_tops(origin: &str, files: &[TestFileTops]) -> Result<Option<TopsScore>, Fault> {
    static LABELS: ShippedTable<Labels> = ShippedTable::new("tops.toml", LABELS_TOML);
    let labels = LABELS.get().map_err(|error| Fault::new(FaultLayer::Environment, error))?;
    let Some(labels) = labels.get(origin) else { return Ok(None) };
    let mut tally = Tally::default();
    for one in files {
        if let Some(labels) = labels.get(one.file()) {
            tally.count_file(labels, one.reached_functions());
        }
    }
    Ok((tally.files > 0).then(|| tally.score()))
}

#[derive(Debug, Default)]
struct Tally {
    files: usize,
    true_positives: usize,
    false_positives: usize,
    false_negatives: usize,
    true_negatives: usize,
}

impl Tally {
    fn count_file<'a>(
        &mut self,
        labels: &[String],
        candidates: impl Iterator<Item = (&'a str, bool)>,
    ) {
        self.files += 1;
        for (object, is_chosen) in candidates {
            let is_labelled = labels.iter().any(|label| label_matches(label, object));
            let counter = match (is_chosen, is_labelled) {
                (true, true) => &mut self.true_positives,
                (true, false) => &mut self.false_positives,
                (false, true) => &mut self.false_negatives,
                (false, false) => &mut self.true_negatives,
            };
            *counter += 1;
        }
    }

    fn score(&self) -> TopsScore {
        let share = |of: usize, all: usize| round_fraction(of as f64 / all.max(1) as f64);
        let (chosen, labeled) = (
            self.true_positives + self.false_positives,
            self.true_positives + self.false_negatives,
        );
        TopsScore {
            files: self.files,
            precision: share(self.true_positives, chosen),
            recall: share(self.true_positives, labeled),
            f1: share(2 * self.true_positives, chosen + labeled),
            accuracy: share(
                self.true_positives + self.true_negatives,
                chosen + self.false_negatives + self.true_negatives,
            ),
        }
    }
}

fn label_matches(label: &str, object: &str) -> bool {
    let Some(class) = label.strip_suffix('*') else { return label == object };
    object.strip_prefix(class).is_some_and(|method| {
        !method.contains('.') && (!method.starts_with('_') || method.starts_with("__"))
    })
}

impl TopsScore {
    /// Formats the score as a sentence for the summary.
    pub(super) fn summary_sentence(&self) -> String {
        format!(
            "\nTops against labels: {} test files, precision {:.2}, recall {:.2}, F1 {:.2}, accuracy {:.2}. FeatureBench's \
             paper gives F1 84.94 and accuracy 91.74 for its model and its own labels.\n",
            self.files,
            self.precision * 100.0,
            self.recall * 100.0,
            self.f1 * 100.0,
            self.accuracy * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn score_matches_manual_count() {
        let labels = ["m.py::f", "m.py::A.*"].map(str::to_owned);
        let chosen = [
            ("m.py::f", true),
            ("m.py::A.__init__", true),
            ("m.py::A.walk", false),
            ("m.py::A._hidden", true),
            ("m.py::A.B.walk", false),
            ("m.py::other", false),
        ];
        let mut tally = Tally::default();
        tally.count_file(&labels, chosen.into_iter());
        // Two of the three chosen functions are labeled, and two of the three labeled functions are
        // chosen. Four of the six decisions are correct.
        let score = tally.score();
        assert_eq!((score.files, score.precision, score.recall), (1, 0.6667, 0.6667));
        assert_eq!((score.f1, score.accuracy), (0.6667, 0.6667));
        assert!(
            score.summary_sentence().contains("F1 66.67, accuracy 66.67."),
            "{}",
            score.summary_sentence()
        );
    }

    #[test]
    fn built_in_labels_are_valid() {
        assert_eq!(score_tops("no-such==1", &[]).unwrap(), None);
        assert_eq!(score_tops("boltons==25.0.0", &[]).unwrap(), None);
    }
}
