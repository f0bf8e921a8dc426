//! Finds tests and assertions in Rust.

use serde::Deserialize;

use super::{
    literal::changed_literal,
    source::{Language, Source, TokenKind},
    test_case::{Change, TestCase},
};
use crate::canary::MistakeKind;

/// Names that the parser recognizes in tests, from `configs/tables/grading.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RustWords {
    /// File name suffixes.
    pub suffixes: Vec<String>,
    /// Attributes of tests that do not run or that do not fail if they panic.
    pub exceptions: Vec<String>,
    /// Macros that never end the test early.
    pub macros: Vec<String>,
    /// Functions and methods whose result changes if their literal argument changes.
    pub conversions: Vec<String>,
    /// Strings, at least one of which a patch must contain to change the result of a comparison.
    pub comparisons: Vec<String>,
}

/// A statement that fails at run time.
const FAILING_STATEMENT: &str = " assert_eq!(1, 2);";

/// Returns the tests in a file; none if the file cannot be parsed.
pub(super) fn find_tests(text: &str, words: &RustWords) -> Vec<TestCase> {
    let Some(source) = Source::parse(text, Language::Rust) else { return Vec::new() };
    let reader = TestParser { source: &source, words };
    (0..source.tokens.len()).filter_map(|at| reader.parse_test(at)).collect()
}

/// Whether a patch may define its own assertions or objects that equal everything. This requires
/// certain names in an added line. `#[derive(PartialEq)]` does not count, because derived
/// comparisons are honest.
pub(super) fn may_define_equality(patch: &[u8], words: &RustWords) -> bool {
    let patch = String::from_utf8_lossy(patch);
    let is_named = |line: &str| words.comparisons.iter().any(|text| line.contains(text.as_str()));
    patch.contains("GIT binary patch")
        || patch
            .lines()
            .any(|line| line.starts_with('+') && !line.contains("derive(") && is_named(line))
}

/// An assertion.
struct Assertion {
    /// Other values for the compared value.
    values: Vec<Change>,
    /// Whether an honest test always fails once it reaches one of the values in `values`.
    is_certain: bool,
    /// The opposite assertion.
    opposite_change: Change,
    is_comparison: bool,
}

struct TestParser<'a> {
    source: &'a Source<'a>,
    words: &'a RustWords,
}

fn contains_word(words: &[String], word: &str) -> bool {
    words.iter().any(|one| one == word)
}

