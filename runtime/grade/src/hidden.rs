//! Makes hidden modules importable for the test tool, and reports exposed hidden content.

use proctor_setup::HiddenCopies;
use proctor_types::Evidence;
use serde::Serialize;

use crate::evidence::{self, new_evidence};

/// A script that makes the lent modules importable.
pub(crate) const LEND_SCRIPT: &str = include_str!("../python/lend.py");

/// Modules that only the test tool can import, in the form that `lend.py` reads.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct LentModules(Vec<LentModule>);

#[derive(Debug, Clone, Serialize)]
struct LentModule {
    root: String,
    files: std::collections::BTreeMap<String, String>,
}

impl LentModules {
    /// Includes only the source files of Python modules: nothing else can be imported from memory.
    pub(crate) fn from_hidden(hidden_copies: &HiddenCopies) -> Self {
        let module = |lent: &proctor_setup::ProvidedModule| {
            let place = lent.path.to_string();
            let files = lent.files.iter().filter(|(path, _)| path.ends_with(".py"));
            LentModule {
                root: place.rsplit_once('/').map_or("", |(root, _)| root).to_owned(),
                files: files
                    .map(|(path, text)| (path.clone(), String::from_utf8_lossy(text).into_owned()))
                    .collect(),
            }
        };
        Self(hidden_copies.provided_modules.iter().map(module).collect())
    }

    /// Lends modules that the grader embeds. Their paths are relative to `root`, which tracebacks
    /// show.
    pub(crate) fn from_embedded(root: &str, modules: &[(&str, &str)]) -> Self {
        let files = modules.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Self(vec![LentModule { root: root.to_owned(), files: files.collect() }])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns evidence of hidden content that the test tools or the benchmark's procedure can still
/// read.
pub(crate) fn exposed_content_evidence(hidden_copies: &HiddenCopies) -> Vec<Evidence> {
    let lent = hidden_copies.provided_modules.iter().map(|lent| {
        let what = format!("{}: required to start the test tool", lent.path);
        new_evidence(evidence::LENT_TO_TOOL, what)
    });
    let kept = hidden_copies.remaining_copies.iter().map(|kept| {
        new_evidence(evidence::KEPT_FOR_TOOL, format!("{}: {}", kept.location, kept.reason))
    });
    lent.chain(kept).collect()
}
