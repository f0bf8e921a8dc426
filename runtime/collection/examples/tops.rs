//! Compares the tops of collections with manual labels (`tests/tops.toml`): `cargo run -p
//! proctor-collection --example tops -- OUT...`. Each OUT is created with `proctor collect
//! NAME==VERSION --dry-run --out OUT`.
//!
//! Prints precision, recall and F1 for the collections and for three simpler rules. The scores
//! cover all functions that the labeled test files reach.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a developer tool")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
};

use serde_json::Value;

type Labels = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// The F1 score that FeatureBench's paper reports for its model, in percent.
const PAPER_F1_PERCENT: f64 = 84.94;

#[derive(Default)]
struct Tally {
    true_positives: usize,
    false_positives: usize,
    false_negatives: usize,
    true_negatives: usize,
}

impl Tally {
    fn count(&mut self, is_chosen: bool, is_labeled: bool) {
        let counter = match (is_chosen, is_labeled) {
            (true, true) => &mut self.true_positives,
            (true, false) => &mut self.false_positives,
            (false, true) => &mut self.false_negatives,
            (false, false) => &mut self.true_negatives,
        };
        *counter += 1;
    }

    fn print(&self, name: &str) {
        let share = |of: usize, all: usize| 100.0 * of as f64 / all.max(1) as f64;
        let (right, said, is) = (
            self.true_positives,
            self.true_positives + self.false_positives,
            self.true_positives + self.false_negatives,
        );
        let f1 = share(2 * right, said + is);
        let all = said + self.false_negatives + self.true_negatives;
        println!(
            "{name:28} precision {:5.1}  recall {:5.1}  F1 {f1:5.1}  accuracy {:5.1}",
            share(right, said),
            share(right, is),
            share(right + self.true_negatives, all)
        );
    }
}

/// Whether a label matches an object: its name, or `Class.*`.
fn label_matches(label: &str, object: &str) -> bool {
    let Some(class) = label.strip_suffix('*') else { return label == object };
    object.strip_prefix(class).is_some_and(|method| {
        !method.contains('.') && (!method.starts_with('_') || method.starts_with("__"))
    })
}

fn main() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tops.toml")).unwrap();
    let labels: Labels = toml::from_str(&text).unwrap();
    let [mut score, mut all, mut first, mut direct] = <[Tally; 4]>::default();
    let (mut files, mut unreached) = (0, BTreeSet::new());
    for out in env::args().skip(1) {
        let report: Value =
            serde_json::from_slice(&fs::read(format!("{out}/report.json")).unwrap()).unwrap();
        let origin = report["origin"].as_str().unwrap();
        let Some(labels) = labels.get(origin) else {
            println!("{out}: there are no labels for {origin}");
            continue;
        };
        for line in fs::read_to_string(format!("{out}/tops.jsonl")).unwrap().lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let file = row["file"].as_str().unwrap();
            let Some(labels) = labels.get(file) else { continue };
            files += 1;
            let candidates = row["candidates"].as_array().unwrap();
            let known: BTreeSet<&str> =
                candidates.iter().map(|it| it["object"].as_str().unwrap()).collect();
            let mut wrong = Vec::new();
            let below = row["below"].as_array().unwrap();
            let below = below.iter().map(|it| (it.as_str().unwrap(), None));
            let seen = candidates.iter().map(|it| (it["object"].as_str().unwrap(), Some(it)));
            for (object, candidate) in seen.chain(below) {
                let is = labels.iter().any(|label| label_matches(label, object));
                let because = candidate.map(|it| &it["because"]);
                let has = |what: &str| because.is_some_and(|it| it.get(what).is_some());
                let said = candidate.is_some_and(|it| it["top"] == true);
                score.count(said, is);
                all.count(true, is);
                first.count(has("first_level"), is);
                direct.count(has("direct"), is);
                if said != is {
                    wrong.push(format!("{}{object}", if said { '+' } else { '-' }));
                }
            }
            for label in labels.iter().filter(|label| !label.ends_with('*')) {
                if !known.contains(label.as_str())
                    && !row["below"].to_string().contains(label.as_str())
                {
                    unreached.insert(format!("{file}: {label}"));
                }
            }
            println!("{file} {}", wrong.join(" "));
        }
    }
    println!(
        "\n{files} test files; + means chosen but not labeled, - means labeled but not chosen"
    );
    for label in unreached {
        println!("labeled but not reached: {label}");
    }
    score.print("the collection's scores");
    all.print("all reached functions");
    first.print("direct calls");
    direct.print("imported by name");
    println!("FeatureBench's paper, with a model and its own labels: F1 {PAPER_F1_PERCENT}");
}
