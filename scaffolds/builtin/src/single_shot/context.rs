//! Selects the files to show the model.
//!
//! ```text
//! always: readmes + files with new components + files to be created
//! oracle: every other file of the gold patch
//! bm25:   the best hits, each tried once, in ranking order
//! ```
//!
//! As in FEA-Bench, the space for files is always computed with the detailed prompt for natural
//! answers and with line numbers, so that all prompt formats get the same files. If a file does not
//! fit, it is skipped, and the next file is tried.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use proctor_retrieval::{Index, is_test};
use proctor_scaffold_api::{InitialTree, Material, Stop};

use super::{
    evidence::{ContextRecord, Quality, RetrievedFile},
    file_block::format_numbered_block,
    settings::{Retrieval, Settings},
};
use crate::prompts::Prompts;

/// Number of indexes to keep in memory, one per tree. The trials of a task run close together.
const MAX_CACHED_INDEXES: usize = 4;

/// Indexes, with the digest of the indexed tree.
#[derive(Debug, Default)]
pub(super) struct IndexCache(Mutex<VecDeque<(String, Arc<Index>)>>);

/// Files and their content. `None` stands for a file that the gold patch creates.
pub(super) type Files = BTreeMap<String, Option<String>>;

/// The selected files and the record of how they were selected.
#[derive(Debug, Default)]
pub(super) struct PromptContext {
    pub(super) readmes: Files,
    pub(super) files: Files,
    pub(super) record: ContextRecord,
}

/// Selects the files to show, given the settings, the task data and the tree.
pub(super) struct FileSelector<'a> {
    pub(super) settings: &'a Settings,
    pub(super) material: &'a Material,
    pub(super) tree: &'a dyn InitialTree,
    pub(super) prompts: &'a Prompts,
    pub(super) count_tokens: &'a (dyn Fn(&str) -> u64 + Sync),
    pub(super) max_hits: usize,
    pub(super) max_file_bytes: u64,
}

