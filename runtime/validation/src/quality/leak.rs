//! Measures how much of the solution the statement reveals.

use std::collections::HashSet;

use proctor_types::Task;

use crate::quality::{gold::added_lines, settings::LeakSettings};

/// Returns the fraction of word sequences in the gold patch's code that also occur in the
/// statement, in [0, 1]. Returns `None` if the gold patch has too little code to judge.
pub(crate) fn leak_score(task: &Task, settings: &LeakSettings) -> Option<f64> {
    let mut runs: HashSet<Vec<String>> = HashSet::new();
    for lines in added_lines(task) {
        let mut code = code_lines(&lines, settings);
        // A word sequence does not continue across an interface's lines.
        while !code.is_empty() {
            let end = code.iter().position(Option::is_none).unwrap_or(code.len());
            let piece: Vec<&str> = code.drain(..end).flatten().collect();
            runs.extend(word_sequences(&piece.join("\n"), settings.words));
            code.drain(..code.len().min(1));
        }
    }
    if runs.len() < settings.least_runs {
        return None;
    }
    let told: HashSet<Vec<String>> = word_sequences(&task.statement, settings.words).collect();
    let shared = runs.iter().filter(|run| told.contains(*run)).count();
    Some((shared as f64 / runs.len() as f64 * 1e4).round() / 1e4)
}

/// Returns the lines, with `None` in place of lines that belong to interfaces or docstrings.
fn code_lines<'a>(lines: &'a [String], settings: &LeakSettings) -> Vec<Option<&'a str>> {
    let mut inside: Option<&str> = None;
    let mut all = Vec::new();
    for line in lines {
        let bare = line.trim_start();
        if let Some(mark) = inside {
            if bare.contains(mark) {
                inside = None;
            }
            all.push(None);
            continue;
        }
        // A docstring may have a prefix: `r"""`.
        let quoted = bare.trim_start_matches(['r', 'R', 'u', 'U']);
        let mark = settings.docstrings.iter().find(|mark| quoted.starts_with(mark.as_str()));
        if let Some(mark) = mark {
            // The docstring may end on the same line.
            if bare.matches(mark.as_str()).count() < 2 {
                inside = Some(mark);
            }
            all.push(None);
            continue;
        }
        let interface = settings.interface.iter().any(|word| bare.starts_with(word.as_str()));
        all.push((!interface).then_some(line.as_str()));
    }
    all
}

fn word_sequences(text: &str, word_count: usize) -> impl Iterator<Item = Vec<String>> {
    let all: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    let count = (all.len() + 1).saturating_sub(word_count);
    (0..count).map(move |at| all[at..at + word_count].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::{judge::tests::task, settings::Settings};

    const CODE: &str = "def tails(coin):\n    \"\"\"Say how often\n    it fell so.\n    \"\"\"\n    count = 0\n    for side in coin.sides:\n        count += side.fell(\n            coin.hand, times=7)\n    return count\n";

    #[test]
    fn leak_score_counts_code_but_not_interface_in_statement() {
        let leak = &Settings::get().unwrap().leak;
        let of = |statement: &str| leak_score(&task("a", statement, CODE), leak);
        let interface = CODE.lines().take(4).collect::<Vec<_>>().join("\n");
        assert_eq!(of(&format!("Write this:\n{interface}")), Some(0.0));
        assert_eq!(of(&format!("Write this:\n{CODE}")), Some(1.0));
        let raw = CODE.replace("\"\"\"Say", "r\"\"\"Say");
        assert_eq!(leak_score(&task("a", &interface, &raw), leak), Some(0.0), "a raw docstring");
        let half = of("for side in coin.sides:\n count += side.fell(").unwrap();
        assert!(half > 0.0 && half < 0.5, "{half}");
        assert_eq!(leak_score(&task("a", "x", "def f():\n    return 1\n"), leak), None);
    }
}
