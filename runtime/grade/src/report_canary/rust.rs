//! Tests and assertions of Rust.

use serde::Deserialize;

use super::{
    found::{Change, FoundTest},
    literal::another,
    source::{Language, Source, What},
};
use crate::canary::Kind;

/// The words of tests, as `configs/grading.toml` lists them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RustWords {
    /// Suffixes of files.
    pub suffixes: Vec<String>,
    /// Attributes of tests that a failure does not fail.
    pub exceptions: Vec<String>,
    /// Macros that never leave the test.
    pub macros: Vec<String>,
    /// Functions and methods whose value changes if their literal does.
    pub conversions: Vec<String>,
    /// Texts without one of which a patch cannot change what a comparison does.
    pub comparisons: Vec<String>,
}

/// Fails at run time.
const FAILS: &str = " assert_eq!(1, 2);";

/// The tests of a file. None if the file cannot be read.
pub(super) fn tests(text: &str, words: &RustWords) -> Vec<FoundTest> {
    let Some(source) = Source::read(text, Language::Rust) else { return Vec::new() };
    let reader = Reader { source: &source, words };
    (0..source.tokens.len()).filter_map(|at| reader.test(at)).collect()
}

/// Whether a patch may define objects that agree with everything, or other assertions: it adds a
/// line that names what these need. `#[derive(PartialEq)]` compares honestly.
pub(super) fn may_agree(patch: &[u8], words: &RustWords) -> bool {
    let patch = String::from_utf8_lossy(patch);
    let is_named = |line: &str| words.comparisons.iter().any(|text| line.contains(text.as_str()));
    patch.contains("GIT binary patch")
        || patch
            .lines()
            .any(|line| line.starts_with('+') && !line.contains("derive(") && is_named(line))
}

/// An assertion.
struct Assertion {
    /// Other values for what is compared.
    values: Vec<Change>,
    /// Whether an honest test that reaches one of them fails.
    is_certain: bool,
    /// The opposite assertion.
    opposite: Change,
    compares: bool,
}

struct Reader<'a> {
    source: &'a Source<'a>,
    words: &'a RustWords,
}

fn has(words: &[String], word: &str) -> bool {
    words.iter().any(|one| one == word)
}