impl FileSelector<'_> {
    /// Returns a context with the files that are always shown. The caller then counts the tokens of the prompt with
    /// these files.
    pub(super) fn select_required(&self) -> Result<PromptContext, Stop> {
        let mut context = PromptContext::default();
        for (path, _) in self.tree.files() {
            if !path.contains('/') && path.to_lowercase().starts_with("readme") {
                context.readmes.insert(path.clone(), Some(self.text(&path)?.unwrap_or_default()));
            }
        }
        let components = &self.material.components;
        let mut paths: BTreeSet<&str> = components.iter().map(|one| one.file.as_str()).collect();
        // If a benchmark reveals no definitions, it reveals no files either.
        if !components.is_empty() {
            let made = self.material.gold.files.iter().filter(|file| file.is_new);
            paths.extend(made.map(|file| file.path.as_str()));
        }
        for path in paths {
            if self.is_shown(path) && !context.readmes.contains_key(path) {
                context.files.insert(path.to_owned(), self.text(path)?);
                context.record.always.push(path.to_owned());
            }
        }
        context.record.readmes = context.readmes.keys().cloned().collect();
        Ok(context)
    }

    /// Adds retrieved files as long as there is space. `base_tokens` is the number of tokens
    /// already used.
    pub(super) fn add_retrieved_files(
        &self,
        context: &mut PromptContext,
        indexes: &IndexCache,
        base_tokens: u64,
    ) -> Result<(), Stop> {
        let wanted: Vec<(String, Option<f64>)> = match self.settings.retrieval {
            Retrieval::None => Vec::new(),
            Retrieval::Oracle => {
                let files = self.material.gold.files.iter().filter(|file| !file.is_new);
                files.map(|file| (file.path.clone(), None)).collect()
            }
            Retrieval::Bm25 => {
                let index = indexes.get_or_build(self)?;
                let request = self.material.request.trim_start_matches("<request>");
                let request = request.trim_end_matches("</request>");
                let hits = index.search(request, self.max_hits);
                hits.iter().map(|hit| (hit.name.to_owned(), Some(hit.score))).collect()
            }
        };
        let mut used = base_tokens;
        for (path, score) in wanted {
            let known = context.files.contains_key(&path) || context.readmes.contains_key(&path);
            if known || !self.is_shown(&path) {
                continue;
            }
            let Some(text) = self.text(&path)? else { continue };
            let tokens = (self.count_tokens)(&format_numbered_block(self.prompts, &path, &text)?);
            let shown = self.settings.context_tokens.is_none_or(|room| used + tokens < room);
            if shown {
                used += tokens;
                context.files.insert(path.clone(), Some(text));
            }
            context.record.retrieved.push(RetrievedFile { path, score, tokens, shown });
        }
        context.record.base_tokens = base_tokens;
        context.record.files = context.files.keys().cloned().collect();
        context.record.quality = self.retrieval_quality(context);
        Ok(())
    }

    /// Returns whether a file may be shown. Tests are hidden. So are text files that the patch
    /// creates, because they would be shown empty.
    fn is_shown(&self, path: &str) -> bool {
        let text = path.ends_with(".md") || path.ends_with(".rst");
        !(is_test(path) || (text && self.tree.mode(path).is_none()))
    }

    /// Returns a file's text, or `None` if the file does not exist. Replaces invalid UTF-8 with
    /// U+FFFD.
    fn text(&self, path: &str) -> Result<Option<String>, Stop> {
        let bytes = self.tree.read(path)?;
        Ok(bytes
            .filter(|bytes| bytes.len() as u64 <= self.max_file_bytes)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Compares the Python files that are shown with those in the gold patch, as the FEA-Bench
    /// paper does.
    fn retrieval_quality(&self, context: &PromptContext) -> Option<Quality> {
        let python = |path: &&str| path.ends_with(".py") && !is_test(path);
        let gold: BTreeSet<&str> =
            self.material.gold.files.iter().map(|file| file.path.as_str()).filter(python).collect();
        if gold.is_empty() {
            return None;
        }
        let shown: BTreeSet<&str> =
            context.files.keys().map(String::as_str).filter(python).collect();
        let both = shown.intersection(&gold).count() as f64;
        Some(Quality {
            precision: if shown.is_empty() { 0.0 } else { both / shown.len() as f64 },
            recall: both / gold.len() as f64,
            recall_all: gold.is_subset(&shown),
        })
    }
}

impl IndexCache {
    fn get_or_build(&self, selector: &FileSelector<'_>) -> Result<Arc<Index>, Stop> {
        let digest = selector.tree.digest();
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, index)) = kept().iter().find(|(known, _)| known == digest) {
            return Ok(Arc::clone(index));
        }
        let mut index = Index::default();
        let files = selector.tree.files();
        // Like FEA-Bench, rank only Python files. If the repository has none, rank all text files.
        let python = files.iter().any(|(path, _)| path.ends_with(".py"));
        for (path, size) in files {
            if size > selector.max_file_bytes
                || is_test(&path)
                || (python && !path.ends_with(".py"))
            {
                continue;
            }
            let Some(bytes) = selector.tree.read(&path)? else { continue };
            if let Ok(text) = std::str::from_utf8(&bytes) {
                index.add(path.as_str(), &format!("{path}\n{text}"));
            }
        }
        let index = Arc::new(index);
        let mut kept = kept();
        kept.truncate(MAX_CACHED_INDEXES - 1);
        kept.push_front((digest.to_owned(), Arc::clone(&index)));
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use proctor_answers::MatchMode;
    use proctor_scaffold_api::{GoldFacts, GoldFile};
    use proctor_types::{Fault, NewComponent};

    use super::*;
    use crate::single_shot::settings::{AnswerFormat, Hints};

    struct FakeTree(BTreeMap<&'static str, &'static str>);

    impl InitialTree for FakeTree {
        fn digest(&self) -> &str {
            "made"
        }

        fn files(&self) -> Vec<(String, u64)> {
            self.0.iter().map(|(path, text)| ((*path).to_owned(), text.len() as u64)).collect()
        }

        fn mode(&self, path: &str) -> Option<u32> {
            self.0.contains_key(path).then_some(0o100_644)
        }

        fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Fault> {
            Ok(self.0.get(path).map(|text| text.as_bytes().to_vec()))
        }
    }

    const TREE: [(&str, &str); 7] = [
        ("README.rst", "readme"),
        ("p/a.py", "a"),
        ("p/big.py", "parser parser parser parser and many words that fill the room up to its end"),
        ("p/checkpointing.py", "parser"),
        ("p/nothing.py", "x"),
        ("p/tests/test_a.py", "parser"),
        ("docs/readme.md", "parser"),
    ];

    /// Selects files, counting characters instead of tokens. `free_tokens` is the space in addition
    /// to the base prompt.
    fn select_files(retrieval: Retrieval, free_tokens: Option<u64>) -> ContextRecord {
        let settings = Settings {
            hints: Hints::Detailed,
            retrieval,
            context_tokens: free_tokens,
            format: AnswerFormat::Natural,
            matching: MatchMode::Exact,
        };
        let component = |file: &str| NewComponent {
            file: file.into(),
            kind: "function".into(),
            name: "f".into(),
            signature: "def f():".into(),
            doc: String::new(),
        };
        let file = |path: &str, created| GoldFile { path: path.into(), is_new: created };
        let material = Material {
            request: "<request>the parser</request>".into(),
            components: vec![component("p/a.py")],
            gold: GoldFacts {
                files: vec![
                    file("p/a.py", false),
                    file("p/checkpointing.py", false),
                    file("p/new.py", true),
                    file("p/tests/test_a.py", false),
                ],
                definitions: Vec::new(),
            },
            ..Material::default()
        };
        let prompts = Prompts::load("single-shot", None).unwrap();
        let choice = FileSelector {
            settings: &settings,
            material: &material,
            tree: &FakeTree(BTreeMap::from(TREE)),
            prompts: &prompts,
            count_tokens: &|text| text.len() as u64,
            max_hits: 20,
            max_file_bytes: 1 << 20,
        };
        let mut context = choice.select_required().unwrap();
        let indexes = IndexCache::default();
        choice.add_retrieved_files(&mut context, &indexes, 100).unwrap();
        assert_eq!(indexes.0.lock().unwrap().len(), usize::from(retrieval == Retrieval::Bm25));
        context.record
    }

    #[test]
    fn required_files_are_shown_and_oversized_files_are_skipped() {
        let none = select_files(Retrieval::None, None);
        assert_eq!(none.readmes, ["README.rst"]);
        assert_eq!(none.files, ["p/a.py", "p/new.py"]);
        let oracle = select_files(Retrieval::Oracle, None);
        assert_eq!(oracle.files, ["p/a.py", "p/checkpointing.py", "p/new.py"]);
        assert_eq!(
            oracle.quality.unwrap(),
            Quality { precision: 1.0, recall: 1.0, recall_all: true }
        );
        let small = select_files(Retrieval::Bm25, Some(180));
        let shown: Vec<_> =
            small.retrieved.iter().map(|one| (one.path.as_str(), one.shown)).collect();
        assert_eq!(shown, [("p/big.py", false), ("p/checkpointing.py", true)]);
        let large = select_files(Retrieval::Bm25, Some(1000));
        assert_eq!(large.files.len(), 4);
        assert_eq!(
            large.quality.unwrap(),
            Quality { precision: 0.75, recall: 1.0, recall_all: true }
        );
        assert!(!none.quality.unwrap().recall_all);
    }
}
