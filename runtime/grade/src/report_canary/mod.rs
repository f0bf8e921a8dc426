//! Canaries for tests whose own runner reports the results.
//!
//! The test command runs again with mistakes in some tests, which must then fail. The files and ids
//! of the tests are unchanged, so neither the runner nor the code under test can tell the runs
//! apart.

mod evaluation;
mod generation;
mod javascript;
mod literal;
mod matches;
mod rust;
mod source;
mod test_case;

use serde::Deserialize;

pub(crate) use self::{
    evaluation::CanaryRun,
    generation::{ReportCanaries, create_report_canaries},
    javascript::JavaScriptWords,
    rust::RustWords,
    source::Language,
};

/// Rules for creating report canaries.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportCanaryRules {
    /// Maximum number of test files to read in addition to those that the task expects.
    pub files: usize,
    /// Maximum number of tests to search for, separately for fail-to-pass and pass-to-pass tests.
    pub tests: usize,
    pub javascript: JavaScriptWords,
    pub rust: RustWords,
}

impl ReportCanaryRules {
    /// Returns a file's language, if Proctor can create canaries in that language.
    pub(crate) fn language_for(&self, path: &str) -> Option<Language> {
        let ends =
            |suffixes: &[String]| suffixes.iter().any(|suffix| path.ends_with(suffix.as_str()));
        if ends(&self.javascript.suffixes) {
            Some(Language::JavaScript)
        } else {
            ends(&self.rust.suffixes).then_some(Language::Rust)
        }
    }
}
