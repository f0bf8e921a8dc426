//! Finds the objects that a test file tests, by scoring candidates.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    graph::FileGraph,
    objects::{Object, Objects},
    settings::TopSelectionSettings,
    test_file::TestFile,
};

/// A candidate, with the evidence for and against it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Candidate {
    #[serde(skip)]
    pub(super) index: usize,
    pub(super) object: String,
    pub(super) score: f64,
    pub(super) top: bool,
    /// The features that apply to the candidate, each with its weight.
    pub(super) because: BTreeMap<&'static str, f64>,
}

/// Scores the functions that a test file calls, one call level at a time. Functions that are only
/// called by a top are not scored.
pub(super) fn score_functions(
    file: &str,
    graph: &FileGraph,
    test: &TestFile,
    objects: &Objects,
    graphs: &BTreeMap<String, FileGraph>,
    settings: &TopSelectionSettings,
) -> Vec<Candidate> {
    let words = name_words(tested_name(file));
    let mut out = Vec::new();
    let mut visited = BTreeSet::new();
    let mut level = graph.callees_of_tests();
    for depth in 1..=settings.depth {
        let mut next = BTreeSet::new();
        for index in level {
            if !visited.insert(index) {
                continue;
            }
            let Some(object) = objects.list.get(index) else { continue };
            let reach =
                graphs.values().filter(|graph| graph.reached_objects.contains(&index)).count();
            let share = reach as f64 / graphs.len().max(1) as f64;
            let because = collect_evidence(object, depth, share, &words, test, settings);
            let score: f64 = because.values().sum();
            let top = score >= settings.threshold;
            out.push(Candidate { index, object: object.id(), score, top, because });
            if !top {
                next.extend(graph.callees_of(index));
            }
        }
        level = next;
    }
    out
}

fn collect_evidence(
    object: &Object,
    depth: usize,
    fraction: f64,
    test_words: &BTreeSet<String>,
    test: &TestFile,
    settings: &TopSelectionSettings,
) -> BTreeMap<&'static str, f64> {
    let mut out = BTreeMap::new();
    let module = tested_name(&object.file);
    let mut own = name_words(module);
    object.path.split('.').for_each(|part| own.extend(name_words(part)));
    if !own.is_disjoint(test_words) {
        out.insert("affinity", settings.affinity);
    }
    let dotted = dotted_path(&object.file);
    let top = object.path.split('.').next().unwrap_or(&object.path);
    let direct = test.used_objects.iter().any(|(used, name)| {
        // The test may import the object from a package that re-exports it.
        let same = dotted == *used
            || dotted.ends_with(&format!(".{used}"))
            || format!(".{dotted}").contains(&format!(".{used}."));
        name == top && same && !used.is_empty()
    });
    if direct {
        out.insert("direct", settings.direct);
    }
    let class = object.class().and_then(|class| class.rsplit('.').next());
    let asserted = test.asserted_names.contains(object.name())
        || (object.name() == "__init__"
            && class.is_some_and(|name| test.asserted_names.contains(name)));
    if asserted {
        out.insert("asserted", settings.asserted);
    }
    if depth == 1 {
        out.insert("first_level", settings.first_level);
    }
    let helper =
        dotted.split(['.', '_']).any(|word| settings.helper_words.iter().any(|it| it == word));
    if helper {
        out.insert("helper", settings.helper);
    }
    if fraction > 0.5 {
        out.insert("everywhere", settings.everywhere);
    } else if fraction > 0.25 {
        out.insert("frequent", settings.frequent);
    }
    out
}

/// Returns a file's dotted name, including the directories above the package.
fn dotted_path(file: &str) -> String {
    let path = file.trim_end_matches(".py").trim_end_matches("/__init__");
    path.replace('/', ".")
}

/// Returns a file's name without its extension and without `test_` or `_test`.
fn tested_name(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    let name = name.strip_suffix(".py").unwrap_or(name);
    let name = name.strip_prefix("test_").unwrap_or(name);
    name.strip_suffix("_test").unwrap_or(name)
}

/// Splits a name into lower-case words. A plural `s` is removed.
fn name_words(name: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut word = String::new();
    let mut previous_lower = false;
    for c in name.chars().chain(['_']) {
        let breaks = !c.is_alphanumeric() || (c.is_uppercase() && previous_lower);
        if breaks && !word.is_empty() {
            let plain = word.strip_suffix('s').filter(|rest| rest.len() > 2).unwrap_or(&word);
            if plain.len() > 1 {
                out.insert(plain.to_owned());
            }
            word.clear();
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        previous_lower = c.is_lowercase() || c.is_numeric();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_words_and_tested_name_normalize_names() {
        let of = |name: &str| name_words(name).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(of("IndexedSet"), "indexed set");
        assert_eq!(of("test_utils2"), "test utils2");
        assert_eq!(of("__init__"), "init");
        assert_eq!(tested_name("tests/test_session.py"), "session");
        assert_eq!(tested_name("pkg/set_test.py"), "set");
        assert_eq!(dotted_path("src/pkg/sub/__init__.py"), "src.pkg.sub");
    }
}
