//! Checks patterns of `match` statements. A class pattern reads attributes, and a sequence pattern
//! iterates over a table.

use ruff_python_ast::{Expr, Pattern, PatternKeyword};
use ruff_text_size::Ranged;

use super::Walker;
use crate::{python::names::pattern_pairs, rules::Rule};

impl Walker<'_> {
    /// Checks a pattern that is matched against a value.
    pub(super) fn check_match(&mut self, pattern: &Pattern, subject: &Expr) {
        if let Some(pairs) = pattern_pairs(pattern, subject) {
            pairs.into_iter().for_each(|(pattern, value)| self.check_match(pattern, value));
            return;
        }
        let path = self.names.dotted_path(subject);
        self.check_pattern(pattern, path.as_deref());
    }

    // The parser limits the nesting of brackets, and so the depth of this recursion.
    fn check_pattern(&mut self, pattern: &Pattern, path: Option<&str>) {
        let lists = match pattern {
            Pattern::MatchSequence(_) => true,
            Pattern::MatchMapping(mapping) => mapping.rest.is_some(),
            _ => false,
        };
        if let Some(path) = path.filter(|_| lists) {
            let is_it = |rule: &Rule| rule.listed.iter().any(|it| it == path);
            self.record_hits_as(pattern.range(), path, is_it);
        }
        if let Pattern::MatchClass(class) = pattern {
            for keyword in &class.arguments.keywords {
                self.check_pattern_attribute(keyword, path);
            }
        }
        for (inner, of) in self.names.inner_patterns(pattern, path) {
            // A captured name is checked where it is used.
            let is_capture = matches!(inner, Pattern::MatchAs(named) if named.pattern.is_none());
            if let Some(of) = of.as_deref().filter(|_| !is_capture) {
                self.check_reference(inner.range(), of, path);
            }
            self.check_pattern(inner, of.as_deref());
        }
    }

    /// Checks an attribute that a class pattern reads.
    fn check_pattern_attribute(&mut self, keyword: &PatternKeyword, path: Option<&str>) {
        let (range, name) = (keyword.range(), keyword.attr.as_str());
        self.check_look_alike(keyword.attr.range(), name);
        self.check_attribute_name(range, name);
        let whole = path.map(|path| format!("{path}.{name}"));
        if let Some(whole) = &whole {
            self.check_reference(range, whole, path);
        }
        self.check_unique_name(range, name, whole.as_deref());
        // Honest patterns use none of these names, so check the name whatever the value's class is.
        let has = |names: &[String]| names.iter().any(|it| it == name);
        self.record_hits_where(range, |rule| {
            has(&rule.foreign_attributes) || has(&rule.climbed_attributes) || has(&rule.taken)
        });
    }
}
