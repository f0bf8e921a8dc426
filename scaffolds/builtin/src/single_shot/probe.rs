//! Scores the contamination probe, which asks a model to name definitions that it has not seen.

use std::collections::BTreeSet;

use proctor_answers::{defined_name, parse_named_definitions};
use proctor_scaffold_api::GoldFacts;

use super::evidence::ProbeRecord;

/// Compares the response with the definitions in the gold patch. Each definition counts once, even
/// if the response names it several times.
pub(super) fn score_probe(answer: &str, gold: &GoldFacts) -> ProbeRecord {
    let said = parse_named_definitions(answer);
    let files = |all: Vec<&str>| all.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    let said_files = files(said.iter().map(|one| one.file.as_str()).collect());
    let gold_files = files(gold.definitions.iter().map(|(file, _)| file.as_str()).collect());
    let count = |fits: &dyn Fn(&str, &str) -> bool| {
        gold.definitions.iter().filter(|(file, signature)| fits(file, signature)).count()
    };
    ProbeRecord {
        named: said.len(),
        gold: gold.definitions.len(),
        files: gold_files.intersection(&said_files).count(),
        names: count(&|file, signature| {
            said.iter().any(|one| {
                one.file == file && one.name().is_some() && one.name() == defined_name(signature)
            })
        }),
        signatures: count(&|file, signature| said.iter().any(|one| one.matches(file, signature))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn score_counts_files_names_and_signatures_separately() {
        let defined = [("a.py", "def f(x, y=1):"), ("a.py", "def g():"), ("b.py", "class C:")];
        let defined =
            defined.map(|(file, signature)| (file.to_owned(), signature.to_owned())).to_vec();
        let gold = GoldFacts { definitions: defined, ..GoldFacts::default() };
        let answer = "FILE: a.py\nSIGNATURE: def f(x, y = 1)\nFILE: a.py\nSIGNATURE: def g(z):\nFILE: c.py\nSIGNATURE: class C:";
        let scored = score_probe(answer, &gold);
        assert_eq!(scored, ProbeRecord { named: 3, gold: 3, files: 1, names: 2, signatures: 1 });
        assert_eq!(
            score_probe("I do not know.", &gold),
            ProbeRecord { gold: 3, ..ProbeRecord::default() }
        );
    }
}
