//! What a test requires, according to its source text.

use std::collections::{BTreeMap, BTreeSet};

use super::{examples::Example, expectation::Expectation};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TestRequirements {
    /// The module and name of objects that the test imports, or accesses as attributes of an
    /// imported module.
    pub(super) names: BTreeSet<(String, String)>,
    /// Expected exceptions, with the functions that should raise them.
    pub(super) exceptions: BTreeMap<String, BTreeSet<String>>,
    /// Expected warning categories, with the functions that should issue them.
    pub(super) warnings: BTreeMap<String, BTreeSet<String>>,
    /// Expected messages of exceptions and warnings.
    pub(super) messages: BTreeMap<String, Message>,
    /// Comparisons of results with fixed strings.
    pub(super) examples: Vec<Example>,
    /// Attributes that the test replaces or deletes, each with the code that names the attribute.
    pub(super) replaced: BTreeMap<String, String>,
    /// All string literals in the test.
    pub(super) strings: BTreeSet<String>,
    /// Attribute names, each with an expression that uses the attribute.
    pub(super) attributes: BTreeMap<String, String>,
    /// Keyword arguments, each with the functions that receive the argument.
    pub(super) keywords: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// Whether the text is a regular expression.
    pub(super) is_pattern: bool,
    /// The functions that should produce the message.
    pub(super) functions: BTreeSet<String>,
}

impl TestRequirements {
    pub(super) fn add(&mut self, other: &Self) {
        let sets = |to: &mut BTreeMap<String, BTreeSet<String>>,
                    source: &BTreeMap<String, BTreeSet<String>>| {
            for (name, by) in source {
                to.entry(name.clone()).or_default().extend(by.iter().cloned());
            }
        };
        self.names.extend(other.names.iter().cloned());
        sets(&mut self.exceptions, &other.exceptions);
        sets(&mut self.warnings, &other.warnings);
        sets(&mut self.keywords, &other.keywords);
        for (text, message) in &other.messages {
            self.add_message(text, message.is_pattern, &message.functions);
        }
        for example in &other.examples {
            if !self.examples.contains(example) {
                self.examples.push(example.clone());
            }
        }
        for (name, written) in &other.replaced {
            self.replaced.entry(name.clone()).or_insert_with(|| written.clone());
        }
        self.strings.extend(other.strings.iter().cloned());
        for (name, written) in &other.attributes {
            self.attributes.entry(name.clone()).or_insert_with(|| written.clone());
        }
    }

    /// Adds the classes that a test expects.
    pub(super) fn add_types(&mut self, expectation: &Expectation, functions: &BTreeSet<String>) {
        let (raised, warned) = (&mut self.exceptions, &mut self.warnings);
        let types = if expectation.is_warning { warned } else { raised };
        for name in &expectation.types {
            types.entry(name.clone()).or_default().extend(functions.iter().cloned());
        }
    }

    pub(super) fn add_message(
        &mut self,
        text: &str,
        is_pattern: bool,
        functions: &BTreeSet<String>,
    ) {
        let message = self.messages.entry(text.to_owned()).or_default();
        message.is_pattern |= is_pattern;
        message.functions.extend(functions.iter().cloned());
    }
}
