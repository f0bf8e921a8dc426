//! Finds tasks that request the same work.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proctor_types::Task;
use proctor_wire::{WINDOW_LINES, fingerprint};

use crate::quality::{
    gold::added_lines, interfaces::requested_interfaces, settings::DuplicateSettings,
};

/// Returns, for each task, the positions of the earlier tasks that it duplicates.
pub(crate) fn find_duplicates(
    tasks: &[&Task],
    settings: &DuplicateSettings,
) -> Vec<BTreeSet<usize>> {
    let mut found = vec![BTreeSet::new(); tasks.len()];
    let mut statements: HashMap<&str, usize> = HashMap::new();
    for (at, task) in tasks.iter().enumerate() {
        let first = *statements.entry(task.statement.trim()).or_insert(at);
        if first != at {
            found[at].insert(first);
        }
    }
    let runs: Vec<BTreeSet<u64>> =
        tasks.iter().map(|task| line_window_hashes(task, settings)).collect();
    let mut holders: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, own) in runs.iter().enumerate() {
        let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
        for run in own {
            let holders = holders.entry(*run).or_default();
            for other in &*holders {
                *shared.entry(*other).or_default() += 1;
            }
            holders.push(at);
        }
        for (other, shared) in shared {
            let smaller = own.len().min(runs[other].len());
            let is_enough = shared as f64 >= smaller as f64 * settings.share;
            // FeatureBench lists the same feature at two levels: inside its package and from
            // scratch. Such a pair is not a duplicate.
            let one_level = tasks[at].level == tasks[other].level;
            if one_level && smaller >= settings.least_runs && is_enough {
                found[at].insert(other);
            }
        }
    }
    found
}

/// Returns hashes of the requested code, one per window of lines. Uses the gold patch or, for a
/// from-scratch task, the interface. Gold patches of from-scratch tasks copy whole modules, so
/// different tasks share most of their code.
fn line_window_hashes(task: &Task, settings: &DuplicateSettings) -> BTreeSet<u64> {
    let pieces = match task.from_scratch {
        Some(_) => requested_interfaces(&task.statement, settings),
        None => added_lines(task),
    };
    let mut all = BTreeSet::new();
    for run in pieces {
        let lines: Vec<u64> = run
            .iter()
            .filter_map(|line| fingerprint::hash_line(line.as_bytes()))
            .map(|line| line.0)
            .collect();
        all.extend(lines.windows(WINDOW_LINES).map(fingerprint::hash_window));
    }
    all
}

#[cfg(test)]
mod tests {
    use proctor_types::FromScratch;

    use super::*;
    use crate::quality::{judge::tests::task, settings::Settings};

    #[test]
    fn find_duplicates_matches_gold_or_statement_within_a_level() {
        let code = |name: &str| -> String {
            (0..9).map(|n| format!("    {name}_{n} = side({n}) + {n}\n")).collect()
        };
        let more = format!("{}{}", code("coin"), code("dice"));
        let tasks = [
            task("a", "one", &code("coin")),
            task("b", "two", &code("dice")),
            task("c", "three", &more),
            task("d", " one ", &code("card")),
        ];
        let found = |tasks: &[Task]| {
            let tasks: Vec<&Task> = tasks.iter().collect();
            find_duplicates(&tasks, &Settings::get().unwrap().duplicates)
        };
        let expected = [vec![], vec![], vec![0, 1], vec![0]];
        assert_eq!(found(&tasks), expected.map(BTreeSet::from_iter));
        // The same feature from scratch is a different task.
        let [coin, dice, mut both, card] = tasks;
        both.level = Some(2);
        let expected = [vec![], vec![], vec![], vec![0]];
        assert_eq!(found(&[coin, dice, both, card]), expected.map(BTreeSet::from_iter));
    }

    #[test]
    fn find_duplicates_compares_interfaces_of_from_scratch_tasks() {
        let code: String = (0..9).map(|n| format!("    coin_{n} = side({n}) + {n}\n")).collect();
        let stub = |name: &str| -> String {
            (0..4).map(|n| format!("def {name}_{n}(side):\n    ...\n")).collect()
        };
        let scratch = |id: &str, what: &str| {
            let statement = format!(
                "# Write {id}\n\n## What `agent_code` must have\n\n```python\n{what}```\n\n\
                 ## What the library has\n\n```python\n{}```\n",
                stub("kept")
            );
            let mut task = task(id, &statement, &code);
            task.level = Some(2);
            task.from_scratch =
                Some(FromScratch { files: BTreeMap::new(), install: "pip install .".into() });
            task
        };
        let both = format!("{}{}", stub("signal"), stub("symbol"));
        let tasks =
            [scratch("a", &stub("signal")), scratch("b", &stub("symbol")), scratch("c", &both)];
        let tasks: Vec<&Task> = tasks.iter().collect();
        let found = find_duplicates(&tasks, &Settings::get().unwrap().duplicates);
        assert_eq!(found, [vec![], vec![], vec![0, 1]].map(BTreeSet::from_iter));
    }
}
