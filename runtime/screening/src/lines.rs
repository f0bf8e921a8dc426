//! Screens languages other than Python and the files of build tools, by matching single lines
//! without a parser.

use std::collections::BTreeSet;

use proctor_types::matches_wildcard;

use crate::{
    language::{Hit, LanguageScreen},
    rules::Rules,
};

/// Prefix of a comment that is a Go compiler directive.
const GO_DIRECTIVE_PREFIX: &str = "//go:";

/// Pattern of a rule that applies to every file.
const ALL_FILES_PATTERN: &str = "*";

pub(crate) struct LineScreen {
    pub rules: &'static Rules,
    /// Whether pytest alone judges the task.
    pub is_judged_by_pytest: bool,
}

impl LanguageScreen for LineScreen {
    fn can_read(&self, path: &str, _bytes: &[u8]) -> bool {
        // Ignore rules for all files, because they don't imply that the language is known.
        self.rules_for_file(path).into_iter().any(|rule| !self.is_for_all_files(rule))
    }

    fn find_hits(&self, path: &str, bytes: &[u8], _owned: &BTreeSet<String>) -> Vec<Hit> {
        let rules = self.rules_for_file(path);
        let text = String::from_utf8_lossy(bytes);
        let mut hits = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            let is_comment = line.starts_with("//") && !line.starts_with(GO_DIRECTIVE_PREFIX);
            for rule in rules.iter().copied().filter(|rule| {
                // A rule for all files also applies to comments, because data may look like a
                // comment.
                (!is_comment || self.is_for_all_files(*rule))
                    && self.rules.is_violated_by_line(*rule, line)
            }) {
                hits.push(Hit {
                    rule,
                    line: index + 1,
                    expression: line.to_owned(),
                    snippet: line.chars().take(self.rules.table.limits.snippet).collect(),
                    group: None,
                });
            }
        }
        hits
    }
}

impl LineScreen {
    fn is_for_all_files(&self, rule: usize) -> bool {
        let rule = self.rules.table.rules.get(rule);
        rule.is_some_and(|rule| rule.files.iter().any(|file| file == ALL_FILES_PATTERN))
    }

    /// Returns the indices of the rules for a file.
    fn rules_for_file(&self, path: &str) -> Vec<usize> {
        self.rules.find_rules(|rule| {
            let is_off = rule.lines.is_empty() || (self.is_judged_by_pytest && rule.own_runner);
            !is_off
                && rule.files.iter().any(|file| matches_file(file, path))
                && !rule.except_files.iter().any(|file| matches_file(file, path))
        })
    }
}

/// Whether a path matches a rule's file pattern. A pattern with `/` matches the end of the path.
fn matches_file(pattern: &str, path: &str) -> bool {
    if pattern.contains('/') {
        return path
            .strip_suffix(pattern)
            .is_some_and(|head| head.is_empty() || head.ends_with('/'));
    }
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    matches_wildcard(pattern, name)
}
