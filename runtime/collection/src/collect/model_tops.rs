//! Asks a model which objects a test file tests. As in FeatureBench, each prompt covers one call
//! level.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use futures_util::{StreamExt, TryStreamExt, stream};
use proctor_datasets::render_template;
use proctor_types::{Fault, FaultLayer};
use serde::{Deserialize, Serialize};

use super::{
    answers::{CachedModel, last_json},
    graph::FileGraph,
    objects::{Object, Objects},
    settings::TopSelectionSettings,
    tops::Candidate,
};

const TOPS_PROMPT: &str = include_str!("../../../../prompts/collection/tops.md.j2");

/// Inputs that the prompts about a project's test files share.
pub(super) struct TopsPrompts<'a> {
    pub(super) cached_model: &'a CachedModel<'a>,
    pub(super) package: &'a str,
    pub(super) tree: &'a Path,
    pub(super) objects: &'a Objects,
    pub(super) settings: &'a TopSelectionSettings,
}

#[derive(Serialize)]
struct Question<'a> {
    package: &'a str,
    file: &'a str,
    text: &'a str,
    candidates: &'a [PromptCandidate],
}

#[derive(Serialize)]
struct PromptCandidate {
    id: String,
    code: String,
}

impl TopsPrompts<'_> {
    /// Asks about every test file and returns each file's candidates.
    ///
    /// # Errors
    /// Fails if the endpoint did not respond, or if no response can be parsed.
    pub(super) async fn ask_about_files(
        &self,
        graphs: &BTreeMap<String, FileGraph>,
    ) -> Result<BTreeMap<String, Vec<Candidate>>, Fault> {
        let asked: Vec<_> =
            graphs.iter().map(|(file, graph)| self.ask_about_file(file, graph)).collect();
        let at_once = self.settings.model.at_once.max(1);
        let found: Vec<Vec<Candidate>> =
            stream::iter(asked).buffered(at_once).try_collect().await?;
        Ok(graphs.keys().cloned().zip(found).collect())
    }

    async fn ask_about_file(&self, file: &str, graph: &FileGraph) -> Result<Vec<Candidate>, Fault> {
        let text = fs::read_to_string(self.tree.join(file)).unwrap_or_default();
        let (mut out, mut seen) = (Vec::new(), BTreeSet::new());
        let mut level = graph.callees_of_tests();
        for _ in 0..self.settings.depth {
            let fresh = level.iter().copied().filter(|index| seen.insert(*index));
            let fresh: Vec<(usize, &Object)> =
                fresh.filter_map(|index| Some((index, self.objects.list.get(index)?))).collect();
            let mut next = BTreeSet::new();
            for batch in fresh.chunks(self.settings.model.batch.max(1)) {
                let chosen = self.ask_about_batch(file, &text, batch).await?;
                for (index, object) in batch {
                    let top = chosen.contains(&object.id());
                    let score = if top { 1.0 } else { 0.0 };
                    let because = BTreeMap::from([("model", score)]);
                    let (index, object) = (*index, object.id());
                    out.push(Candidate { index, object, score, top, because });
                    if !top {
                        next.extend(graph.callees_of(index));
                    }
                }
            }
            level = next;
        }
        Ok(out)
    }

    /// Asks which functions in a batch the file tests, and returns their ids.
    async fn ask_about_batch(
        &self,
        file: &str,
        text: &str,
        batch: &[(usize, &Object)],
    ) -> Result<BTreeSet<String>, Fault> {
        let shown = |object: &Object| {
            let text = fs::read_to_string(self.tree.join(&object.file)).unwrap_or_default();
            PromptCandidate { id: object.id(), code: object.code(&text).join("\n\n") }
        };
        let candidates: Vec<PromptCandidate> =
            batch.iter().map(|(_, object)| shown(object)).collect();
        let question = Question { package: self.package, file, text, candidates: &candidates };
        let question = render_template(TOPS_PROMPT, question).map_err(|error| {
            Fault::new(FaultLayer::Environment, format!("prompts/collection/tops.md.j2: {error}"))
        })?;
        let known: BTreeSet<String> = candidates.into_iter().map(|it| it.id).collect();
        let message = "a list of the given functions";
        self.cached_model
            .ask("tops", &question, |answer| parse_response(answer, &known), (file, message))
            .await
    }
}

#[derive(Deserialize)]
struct TopsResponse {
    tested_object_ids: BTreeSet<String>,
}

/// Returns the list in the last JSON object that contains one. Rejects a response with a name that
/// is not in the prompt, because a model that invents names is unreliable.
fn parse_response(response: &str, known_ids: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let last = last_json::<TopsResponse>(response)?.tested_object_ids;
    last.is_subset(known_ids).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_response_uses_the_last_list_and_rejects_unknown_names() {
        let known: BTreeSet<String> = ["a.py::f", "a.py::g"].map(str::to_owned).into();
        let read = |answer: &str| {
            parse_response(answer, &known).map(|it| it.into_iter().collect::<Vec<_>>())
        };
        let said = "{\"tested_object_ids\": [\"a.py::g\"]}, no:\n```json\n\
                    {\"tested_object_ids\": [\"a.py::f\"], \"reasoning\": \"{f}\"}\n```\nDone.";
        assert_eq!(read(said), Some(vec!["a.py::f".to_owned()]));
        assert_eq!(read("{\"tested_object_ids\": []}"), Some(Vec::new()));
        assert_eq!(read("{\"tested_object_ids\": [\"a.py::h\"]}"), None, "an invented name");
        assert_eq!(read("f, I think"), None);
        assert_eq!(read("{\"tested_object_ids\": [\"a.py::f\""), None, "cut off");
    }
}
