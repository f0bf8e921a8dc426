//! The other test files, which must go on passing.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    graph::FileGraph,
    seeded::Seeded,
    settings::{PassSettings, Policy},
};

/// Which files must go on passing, and what may be taken away for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Others {
    pub(super) policy: Policy,
    pub(super) files: Vec<String>,
    #[serde(skip)]
    pub(super) tops: BTreeSet<usize>,
}

/// Chooses by a policy; `None` where it leaves no file or no top.
pub(super) fn choose(
    policy: Policy,
    file: &str,
    tops: &BTreeSet<usize>,
    all: &BTreeMap<String, FileGraph>,
    settings: &PassSettings,
    seeded: &mut Seeded,
) -> Option<Others> {
    let others: Vec<(&String, &FileGraph)> = all.iter().filter(|(name, _)| *name != file).collect();
    let enough = settings.files.min(others.len());
    if enough < settings.fewest {
        return None;
    }
    let names = |chosen: Vec<&String>| chosen.into_iter().cloned().collect::<Vec<_>>();
    let everything = || others.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    match policy {
        Policy::All => Some(Others { policy, files: names(everything()), tops: tops.clone() }),
        Policy::Random => {
            let mut files = names(seeded.sample(everything(), settings.files));
            files.sort();
            Some(Others { policy, files, tops: tops.clone() })
        }
        Policy::Least => {
            // How many others need each top; the most wanted is given up first.
            let wanted = |top: &usize| {
                others.iter().filter(|(_, graph)| graph.reached.contains(top)).count()
            };
            let mut left: BTreeMap<usize, usize> =
                tops.iter().map(|top| (*top, wanted(top))).collect();
            while !left.is_empty() {
                let free: Vec<&String> = others
                    .iter()
                    .filter(|(_, graph)| left.keys().all(|top| !graph.reached.contains(top)))
                    .map(|(name, _)| *name)
                    .collect();
                if free.len() >= enough {
                    let mut files = names(seeded.sample(free, settings.files));
                    files.sort();
                    return Some(Others { policy, files, tops: left.into_keys().collect() });
                }
                let most = left.iter().max_by_key(|(top, count)| (**count, usize::MAX - **top));
                let most = most.map(|(top, _)| *top);
                left.retain(|top, _| Some(*top) != most);
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(reached: &[usize]) -> FileGraph {
        FileGraph { reached: reached.iter().copied().collect(), ..FileGraph::default() }
    }

    #[test]
    fn tops_that_too_many_share_are_given_up_one_by_one() {
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
        let of =
            |policy| choose(policy, "a", &tops, &all, &settings, &mut Seeded::of(&["x"])).unwrap();
        let least = of(Policy::Least);
        assert_eq!(least.files, ["b", "d"]);
        assert_eq!(least.tops, [2, 3].into(), "only the most wanted is given up");
        assert_eq!(of(Policy::All).files, ["b", "c", "d"]);
        let drawn = of(Policy::Random);
        assert_eq!((drawn.files.len(), &drawn.tops), (2, &tops));
        assert_eq!(drawn, of(Policy::Random), "the same seed, the same files");
    }
}
