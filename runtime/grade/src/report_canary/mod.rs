//! Canaries of tests whose results are a report of their own runner.
//!
//! The test command runs once more, with mistakes in some tests, which must fail. The tests keep
//! their files and ids, so neither the runner nor the code under test can tell which run counts.

mod found;
mod javascript;
mod judge;
mod literal;
mod make;
mod matches;
mod rust;
mod source;

use serde::Deserialize;

pub(crate) use self::{
    javascript::JavaScriptWords, judge::CanaryRun, make::make, rust::RustWords, source::Language,
};

/// How report canaries are made.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportCanaryRules {
    /// Test files to read besides those that the task names.
    pub files: usize,
    /// Fail-to-pass tests to look for.
    pub tests: usize,
    pub javascript: JavaScriptWords,
    pub rust: RustWords,
}

impl ReportCanaryRules {
    /// The language of a file, if canaries can be made in it.
    pub(crate) fn language_of(&self, path: &str) -> Option<Language> {
        let ends =
            |suffixes: &[String]| suffixes.iter().any(|suffix| path.ends_with(suffix.as_str()));
        if ends(&self.javascript.suffixes) {
            Some(Language::JavaScript)
        } else {
            ends(&self.rust.suffixes).then_some(Language::Rust)
        }
    }
}