impl Reader<'_> {
    /// The test whose `fn` is at a token.
    fn test(&self, at: usize) -> Option<FoundTest> {
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
            open = source.pair(open).filter(|pair| *pair > open).unwrap_or(open) + 1;
            source.what(open)?;
        }
        let close = source.pair(open)?;
        let titles = self.modules(at).into_iter().chain([name.to_owned()]).collect();
        let (_, end) = source.span((open, open));
        let failure = Change::new(Kind::Fail, (end, end), FAILS).mistake(true);
        let mut found = FoundTest { titles, mistakes: vec![failure], compares: false };
        let leaves = (open..close).find(|at| self.may_leave(*at)).unwrap_or(close);
        for at in open + 1..close {
            let is_direct = source.parent(at) == Some(open) && self.begins_statement(at);
            let is_reached = is_direct && at < leaves;
            let Some(assertion) = self.assertion(at) else { continue };
            found.compares |= assertion.compares;
            let values = assertion.values.into_iter();
            let is_certain = is_reached && assertion.is_certain;
            found.mistakes.extend(values.map(|change| change.mistake(is_certain)));
            found.mistakes.push(assertion.opposite.mistake(is_reached));
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
            let begin = source.pair(before).filter(|_| source.is_sign(before, b']'));
            let hash = begin.and_then(|begin| begin.checked_sub(1));
            let Some((begin, hash)) =
                begin.zip(hash).filter(|(_, hash)| source.is_sign(*hash, b'#'))
            else {
                return is_test;
            };
            let words: Vec<&str> =
                source.children(begin).iter().map(|at| source.word(*at)).collect();
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            if words.iter().any(|word| has(&self.words.exceptions, word)) {
                return false;
            }
            // `#[test]`, `#[tokio::test(flavor = "...")]`.
            is_test |= words.last() == Some(&"test");
            end = hash;
        }
    }

    /// The modules around a token, outermost first.
    fn modules(&self, at: usize) -> Vec<String> {
        let source = self.source;
        let mut found = Vec::new();
        let mut parent = source.parent(at);
        while let Some(open) = parent {
            if open >= 2 && source.word(open - 2) == "mod" {
                found.push(source.word(open - 1).to_owned());
            }
            parent = source.parent(open);
        }
        found.reverse();
        found
    }

    /// Whether a run may end the test here without a failure: `return`, or a macro that may hide
    /// one.
    fn may_leave(&self, at: usize) -> bool {
        let source = self.source;
        let word = source.word(at);
        let is_macro = source.is_sign(at + 1, b'!') && self.is_bracket(at + 2);
        word == "return"
            || (is_macro && self.begins_statement(at) && !has(&self.words.macros, word))
    }

    fn is_bracket(&self, at: usize) -> bool {
        matches!(self.source.what(at), Some(What::Sign(b'(' | b'[' | b'{')))
    }

    fn begins_statement(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.source.what(before));
        matches!(before, Some(What::Sign(b';' | b'{' | b'}')))
    }

    /// The assertion that begins at a token.
    fn assertion(&self, at: usize) -> Option<Assertion> {
        let source = self.source;
        if !source.is_sign(at + 1, b'!') || !self.is_bracket(at + 2) {
            return None;
        }
        let arguments = source.arguments(at + 2);
        let of_name = |other: &str| Change::new(Kind::Negated, source.span((at, at)), other);
        let (mut values, mut is_certain) = (Vec::new(), true);
        let opposite = match (source.word(at), arguments.as_slice()) {
            ("assert_eq", [one, other, ..]) => {
                (values, is_certain) = self.other_values(*one, *other);
                of_name("assert_ne")
            }
            ("assert_ne", [_, _, ..]) => of_name("assert_eq"),
            ("assert", [one, ..]) if !(one.0..=one.1).any(|at| source.word(at) == "let") => {
                let (start, end) = source.span(*one);
                let now = format!("!({})", &source.text[start..end]);
                Change::new(Kind::Negated, (start, end), now)
            }
            _ => return None,
        };
        let compares = source.word(at) != "assert";
        Some(Assertion { values, is_certain, opposite, compares })
    }

    /// Other values for the one of two arguments that is written out, and whether they certainly
    /// matter to the comparison. What the equality of a type of the task compares is unknown.
    fn other_values(&self, one: (usize, usize), other: (usize, usize)) -> (Vec<Change>, bool) {
        let is_plain = (self.is_plain(one), self.is_plain(other));
        let (argument, is_certain) = match is_plain {
            // Both are known: nothing of the code under test is compared.
            (true, true) => return (Vec::new(), true),
            (true, false) => (one, true),
            (false, true) => (other, true),
            (false, false) if self.is_data(other) => (other, false),
            (false, false) if self.is_data(one) => (one, false),
            (false, false) => return (Vec::new(), true),
        };
        let source = self.source;
        let changes = (argument.0..=argument.1).filter_map(|at| {
            let now = another(source.text_of(at), source.what(at)?, Language::Rust)?;
            Some(Change::new(Kind::Value, source.span((at, at)), now))
        });
        (changes.collect(), is_certain)
    }

    /// Whether an argument consists of literals, and of types of the standard library around them.
    fn is_plain(&self, (first, last): (usize, usize)) -> bool {
        let source = self.source;
        (first..=last).all(|at| match source.what(at) {
            Some(What::Text | What::Number | What::Char) => true,
            Some(What::Word) => {
                let word = source.word(at);
                matches!(word, "true" | "false") || has(&self.words.conversions, word)
            }
            Some(What::Sign(sign)) => b"()[],&-!.:".contains(&sign),
            _ => false,
        })
    }

    /// Whether an argument only builds a value: no function with another name than a type's is
    /// called.
    fn is_data(&self, (first, last): (usize, usize)) -> bool {
        let source = self.source;
        (first..=last).all(|at| match source.what(at) {
            Some(What::Text | What::Number | What::Char) => true,
            Some(What::Word) => {
                let word = source.word(at);
                let is_called = source.is_sign(at + 1, b'(') || source.is_sign(at + 1, b'!');
                let is_member = at > 0 && source.is_sign(at - 1, b'.');
                let is_of_type = at > 2 && source.is_sign(at - 1, b':');
                let is_known = |word: &str| has(&self.words.conversions, word);
                match word.starts_with(char::is_uppercase) {
                    true => !is_member,
                    // `Foo::new(1)` may panic with another value, before anything is compared.
                    false if is_called && is_of_type => {
                        is_known(word) && is_known(source.word(at - 3))
                    }
                    false if is_called => is_known(word),
                    false => !is_member,
                }
            }
            Some(What::Sign(sign)) => b"()[]{},&-!.:".contains(&sign),
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn found(text: &str) -> Vec<FoundTest> {
        tests(text, &Policy::get().unwrap().report.canaries.rust)
    }

    /// The mistakes of a test with this body, other than its failure at the beginning.
    fn mistakes(body: &str) -> Vec<(Kind, bool, String)> {
        let text = format!("#[test]\nfn t() {{ {body} }}\n");
        let [test]: [FoundTest; 1] = found(&text).try_into().unwrap();
        let head = "#[test]\nfn t() { ".len();
        let rest = test.mistakes.iter().filter(|mistake| mistake.kind != Kind::Fail);
        rest.map(|mistake| {
            let mut now = text.clone();
            now.replace_range(mistake.span.0..mistake.span.1, &mistake.now);
            let now = now[head..now.len() - " }\n".len()].to_owned();
            (mistake.kind, mistake.is_certain, now)
        })
        .collect()
    }

    #[test]
    fn the_value_that_an_assertion_expects_is_changed() {
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
            assert_eq!(found[0], (Kind::Value, is_certain, now.to_owned()), "{body}");
        }
    }

    #[test]
    fn other_assertions_are_reversed() {
        for (body, now) in [
            ("assert!(f(1) > 2, \"text\");", "assert!(!(f(1) > 2), \"text\");"),
            ("assert_ne!(f(), 3);", "assert_eq!(f(), 3);"),
            ("assert_eq!(f(), Point::new(1));", "assert_ne!(f(), Point::new(1));"),
            ("assert_eq!(f::<A, B>(1), 2);", "assert_ne!(f::<A, B>(1), 2);"),
        ] {
            assert_eq!(mistakes(body), [(Kind::Negated, true, now.to_owned())], "{body}");
        }
        assert!(mistakes("check(f(), 3); assert!(let Some(1) = f());").is_empty());
    }

    #[test]
    fn a_patch_without_an_equality_of_its_own_cannot_agree_with_everything() {
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
            assert_eq!(may_agree(patch.as_bytes(), words), agrees, "{line}");
        }
    }

    #[test]
    fn tests_are_functions_that_fail_if_they_panic() {
        let text = "use calc::*;\nmod inner {\n    #[test]\n    fn adds() {}\n}\n\
                    #[tokio::test(flavor = \"multi_thread\")]\n/// Text.\nasync fn waits() -> Result<(), Box<dyn Error>> { Ok(()) }\n\
                    #[test]\n#[should_panic(expected = \"x\")]\nfn panics() {}\n\
                    #[ignore]\n#[test]\nfn later() {}\n#[cfg(test)]\nfn helper() {}\nfn plain() { let x = '\"'; }\n";
        let found = found(text);
        let titles: Vec<&[String]> = found.iter().map(|test| test.titles.as_slice()).collect();
        assert_eq!(titles, [&["inner", "adds"][..], &["waits"]]);
        assert_eq!(found[1].mistakes.len(), 1);
    }
}
