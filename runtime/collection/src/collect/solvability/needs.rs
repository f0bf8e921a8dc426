//! What a test requires, as its text shows.

use std::collections::{BTreeMap, BTreeSet};

use super::expectation::Expectation;

/// What a test requires.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Module and name: imported, or asked of an imported module.
    pub(super) names: BTreeSet<(String, String)>,
    /// Exceptions, with the functions that are called where they are expected.
    pub(super) raised: BTreeMap<String, BTreeSet<String>>,
    /// Categories of warnings, with the same.
    pub(super) warned: BTreeMap<String, BTreeSet<String>>,
    /// Texts that exceptions or warnings must have.
    pub(super) messages: BTreeMap<String, Message>,
    /// All strings.
    pub(super) strings: BTreeSet<String>,
    /// Attributes, as they are written.
    pub(super) attributes: BTreeMap<String, String>,
    /// Keyword arguments, with the functions that get them.
    pub(super) keywords: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// It is a regular expression.
    pub(super) is_pattern: bool,
    pub(super) by: BTreeSet<String>,
}

impl Needs {
    pub(super) fn add(&mut self, other: &Self) {
        let sets = |to: &mut BTreeMap<String, BTreeSet<String>>,
                    from: &BTreeMap<String, BTreeSet<String>>| {
            for (name, by) in from {
                to.entry(name.clone()).or_default().extend(by.iter().cloned());
            }
        };
        self.names.extend(other.names.iter().cloned());
        sets(&mut self.raised, &other.raised);
        sets(&mut self.warned, &other.warned);
        sets(&mut self.keywords, &other.keywords);
        for (text, message) in &other.messages {
            self.message(text, message.is_pattern, &message.by);
        }
        self.strings.extend(other.strings.iter().cloned());
        for (name, written) in &other.attributes {
            self.attributes.entry(name.clone()).or_insert_with(|| written.clone());
        }
    }

    pub(super) fn expect(&mut self, expectation: &Expectation, by: &BTreeSet<String>) {
        let (raised, warned) = (&mut self.raised, &mut self.warned);
        let types = if expectation.is_warning { warned } else { raised };
        for name in &expectation.types {
            types.entry(name.clone()).or_default().extend(by.iter().cloned());
        }
        if let Some((text, is_pattern)) = &expectation.text {
            self.message(text, *is_pattern, by);
        }
    }

    pub(super) fn message(&mut self, text: &str, is_pattern: bool, by: &BTreeSet<String>) {
        let message = self.messages.entry(text.to_owned()).or_default();
        message.is_pattern |= is_pattern;
        message.by.extend(by.iter().cloned());
    }
}
