//! The solvability report: what a task's fail-to-pass tests require, and where a solver can find
//! these requirements.
//! If neither the remaining code nor the statement shows a requirement, `collect` adds the
//! requirement to the statement. If that is impossible, `collect` removes the tests with this
//! requirement from the task.

mod coverage;
mod example_choice;
mod examples;
mod expectation;
mod file_requirements;
mod tasks;
mod test_requirements;
mod vocabulary;

use std::collections::BTreeSet;

use proctor_types::count_with_noun;
use serde::{Deserialize, Serialize};

/// Maximum number of functions named in a sentence of the statement.
const MAX_LISTED_FUNCTIONS: usize = 4;

/// Maximum number of requirements named in a task's gaps.
const MAX_LISTED_GAPS: usize = 5;

/// The kind of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequirementKind {
    /// A function that the test calls directly.
    Call,
    /// A name that the test imports from the library, or accesses as an attribute of an imported
    /// module.
    Name,
    /// A constant, recognized by its upper-case name.
    Constant,
    /// An exception class that the code must raise.
    Raised,
    /// A warning category that the code must issue.
    Warning,
    /// The text of an exception or a warning.
    Message,
    /// A regular expression for the text of an exception or a warning.
    Pattern,
    /// A string in the hidden code that also occurs in the test's strings.
    Text,
    Attribute,
    PrivateAttribute,
    /// A keyword argument.
    Keyword,
    /// An attribute of the library that the test replaces or deletes.
    Replaced,
    /// A comparison of a result with fixed strings that are stated nowhere else.
    Example,
    /// A string that the test uses and that the hidden code handles specially.
    Value,
    /// A word in a string that the test expects.
    Word,
}

/// Where a solver can find a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    /// In the remaining code.
    Tree,
    /// In the statement's signatures, documentation or notes.
    Statement,
    /// In a sentence that `collect` added to the statement.
    Added,
    /// Nowhere. Tests with such a requirement are removed from the task.
    Uncovered,
    /// Nowhere, because the statement shows only some of the tests' examples. The tests stay.
    Unstated,
}

/// A requirement of one or more tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    pub kind: RequirementKind,
    pub what: String,
    /// The functions to which the requirement applies, if they are known. For an attribute: an
    /// expression that uses the attribute.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub by: BTreeSet<String>,
    pub coverage: Coverage,
    /// The ids of the test functions with this requirement, without parameters.
    pub tests: BTreeSet<String>,
}

/// A task's solvability report. Each line in `solvability.jsonl` contains one report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Solvability {
    pub task: String,
    pub requirements: Vec<Requirement>,
    /// Ids of the tests that were removed from the task because of uncovered requirements.
    pub left_out: Vec<String>,
}

/// Counts of the requirements in one or more tasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SolvabilityCounts {
    pub requirements: usize,
    pub in_tree: usize,
    pub in_statement: usize,
    pub added: usize,
    pub uncovered: usize,
    /// Words that the tests expect and the statement does not contain.
    #[serde(default)]
    pub unstated: usize,
    /// Number of tests that were removed.
    pub left_out: usize,
}

impl Solvability {
    pub(super) fn counts(&self) -> SolvabilityCounts {
        let of = |coverage| self.requirements.iter().filter(|it| it.coverage == coverage).count();
        SolvabilityCounts {
            requirements: self.requirements.len(),
            in_tree: of(Coverage::Tree),
            in_statement: of(Coverage::Statement),
            added: of(Coverage::Added),
            uncovered: of(Coverage::Uncovered),
            unstated: of(Coverage::Unstated),
            left_out: self.left_out.len(),
        }
    }

    /// Returns what makes the task harder than it should be: the removed tests and the unstated
    /// words, with the first few requirements of each.
    pub(super) fn gaps(&self) -> Vec<String> {
        let named = |coverage| {
            let of = self.requirements.iter().filter(|it| it.coverage == coverage);
            let all: Vec<String> = of.map(|it| markdown_code(&it.what)).collect();
            let more = match all.len().saturating_sub(MAX_LISTED_GAPS) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let shown: Vec<String> = all.into_iter().take(MAX_LISTED_GAPS).collect();
            shown.join(", ") + &more
        };
        let mut out = Vec::new();
        if !self.left_out.is_empty() {
            out.push(format!(
                "{} removed, because the statement can't state {}",
                count_with_noun(self.left_out.len(), "test"),
                named(Coverage::Uncovered)
            ));
        }
        if self.counts().unstated > 0 {
            out.push(format!(
                "the examples don't contain all expected words: {}",
                named(Coverage::Unstated)
            ));
        }
        out
    }

    /// Returns the sentences to be added to the statement.
    pub(super) fn statement_sentences(&self) -> Vec<String> {
        let added = self.requirements.iter().filter(|it| it.coverage == Coverage::Added);
        added.map(Requirement::to_sentence).collect()
    }
}

