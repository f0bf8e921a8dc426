//! The functions that each test file tests. They are written to `tops.jsonl`.

use std::{collections::BTreeSet, fs};

use serde::Serialize;

use super::{context::CandidateContext, graph::FileGraph, suite::Suite, test_file::TestFile, tops};

/// The functions that a test file reaches. Functions that only the chosen tops call are not scored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct TestFileTops {
    file: String,
    candidates: Vec<tops::Candidate>,
    /// The functions that the tests call directly. They serve as tops if no candidate qualifies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    instead: Vec<String>,
    /// The functions that were not scored.
    below: Vec<String>,
}

impl TestFileTops {
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// Returns every function that the file reaches, and whether the function is a top.
    pub(super) fn reached_functions(&self) -> impl Iterator<Item = (&str, bool)> {
        let candidates = self.candidates.iter().map(|it| (it.object.as_str(), it.top));
        candidates.chain(self.below.iter().map(|it| (it.as_str(), false)))
    }

    /// Whether the file has tops, and tests that pass in every run. Only such a file can yield a
    /// task.
    pub(super) fn may_yield_task(&self, suite: &Suite) -> bool {
        let has_top = self.candidates.iter().any(|one| one.top);
        suite.steady.contains_key(&self.file) && (has_top || !self.instead.is_empty())
    }
}

impl CandidateContext<'_> {
    fn score_candidates(&self, file: &str, graph: &FileGraph) -> Vec<tops::Candidate> {
        if let Some(model_candidates) = self.model_candidates.get(file) {
            return model_candidates.clone();
        }
        let text = fs::read_to_string(self.tree.folder.join(file)).unwrap_or_default();
        let test = TestFile::read(&text);
        tops::score_functions(file, graph, &test, &self.objects, &self.graphs, &self.settings.tops)
    }

    /// Returns the functions that a test file reaches, with the evidence for and against each.
    pub(super) fn test_file_tops(&self, file: &str) -> TestFileTops {
        let graph = self.graphs.get(file);
        let candidates = graph.map(|graph| self.score_candidates(file, graph)).unwrap_or_default();
        let scored: BTreeSet<usize> = candidates.iter().map(|it| it.index).collect();
        let reached = graph.map(|graph| graph.reached_objects.clone()).unwrap_or_default();
        let below = self.object_ids(&reached.difference(&scored).copied().collect());
        let instead = graph.and_then(|graph| fallback_tops(&candidates, graph));
        let instead = self.object_ids(&instead.unwrap_or_default());
        TestFileTops { file: file.to_owned(), candidates, instead, below }
    }

    /// Returns the functions that a test file tests.
    pub(super) fn choose_tops(&self, file: &str, graph: &FileGraph) -> BTreeSet<usize> {
        let candidates = self.score_candidates(file, graph);
        fallback_tops(&candidates, graph)
            .unwrap_or_else(|| candidates.iter().filter(|it| it.top).map(|it| it.index).collect())
    }
}

/// Returns the functions that the tests call directly, if no candidate is a top. Otherwise returns
/// `None`.
fn fallback_tops(candidates: &[tops::Candidate], graph: &FileGraph) -> Option<BTreeSet<usize>> {
    let none = !candidates.iter().any(|it| it.top);
    none.then(|| graph.callees_of_tests())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{super::objects::Node, *};

    #[test]
    fn direct_calls_replace_tops_only_if_no_candidate_is_a_top() {
        let graph =
            FileGraph { roots: [Node::Object(1), Node::Object(2)].into(), ..FileGraph::default() };
        let candidate = |index, top| tops::Candidate {
            index,
            object: format!("m.py::f{index}"),
            score: 0.0,
            top,
            because: BTreeMap::new(),
        };
        let none = [candidate(1, false), candidate(2, false)];
        assert_eq!(fallback_tops(&none, &graph), Some([1, 2].into()));
        assert_eq!(fallback_tops(&[candidate(1, false), candidate(2, true)], &graph), None);
        let suite = Suite { steady: [("t.py".to_owned(), Vec::new())].into(), ..Suite::default() };
        let mut found = TestFileTops {
            file: "t.py".into(),
            candidates: none.to_vec(),
            instead: vec!["m.py::f1".into()],
            below: Vec::new(),
        };
        assert!(found.may_yield_task(&suite));
        let line = serde_json::to_string(&found).unwrap();
        assert!(line.contains(r#""instead":["m.py::f1"]"#), "{line}");
        found.instead.clear();
        assert!(!found.may_yield_task(&suite));
        let line = serde_json::to_string(&found).unwrap();
        assert!(!line.contains("instead"), "{line}");
    }
}