impl TestParser<'_> {
    /// Returns the test whose `fn` keyword is at a token.
    fn parse_test(&self, at: usize) -> Option<TestCase> {
        let source = self.source;
        let name = source.word(at + 1);
        if source.word(at) != "fn" || name.is_empty() || !self.is_test(at) {
            return None;
        }
        let mut open = at + 2;
        while !source.is_sign(open, b'{') {
            if source.is_sign(open, b';') {
                return None;
            }
            open = source.matching_bracket(open).filter(|pair| *pair > open).unwrap_or(open) + 1;
            source.kind(open)?;
        }
        let close = source.matching_bracket(open)?;
        let titles = self.enclosing_modules(at).into_iter().chain([name.to_owned()]).collect();
        let (_, end) = source.byte_range((open, open));
        let failure =
            Change::new(MistakeKind::Fail, (end, end), FAILING_STATEMENT).into_mistake(true);
        let mut found = TestCase { titles, mistakes: vec![failure], has_comparison: false };
        let leaves = (open..close).find(|at| self.may_return_early(*at)).unwrap_or(close);
        for at in open + 1..close {
            let is_direct = source.enclosing_bracket(at) == Some(open) && self.begins_statement(at);
            let is_reached = is_direct && at < leaves;
            let Some(assertion) = self.parse_assertion(at) else { continue };
            found.has_comparison |= assertion.is_comparison;
            let values = assertion.values.into_iter();
            let is_certain = is_reached && assertion.is_certain;
            found.mistakes.extend(values.map(|change| change.into_mistake(is_certain)));
            found.mistakes.push(assertion.opposite_change.into_mistake(is_reached));
        }
        Some(found)
    }

    /// Whether the attributes before a `fn` make it a test that fails if its code panics.
    fn is_test(&self, at: usize) -> bool {
        let source = self.source;
        let mut end = at;
        let mut is_test = false;
        loop {
            let Some(before) = end.checked_sub(1) else { return is_test };
            if matches!(source.word(before), "pub" | "async" | "unsafe" | "const") {
                end = before;
                continue;
            }
            let begin = source.matching_bracket(before).filter(|_| source.is_sign(before, b']'));
            let hash = begin.and_then(|begin| begin.checked_sub(1));
            let Some((begin, hash)) =
                begin.zip(hash).filter(|(_, hash)| source.is_sign(*hash, b'#'))
            else {
                return is_test;
            };
            let words: Vec<&str> =
                source.child_tokens(begin).iter().map(|at| source.word(*at)).collect();
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            if words.iter().any(|word| contains_word(&self.words.exceptions, word)) {
                return false;
            }
            // `#[test]`, `#[tokio::test(flavor = "...")]`.
            is_test |= words.last() == Some(&"test");
            end = hash;
        }
    }

    /// Returns the modules around a token, outermost first.
    fn enclosing_modules(&self, at: usize) -> Vec<String> {
        let source = self.source;
        let mut found = Vec::new();
        let mut parent = source.enclosing_bracket(at);
        while let Some(open) = parent {
            if open >= 2 && source.word(open - 2) == "mod" {
                found.push(source.word(open - 1).to_owned());
            }
            parent = source.enclosing_bracket(open);
        }
        found.reverse();
        found
    }

    /// Whether a run may end the test at this token without a failure: a `return`, or a macro that
    /// may contain one.
    fn may_return_early(&self, at: usize) -> bool {
        let source = self.source;
        let word = source.word(at);
        let is_macro = source.is_sign(at + 1, b'!') && self.is_bracket(at + 2);
        word == "return"
            || (is_macro && self.begins_statement(at) && !contains_word(&self.words.macros, word))
    }

    fn is_bracket(&self, at: usize) -> bool {
        matches!(self.source.kind(at), Some(TokenKind::Sign(b'(' | b'[' | b'{')))
    }

    fn begins_statement(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.source.kind(before));
        matches!(before, Some(TokenKind::Sign(b';' | b'{' | b'}')))
    }

    /// Returns the assertion that begins at a token.
    fn parse_assertion(&self, at: usize) -> Option<Assertion> {
        let source = self.source;
        if !source.is_sign(at + 1, b'!') || !self.is_bracket(at + 2) {
            return None;
        }
        let arguments = source.arguments(at + 2);
        let of_name =
            |other: &str| Change::new(MistakeKind::Negated, source.byte_range((at, at)), other);
        let (mut values, mut is_certain) = (Vec::new(), true);
        let opposite = match (source.word(at), arguments.as_slice()) {
            ("assert_eq", [one, other, ..]) => {
                (values, is_certain) = self.other_values(*one, *other);
                of_name("assert_ne")
            }
            ("assert_ne", [_, _, ..]) => of_name("assert_eq"),
            ("assert", [one, ..]) if !(one.0..=one.1).any(|at| source.word(at) == "let") => {
                let (start, end) = source.byte_range(*one);
                let now = format!("!({})", &source.text[start..end]);
                Change::new(MistakeKind::Negated, (start, end), now)
            }
            _ => return None,
        };
        let compares = source.word(at) != "assert";
        Some(Assertion { values, is_certain, opposite_change: opposite, is_comparison: compares })
    }

    /// Returns other values for the argument that consists of literals, and whether they certainly
    /// change the result. A type of the task may ignore a value when it compares.
    fn other_values(
        &self,
        first_operand: (usize, usize),
        second_operand: (usize, usize),
    ) -> (Vec<Change>, bool) {
        let is_plain =
            (self.is_plain_literal(first_operand), self.is_plain_literal(second_operand));
        let (argument, is_certain) = match is_plain {
            // Both arguments are literals, so the code under test has no effect on the comparison.
            (true, true) => return (Vec::new(), true),
            (true, false) => (first_operand, true),
            (false, true) => (second_operand, true),
            (false, false) if self.only_constructs_value(second_operand) => (second_operand, false),
            (false, false) if self.only_constructs_value(first_operand) => (first_operand, false),
            (false, false) => return (Vec::new(), true),
        };
        let source = self.source;
        let changes = (argument.0..=argument.1).filter_map(|at| {
            let now = changed_literal(source.token_text(at), source.kind(at)?, Language::Rust)?;
            Some(Change::new(MistakeKind::Value, source.byte_range((at, at)), now))
        });
        (changes.collect(), is_certain)
    }

    /// Whether an argument consists only of literals and standard library types around them.
    fn is_plain_literal(&self, (first, last): (usize, usize)) -> bool {
        let source = self.source;
        (first..=last).all(|at| match source.kind(at) {
            Some(TokenKind::Text | TokenKind::Number | TokenKind::Char) => true,
            Some(TokenKind::Word) => {
                let word = source.word(at);
                matches!(word, "true" | "false") || contains_word(&self.words.conversions, word)
            }
            Some(TokenKind::Sign(sign)) => b"()[],&-!.:".contains(&sign),
            _ => false,
        })
    }

    /// Whether an argument only constructs a value, calling only type constructors and known
    /// conversions.
    fn only_constructs_value(&self, (first, last): (usize, usize)) -> bool {
        let source = self.source;
        (first..=last).all(|at| match source.kind(at) {
            Some(TokenKind::Text | TokenKind::Number | TokenKind::Char) => true,
            Some(TokenKind::Word) => {
                let word = source.word(at);
                let is_called = source.is_sign(at + 1, b'(') || source.is_sign(at + 1, b'!');
                let is_member = at > 0 && source.is_sign(at - 1, b'.');
                let is_of_type = at > 2 && source.is_sign(at - 1, b':');
                let is_known = |word: &str| contains_word(&self.words.conversions, word);
                match word.starts_with(char::is_uppercase) {
                    true => !is_member,
                    // `Foo::new(1)` may panic with another value before anything is compared.
                    false if is_called && is_of_type => {
                        is_known(word) && is_known(source.word(at - 3))
                    }
                    false if is_called => is_known(word),
                    false => !is_member,
                }
            }
            Some(TokenKind::Sign(sign)) => b"()[]{},&-!.:".contains(&sign),
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn find_tests_in(text: &str) -> Vec<TestCase> {
        find_tests(text, &Policy::get().unwrap().report.canaries.rust)
    }

    /// The mistakes of a test with this body, except the failure at its start.
    fn mistakes(body: &str) -> Vec<(MistakeKind, bool, String)> {
        let text = format!("#[test]\nfn t() {{ {body} }}\n");
        let [test]: [TestCase; 1] = find_tests_in(&text).try_into().unwrap();
        let head = "#[test]\nfn t() { ".len();
        let rest = test.mistakes.iter().filter(|mistake| mistake.kind != MistakeKind::Fail);
        rest.map(|mistake| {
            let mut now = text.clone();
            now.replace_range(mistake.span.0..mistake.span.1, &mistake.replacement);
            let now = now[head..now.len() - " }\n".len()].to_owned();
            (mistake.kind, mistake.is_certain, now)
        })
        .collect()
    }

    #[test]
    fn mistakes_change_the_expected_value() {
        for (body, now, is_certain) in [
            ("assert_eq!(add(1, 2), 3);", "assert_eq!(add(1, 2), 2);", true),
            ("assert_eq!(\"IV\", f(4));", "assert_eq!(\"JV\", f(4));", true),
            (
                "assert_eq!(f(), Some(vec![1u8]), \"m\");",
                "assert_eq!(f(), Some(vec![0u8]), \"m\");",
                true,
            ),
            (
                "assert_eq!(f(), Ok(\"a\".to_string()));",
                "assert_eq!(f(), Ok(\"b\".to_string()));",
                true,
            ),
            // The equality of `Point` may ignore a field.
            ("assert_eq!(f(), Point { x: 1 });", "assert_eq!(f(), Point { x: 0 });", false),
            ("for x in y { assert_eq!(x, 'a'); }", "for x in y { assert_eq!(x, 'b'); }", false),
            ("if x { return; } assert_eq!(f(), 3);", "if x { return; } assert_eq!(f(), 2);", false),
            ("skip!(x); assert_eq!(f(), 3);", "skip!(x); assert_eq!(f(), 2);", false),
        ] {
            let found = mistakes(body);
            assert_eq!(found[0], (MistakeKind::Value, is_certain, now.to_owned()), "{body}");
        }
    }

    #[test]
    fn mistakes_reverse_other_assertions() {
        for (body, now) in [
            ("assert!(f(1) > 2, \"text\");", "assert!(!(f(1) > 2), \"text\");"),
            ("assert_ne!(f(), 3);", "assert_eq!(f(), 3);"),
            ("assert_eq!(f(), Point::new(1));", "assert_ne!(f(), Point::new(1));"),
            ("assert_eq!(f::<A, B>(1), 2);", "assert_ne!(f::<A, B>(1), 2);"),
        ] {
            assert_eq!(mistakes(body), [(MistakeKind::Negated, true, now.to_owned())], "{body}");
        }
        assert!(mistakes("check(f(), 3); assert!(let Some(1) = f());").is_empty());
    }

    #[test]
    fn may_define_equality_only_if_the_patch_adds_one() {
        let words = &Policy::get().unwrap().report.canaries.rust;
        for (line, agrees) in [
            ("+impl PartialEq for Any {", true),
            ("+macro_rules! check {", true),
            ("+#[derive(Debug, PartialEq)]", false),
            ("-impl PartialEq for Any {", false),
            (" impl PartialEq for Any {", false),
            ("+pub fn add(a: i32) -> i32 {", false),
        ] {
            let patch = format!("--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1 +1 @@\n{line}\n");
            assert_eq!(may_define_equality(patch.as_bytes(), words), agrees, "{line}");
        }
    }

    #[test]
    fn find_tests_returns_functions_that_fail_if_they_panic() {
        let text = "use calc::*;\nmod inner {\n    #[test]\n    fn adds() {}\n}\n\
                    #[tokio::test(flavor = \"multi_thread\")]\n/// Text.\nasync fn waits() -> Result<(), Box<dyn Error>> { Ok(()) }\n\
                    #[test]\n#[should_panic(expected = \"x\")]\nfn panics() {}\n\
                    #[ignore]\n#[test]\nfn later() {}\n#[cfg(test)]\nfn helper() {}\nfn plain() { let x = '\"'; }\n";
        let found = find_tests_in(text);
        let titles: Vec<&[String]> = found.iter().map(|test| test.titles.as_slice()).collect();
        assert_eq!(titles, [&["inner", "adds"][..], &["waits"]]);
        assert_eq!(found[1].mistakes.len(), 1);
    }
}
