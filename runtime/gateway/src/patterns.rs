//! Regular expressions in the tables of `configs/`.

use regex::{Captures, Regex};
use serde::{Deserialize, Deserializer, de::Error};

/// Regular expressions that are compiled when their table is read, so that an invalid one is
/// reported as an error in the table.
#[derive(Debug, Default)]
pub(crate) struct Patterns(Vec<Regex>);

impl Patterns {
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.iter().any(|pattern| pattern.is_match(text))
    }

    /// Returns the capture groups of the first expression that matches.
    pub(crate) fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.0.iter().find_map(|pattern| pattern.captures(text))
    }
}

impl<'de> Deserialize<'de> for Patterns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let patterns = texts.iter().map(|text| Regex::new(text).map_err(D::Error::custom));
        patterns.collect::<Result<_, _>>().map(Self)
    }
}