impl SolvabilityCounts {
    pub(super) fn sum<'a>(all_counts: impl Iterator<Item = &'a Self>) -> Self {
        all_counts.fold(Self::default(), |sum, one| Self {
            requirements: sum.requirements + one.requirements,
            in_tree: sum.in_tree + one.in_tree,
            in_statement: sum.in_statement + one.in_statement,
            added: sum.added + one.added,
            uncovered: sum.uncovered + one.uncovered,
            unstated: sum.unstated + one.unstated,
            left_out: sum.left_out + one.left_out,
        })
    }

    /// Returns a row for each count: its label, the count, and the count as a fraction of all
    /// requirements.
    pub(super) fn rows(&self) -> Vec<(&'static str, usize, f64)> {
        let rows = [
            ("stated by the remaining code", self.in_tree),
            ("stated by the statement", self.in_statement),
            ("added to the statement", self.added),
            ("not stated; its tests were removed", self.uncovered),
            ("not stated; its tests stay", self.unstated),
        ];
        let share = |count: usize| count as f64 / self.requirements.max(1) as f64;
        rows.into_iter().map(|(name, count)| (name, count, share(count))).collect()
    }
}

impl Requirement {
    /// Formats the requirement as a sentence for the statement.
    fn to_sentence(&self) -> String {
        let what = markdown_code(&self.what);
        let named: Vec<String> =
            self.by.iter().take(MAX_LISTED_FUNCTIONS).map(|name| markdown_code(name)).collect();
        let more = match self.by.len().saturating_sub(MAX_LISTED_FUNCTIONS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let by = named.join(", ") + &more;
        let of = if by.is_empty() { String::new() } else { format!(" ({by})") };
        match self.kind {
            RequirementKind::Raised => format!("Tests expect {what} to be raised{of}."),
            RequirementKind::Warning => format!("Tests expect a warning of {what}{of}."),
            RequirementKind::Message => {
                format!("The text of an exception or a warning{of}: {what}.")
            }
            RequirementKind::Pattern => format!(
                "The text of an exception or a warning{of} matches the regular expression {what}."
            ),
            RequirementKind::Text => format!("Tests contain the text {what}."),
            RequirementKind::Keyword => format!("Tests pass the keyword argument {what}{of}."),
            RequirementKind::Attribute | RequirementKind::PrivateAttribute => {
                format!("Tests use the attribute {what}, as in {by}.")
            }
            RequirementKind::Replaced => format!("Tests replace or delete {what}."),
            RequirementKind::Value => {
                format!("Tests use the value {what} and expect no exception.")
            }
            RequirementKind::Example if by.is_empty() => format!("Tests expect {what}."),
            RequirementKind::Example => format!("{by} expects {what}."),
            RequirementKind::Call
            | RequirementKind::Name
            | RequirementKind::Constant
            | RequirementKind::Word => {
                format!("Tests use {what}.")
            }
        }
    }
}

fn markdown_code(text: &str) -> String {
    match text.contains('`') {
        true => format!("`` {text} ``"),
        false => format!("`{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(
        kind: RequirementKind,
        requirement_text: &str,
        functions: &[&str],
        coverage: Coverage,
    ) -> Requirement {
        Requirement {
            kind,
            what: requirement_text.to_owned(),
            by: functions.iter().map(|&it| it.to_owned()).collect(),
            coverage,
            tests: BTreeSet::from(["t".to_owned()]),
        }
    }

    #[test]
    fn statement_sentences_cover_each_added_requirement() {
        let report = Solvability {
            task: "t".into(),
            requirements: vec![
                requirement(RequirementKind::Raised, "KeyError", &["get"], Coverage::Added),
                requirement(RequirementKind::Raised, "TypeError", &[], Coverage::Statement),
                requirement(RequirementKind::Pattern, "no `x`", &[], Coverage::Added),
                requirement(RequirementKind::Name, "LIMIT", &[], Coverage::Uncovered),
                requirement(RequirementKind::PrivateAttribute, "_c", &["f()._c"], Coverage::Added),
                requirement(RequirementKind::Replaced, "m.__spec__", &[], Coverage::Added),
                requirement(RequirementKind::Example, "f(1) == '+1'", &[], Coverage::Added),
                requirement(RequirementKind::Example, "log == ['a']", &["test_a"], Coverage::Added),
                requirement(RequirementKind::Word, "rare", &[], Coverage::Unstated),
            ],
            left_out: vec!["t::a".into()],
        };
        assert_eq!(
            report.statement_sentences(),
            [
                "Tests expect `KeyError` to be raised (`get`).",
                "The text of an exception or a warning matches the regular expression `` no `x` ``.",
                "Tests use the attribute `_c`, as in `f()._c`.",
                "Tests replace or delete `m.__spec__`.",
                "Tests expect `f(1) == '+1'`.",
                "`test_a` expects `log == ['a']`.",
            ]
        );
        assert_eq!(
            report.gaps(),
            [
                "1 test removed, because the statement can't state `LIMIT`",
                "the examples don't contain all expected words: `rare`",
            ]
        );
        let counts = report.counts();
        let two = SolvabilityCounts::sum([&counts, &counts].into_iter());
        assert_eq!((two.requirements, two.added, two.uncovered, two.left_out), (18, 12, 2, 2));
        assert_eq!(two.rows()[4], ("not stated; its tests stay", 2, 2.0 / 18.0));
    }
}
