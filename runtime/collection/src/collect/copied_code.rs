//! Finds functions whose code also exists in the remaining files. There is no point in removing
//! these functions, because an agent could read the copy.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    path::Path,
};

use proctor_sandbox_api::wire::{WINDOW_LINES, fingerprint};
use proctor_setup::Leak;

use super::{environment::WORKDIR, objects::Objects};
use crate::Carving;

/// A function counts as copied if at least this fraction of its windows occurs in a file. The leak
/// check uses the same threshold.
const MIN_COPIED_FRACTION: f64 = 0.6;

/// Returns the objects in `removed_objects` whose code occurs in the files that the leak check
/// reported. If no object reaches the threshold, returns the objects with the largest copied
/// fraction. Findings outside the work directory are ignored.
pub(super) fn find_copied_objects(
    leaks: &[Leak],
    removed_objects: &BTreeSet<usize>,
    objects: &Objects,
    carving: &Carving,
    tree: &Path,
) -> BTreeSet<usize> {
    let mut out = BTreeSet::new();
    for leak in leaks {
        let Some(file) = leak.place.strip_prefix(WORKDIR).map(|it| it.trim_start_matches('/'))
        else {
            continue;
        };
        let stays = match carving.files.get(file) {
            Some((_, after)) => after.clone(),
            None => fs::read_to_string(tree.join(file)).unwrap_or_default(),
        };
        let file_windows: Vec<HashSet<u64>> =
            (1..=WINDOW_LINES).map(|length| hash_windows([stays.as_str()], length)).collect();
        let shares: Vec<(usize, f64)> = removed_objects
            .iter()
            .filter_map(|&index| {
                let object = objects.list.get(index)?;
                let text = match carving.files.get(&object.file) {
                    Some((before, _)) => before,
                    None => return None,
                };
                Some((index, copied_fraction(&object.code(text), &file_windows)))
            })
            .collect();
        let most = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
        let enough = most.min(MIN_COPIED_FRACTION);
        out.extend(
            shares.iter().filter(|(_, share)| *share > 0.0 && *share >= enough).map(|(it, _)| *it),
        );
    }
    out
}

/// Returns the fraction of the code's windows (hashes of consecutive lines) that occur in a file.
/// Uses the longest windows that fit in the code.
fn copied_fraction(code: &[String], file_windows: &[HashSet<u64>]) -> f64 {
    for length in (1..=WINDOW_LINES).rev() {
        let code_windows = hash_windows(code.iter().map(String::as_str), length);
        let Some(file_windows) = file_windows.get(length - 1).filter(|_| !code_windows.is_empty())
        else {
            continue;
        };
        let copied_count = code_windows.intersection(file_windows).count();
        // Single lines often match by chance, so compare them only if the code is too short for
        // longer windows.
        return copied_count as f64 / code_windows.len() as f64;
    }
    0.0
}

fn hash_windows<'a>(pieces: impl IntoIterator<Item = &'a str>, length: usize) -> HashSet<u64> {
    let mut out = HashSet::new();
    for piece in pieces {
        let lines: Vec<u64> = piece
            .lines()
            .filter_map(|line| fingerprint::hash_line(line.as_bytes()))
            .map(|it| it.0)
            .collect();
        out.extend(lines.windows(length).map(fingerprint::hash_window));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proctor_setup::LeakKind;

    use super::*;

    #[test]
    fn method_that_another_class_duplicates_is_a_copied_object() {
        let before = "\
class A:
    def push(self, token):
        \"\"\"Add one.\"\"\"
        self.tokens.append(token)

    def own(self, token):
        for one in token:
            yield one

class B:
    def push(self, token):
        \"\"\"Add one.\"\"\"
        self.tokens.append(token)
";
        let after = before
            .replacen("    def push(self, token):\n        \"\"\"Add one.\"\"\"\n        self.tokens.append(token)\n\n", "", 1)
            .replace("    def own(self, token):\n        for one in token:\n            yield one\n", "    pass\n");
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("m.py"), before).unwrap();
        let objects = Objects::scan(tree.path(), &["m.py".to_owned()]);
        let index = |path: &str| objects.list.iter().position(|it| it.path == path).unwrap();
        let gone = BTreeSet::from([index("A.push"), index("A.own")]);
        let files = BTreeMap::from([("m.py".to_owned(), (before.to_owned(), after))]);
        let carving = Carving { objects: Vec::new(), files };
        let leak = |place: &str| Leak {
            kind: LeakKind::Copy,
            place: place.into(),
            what: String::new(),
            remove: None,
        };
        let found = |place: &str| {
            find_copied_objects(&[leak(place)], &gone, &objects, &carving, tree.path())
        };
        assert_eq!(found("/testbed/m.py"), BTreeSet::from([index("A.push")]));
        assert!(found("/usr/lib/m.py").is_empty());
    }
}
