//! Follows values through the patterns of `match` statements.

use ruff_python_ast::{Expr, Pattern};

use super::{NameTable, element_indices, elements};

impl NameTable<'_> {
    /// Returns the patterns directly inside a pattern, each with the dotted name of the value that
    /// it matches.
    pub(in crate::python) fn inner_patterns<'p>(
        &self,
        pattern: &'p Pattern,
        path: Option<&str>,
    ) -> Vec<(&'p Pattern, Option<String>)> {
        let mut found: Vec<(&'p Pattern, Option<String>)> = Vec::new();
        match pattern {
            Pattern::MatchSequence(sequence) => {
                let is_rest = |inner: &Pattern| matches!(inner, Pattern::MatchStar(_));
                let indices = element_indices(&sequence.patterns, is_rest);
                for (inner, index) in sequence.patterns.iter().zip(indices) {
                    let of = path.map(|path| match index {
                        None => path.to_owned(),
                        Some(index) => format!("{path}[{index}]"),
                    });
                    found.push((inner, of));
                }
            }
            Pattern::MatchMapping(mapping) => {
                for (key, inner) in mapping.keys.iter().zip(mapping.patterns.iter()) {
                    found.push((inner, path.map(|path| self.entry_path(path, key))));
                }
            }
            Pattern::MatchClass(class) => {
                // The only positional pattern of a built-in class, as in `list(table)`, matches the
                // value itself.
                let is_builtin = self
                    .dotted_path(&class.cls)
                    .is_some_and(|class| class.starts_with("builtins."));
                for inner in &class.arguments.patterns {
                    found.push((inner, path.filter(|_| is_builtin).map(str::to_owned)));
                }
                for keyword in &class.arguments.keywords {
                    let of = path.map(|path| self.attribute_path(path, keyword.attr.as_str()));
                    found.push((&keyword.pattern, of));
                }
            }
            Pattern::MatchAs(named) => {
                if let Some(inner) = named.pattern.as_deref() {
                    found.push((inner, path.map(str::to_owned)));
                }
            }
            Pattern::MatchOr(either) => {
                for inner in &either.patterns {
                    found.push((inner, path.map(str::to_owned)));
                }
            }
            Pattern::MatchValue(_) | Pattern::MatchSingleton(_) | Pattern::MatchStar(_) => {}
        }
        found
    }

    /// Adds the names that a pattern captures from a value.
    pub(super) fn alias_match(&mut self, pattern: &Pattern, subject: &Expr) {
        if let Some(pairs) = pattern_pairs(pattern, subject) {
            pairs.into_iter().for_each(|(pattern, value)| self.alias_match(pattern, value));
            return;
        }
        let path = self.dotted_path(subject);
        self.alias_pattern(pattern, path.as_deref());
    }

    fn alias_pattern(&mut self, pattern: &Pattern, path: Option<&str>) {
        let captured = match pattern {
            Pattern::MatchAs(named) => named.name.as_ref(),
            Pattern::MatchStar(rest) => rest.name.as_ref(),
            Pattern::MatchMapping(mapping) => mapping.rest.as_ref(),
            _ => None,
        };
        if let Some(name) = captured {
            self.bind(name.as_str());
            if let Some(path) = path {
                self.alias_path(name.as_str(), path.to_owned());
            }
        }
        for (inner, path) in self.inner_patterns(pattern, path) {
            self.alias_pattern(inner, path.as_deref());
        }
    }
}

/// Pairs the patterns in a sequence with the elements of the matched tuple or list, as in
/// `match a, b`.
pub(in crate::python) fn pattern_pairs<'p>(
    pattern: &'p Pattern,
    subject: &'p Expr,
) -> Option<Vec<(&'p Pattern, &'p Expr)>> {
    let Pattern::MatchSequence(sequence) = pattern else { return None };
    let values = elements(subject)?;
    let is_whole = |pattern: &Pattern| !matches!(pattern, Pattern::MatchStar(_));
    let is_single = |value: &Expr| !matches!(value, Expr::Starred(_));
    let pairs = sequence.patterns.iter().all(is_whole) && values.iter().all(is_single);
    pairs.then(|| sequence.patterns.iter().zip(values).collect())
}
