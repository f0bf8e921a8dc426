//! Chooses the project's other test files whose tests must still pass after code is removed.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::count_with_noun;
use serde::Serialize;

use super::{
    graph::FileGraph,
    seeded_rng::SeededRng,
    settings::{PassSettings, Policy},
};

/// The files whose tests must still pass, and the tops that may be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct OtherFiles {
    pub(super) policy: Policy,
    pub(super) files: Vec<String>,
    #[serde(skip)]
    pub(super) tops: BTreeSet<usize>,
}

/// Chooses files according to the given policy.
///
/// # Errors
/// Returns the reason as a sentence if there are too few files or if no top is left.
pub(super) fn choose_other_files(
    policy: Policy,
    file: &str,
    tops: &BTreeSet<usize>,
    graphs: &BTreeMap<String, FileGraph>,
    settings: &PassSettings,
    rng: &mut SeededRng,
) -> Result<OtherFiles, String> {
    let others: Vec<(&String, &FileGraph)> =
        graphs.iter().filter(|(name, _)| *name != file).collect();
    // A project with few test files may use any of them. Otherwise, one central test file would
    // make every other file useless.
    let is_small = others.len() <= settings.files;
    let enough = if is_small { settings.fewest } else { settings.files };
    if others.is_empty() && settings.fewest > 0 {
        return Err("no other test file has tests that pass every time".to_owned());
    }
    if others.len() < enough {
        return Err(format!(
            "{}, but {} needed",
            format_other_files(others.len()),
            count_with_verb(enough)
        ));
    }
    let names = |chosen: Vec<&String>| chosen.into_iter().cloned().collect::<Vec<_>>();
    let everything = || others.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    match policy {
        Policy::All => Ok(OtherFiles { policy, files: names(everything()), tops: tops.clone() }),
        Policy::Random => {
            let mut files = names(rng.sample(everything(), settings.files));
            files.sort();
            Ok(OtherFiles { policy, files, tops: tops.clone() })
        }
        Policy::Least => {
            // For each top, count the other files that reach it. Drop the top that the most files
            // reach, until enough files reach none of the tops.
            let wanted = |top: &usize| {
                others.iter().filter(|(_, graph)| graph.reached_objects.contains(top)).count()
            };
            let mut left: BTreeMap<usize, usize> =
                tops.iter().map(|top| (*top, wanted(top))).collect();
            let mut most_free = 0;
            while !left.is_empty() {
                let free: Vec<&String> = others
                    .iter()
                    .filter(|(_, graph)| {
                        left.keys().all(|top| !graph.reached_objects.contains(top))
                    })
                    .map(|(name, _)| *name)
                    .collect();
                most_free = most_free.max(free.len());
                if free.len() >= enough {
                    let mut files = names(rng.sample(free, settings.files));
                    files.sort();
                    return Ok(OtherFiles { policy, files, tops: left.into_keys().collect() });
                }
                let most = left.iter().max_by_key(|(top, count)| (**count, usize::MAX - **top));
                let most = most.map(|(top, _)| *top);
                left.retain(|top, _| Some(*top) != most);
            }
            // No tops are left. `most_free` is the highest number of unaffected files at any point.
            Err(format!(
                "of {}, at most {} independent of its tops, but {} needed",
                format_other_files(others.len()),
                count_with_verb(most_free),
                count_with_verb(enough)
            ))
        }
    }
}

fn format_other_files(count: usize) -> String {
    count_with_noun(count, "other test file")
}

fn count_with_verb(count: usize) -> String {
    format!("{count} {}", if count == 1 { "is" } else { "are" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(reached: &[usize]) -> FileGraph {
        FileGraph { reached_objects: reached.iter().copied().collect(), ..FileGraph::default() }
    }

    #[test]
    fn least_policy_drops_tops_that_most_files_reach() {
        let all: BTreeMap<String, FileGraph> = [
            ("a", graph(&[1, 2, 3])),
            ("b", graph(&[1])),
            ("c", graph(&[1, 2])),
            ("d", graph(&[9])),
        ]
        .map(|(name, graph)| (name.to_owned(), graph))
        .into();
        let settings = PassSettings { policies: Vec::new(), files: 2, fewest: 1 };
        let tops = [1, 2, 3].into();
        let of = |policy| {
            choose_other_files(
                policy,
                "a",
                &tops,
                &all,
                &settings,
                &mut SeededRng::from_parts(&["x"]),
            )
            .unwrap()
        };
        let least = of(Policy::Least);
        assert_eq!(least.files, ["b", "d"]);
        assert_eq!(least.tops, [2, 3].into(), "only the top that most files reach is dropped");
        assert_eq!(of(Policy::All).files, ["b", "c", "d"]);
        let drawn = of(Policy::Random);
        assert_eq!((drawn.files.len(), &drawn.tops), (2, &tops));
        assert_eq!(drawn, of(Policy::Random), "the same seed, the same files");
    }

    #[test]
    fn choose_error_counts_missing_test_files() {
        let all: BTreeMap<String, FileGraph> =
            [("a", graph(&[1, 2])), ("b", graph(&[1, 2])), ("c", graph(&[2])), ("d", graph(&[]))]
                .map(|(name, graph)| (name.to_owned(), graph))
                .into();
        let settings = PassSettings { policies: Vec::new(), files: 5, fewest: 1 };
        let reason = |file: &str, policy, all: &BTreeMap<String, FileGraph>| {
            let mut seeded = SeededRng::from_parts(&["x"]);
            choose_other_files(policy, file, &[1, 2].into(), all, &settings, &mut seeded)
                .unwrap_err()
        };
        // In a small project, the only independent file is enough.
        let mut seeded = SeededRng::from_parts(&["x"]);
        let (policy, tops) = (Policy::Least, [1, 2].into());
        let least = choose_other_files(policy, "a", &tops, &all, &settings, &mut seeded).unwrap();
        assert_eq!((least.files, least.tops), (vec!["d".to_owned()], [1, 2].into()));
        let shared: BTreeMap<String, FileGraph> =
            all.keys().map(|name| (name.clone(), graph(&[1, 2]))).collect();
        assert_eq!(
            reason("a", Policy::Least, &shared),
            "of 3 other test files, at most 0 are independent of its tops, but 1 is needed"
        );
        let alone = [("a".to_owned(), graph(&[1]))].into();
        for policy in [Policy::All, Policy::Least] {
            let none = "no other test file has tests that pass every time";
            assert_eq!(reason("a", policy, &alone), none);
        }
    }
}
