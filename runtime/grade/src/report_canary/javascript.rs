//! Finds tests and assertions in JavaScript: node:test, jest, vitest, mocha, and chai.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    literal::changed_literal,
    source::{Language, Source, TokenKind},
    test_case::{Change, Mistake, TestCase},
};
use crate::canary::MistakeKind;

/// Names that the parser recognizes in tests, from `configs/tables/grading.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JavaScriptWords {
    /// File name suffixes.
    pub suffixes: Vec<String>,
    /// Functions that define a test.
    pub tests: Vec<String>,
    /// Functions that define a suite.
    pub suites: Vec<String>,
    /// Variants of functions in `tests` and `suites` that still run the test or suite.
    pub variants: Vec<String>,
    /// Objects whose methods are assertions. The first can also be called as a function.
    pub receivers: Vec<String>,
    /// Methods that compare their first two arguments.
    pub equalities: Vec<String>,
    /// Methods that require their first argument to be truthy.
    pub truths: Vec<String>,
    /// Each method and the method that requires the opposite.
    pub opposites: BTreeMap<String, String>,
    /// Methods after `expect(...)` that compare the value with their argument.
    pub matchers: Vec<String>,
    /// Properties after `expect(...)` that are assertions.
    pub properties: Vec<String>,
    /// Parts of an assertion's name that indicate a promise.
    pub promised: Vec<String>,
}

/// A new symbol, which equals no honest value.
const UNIQUE_SYMBOL: &str = "Symbol()";
/// A statement that throws an error. Its condition is always true, but without a condition,
/// compilers would report the rest of the test as unreachable.
const FAILING_STATEMENT: &str = " if (typeof Symbol === 'function') throw new Error('unexpected');";
/// Keywords after which a bracket does not begin a function's parameters.
const CONTROL_KEYWORDS: [&str; 7] = ["if", "for", "while", "switch", "catch", "with", "await"];
/// Keywords after which a statement continues on the next line.
const CONTINUATION_KEYWORDS: [&str; 15] = [
    "else",
    "do",
    "return",
    "await",
    "typeof",
    "new",
    "in",
    "of",
    "case",
    "delete",
    "void",
    "yield",
    "throw",
    "instanceof",
    "async",
];

/// Returns the tests in a file that have literal titles; none if the file cannot be parsed.
pub(super) fn find_tests(text: &str, words: &JavaScriptWords) -> Vec<TestCase> {
    let Some(source) = Source::parse(text, Language::JavaScript) else { return Vec::new() };
    let reader = TestParser { source: &source, words };
    let regions = reader.find_test_calls();
    let tests = regions.iter().filter(|region| region.is_test);
    tests.filter_map(|region| reader.parse_test(region, &regions)).collect()
}

/// A call that defines a test or a suite.
struct TestCall {
    open_bracket: usize,
    close_bracket: usize,
    /// `None` if the title is computed.
    title: Option<String>,
    is_test: bool,
}

impl TestCall {
    fn contains(&self, at: usize) -> bool {
        self.open_bracket < at && at < self.close_bracket
    }
}

/// The body of a test's function.
#[derive(Clone, Copy)]
enum Body {
    /// The opening bracket of the body's statements.
    Block(usize),
    /// The first and the last token of the body's expression.
    Expression(usize, usize),
}

/// An assertion.
struct Assertion {
    first_token: usize,
    last_token: usize,
    changes: Vec<Change>,
    is_comparison: bool,
    is_promise: bool,
}

struct TestParser<'a> {
    source: &'a Source<'a>,
    words: &'a JavaScriptWords,
}

fn contains_word(words: &[String], word: &str) -> bool {
    words.iter().any(|one| one == word)
}

impl TestParser<'_> {
    fn find_test_calls(&self) -> Vec<TestCall> {
        let source = self.source;
        let mut regions = Vec::new();
        for at in 0..source.tokens.len() {
            let word = source.word(at);
            let is_test = contains_word(&self.words.tests, word);
            if !is_test && !contains_word(&self.words.suites, word) || !self.is_free_call(at) {
                continue;
            }
            let mut open = at + 1;
            if source.is_sign(open, b'.')
                && contains_word(&self.words.variants, source.word(open + 1))
            {
                open += 2;
            }
            let Some(close) = source.matching_bracket(open).filter(|_| source.is_sign(open, b'('))
            else {
                continue;
            };
            let title = self.parse_title(open + 1);
            regions.push(TestCall { open_bracket: open, close_bracket: close, title, is_test });
        }
        regions
    }

    /// Whether a word may be a call to a test function. A definition is not a call. A method only
    /// counts if it belongs to a test's context (`t.test`).
    fn is_free_call(&self, at: usize) -> bool {
        let source = self.source;
        match at.checked_sub(1) {
            None => true,
            Some(before) if source.is_sign(before, b'.') => {
                before > 0 && source.word(before - 1) == "t"
            }
            Some(before) => !matches!(source.word(before), "function" | "async"),
        }
    }

    /// The title at a token, if it is a complete string literal.
    fn parse_title(&self, at: usize) -> Option<String> {
        let source = self.source;
        let ends = source.is_sign(at + 1, b',') || source.is_sign(at + 1, b')');
        if source.kind(at) != Some(TokenKind::Text) || !ends {
            return None;
        }
        let text = source.token_text(at);
        let mut title = String::new();
        let mut chars = text.get(1..text.len() - 1)?.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next()? {
                    c @ ('\\' | '\'' | '"' | '`') => title.push(c),
                    _ => return None,
                },
                c => title.push(c),
            }
        }
        Some(title)
    }

    fn parse_test(&self, region: &TestCall, regions: &[TestCall]) -> Option<TestCase> {
        let source = self.source;
        let around = regions.iter().filter(|other| other.contains(region.open_bracket));
        let titles = around.chain([region]).map(|region| region.title.clone());
        let titles: Vec<String> = titles.collect::<Option<_>>()?;
        let body = self.find_body(region)?;
        let (first, last) = match body {
            Body::Block(open) => (open, source.matching_bracket(open)?),
            Body::Expression(first, last) => (first, last),
        };
        let inner: Vec<&TestCall> = regions
            .iter()
            .filter(|other| other.is_test && region.contains(other.open_bracket))
            .collect();
        let is_own = |at: &usize| !inner.iter().any(|inner| inner.contains(*at));
        let leaves = (first..=last)
            .filter(is_own)
            .find(|at| source.word(*at) == "return" && !self.is_in_function(*at, first));
        let mut found =
            TestCase { titles, mistakes: vec![self.throwing_mistake(body)], has_comparison: false };
        for at in (first..=last).filter(is_own) {
            let Some(assertion) = self.parse_assertion(at) else { continue };
            found.has_comparison |= assertion.is_comparison;
            let is_certain = self.is_certain(&assertion, body, leaves);
            let changes = assertion.changes.into_iter();
            found.mistakes.extend(changes.map(|change| change.into_mistake(is_certain)));
        }
        Some(found)
    }

    /// Returns the body of the first argument that is itself a function.
    fn find_body(&self, region: &TestCall) -> Option<Body> {
        let source = self.source;
        for (first, last) in source.arguments(region.open_bracket).into_iter().skip(1) {
            let mut at = first;
            let (mut arrow, mut block) = (None, None);
            let is_function = (first..=first + 1).any(|at| source.word(at) == "function");
            while at <= last {
                if source.kind(at) == Some(TokenKind::Arrow) && arrow.is_none() {
                    arrow = Some(at);
                }
                if source.is_sign(at, b'{') && is_function {
                    block = Some(at);
                }
                at = source.matching_bracket(at).filter(|pair| *pair > at).unwrap_or(at) + 1;
            }
            match (block, arrow) {
                (Some(open), _) => return Some(Body::Block(open)),
                (None, Some(arrow)) if source.is_sign(arrow + 1, b'{') => {
                    return Some(Body::Block(arrow + 1));
                }
                (None, Some(arrow)) if arrow < last => {
                    return Some(Body::Expression(arrow + 1, last));
                }
                _ => {}
            }
        }
        None
    }

    /// Returns a mistake that throws an error at the start of a test.
    fn throwing_mistake(&self, body: Body) -> Mistake {
        let source = self.source;
        let change = match body {
            Body::Block(open) => {
                let (_, end) = source.byte_range((open, open));
                Change::new(MistakeKind::Fail, (end, end), FAILING_STATEMENT)
            }
            Body::Expression(first, last) => {
                let span = source.byte_range((first, last));
                Change::new(MistakeKind::Fail, span, format!("{{{FAILING_STATEMENT} }}"))
            }
        };
        change.into_mistake(true)
    }

    /// Whether a token is in a nested function, not directly in the body that begins at
    /// `body_start`.
    fn is_in_function(&self, at: usize, body_start: usize) -> bool {
        let source = self.source;
        let mut parent = source.enclosing_bracket(at);
        while let Some(open) = parent.filter(|open| *open > body_start) {
            if source.is_sign(open, b'{') && self.begins_function(open) {
                return true;
            }
            parent = source.enclosing_bracket(open);
        }
        false
    }

    fn begins_function(&self, open_bracket: usize) -> bool {
        let source = self.source;
        let Some(before) = open_bracket.checked_sub(1) else { return false };
        if source.kind(before) == Some(TokenKind::Arrow) {
            return true;
        }
        let parameters = source.matching_bracket(before).filter(|_| source.is_sign(before, b')'));
        parameters
            .is_some_and(|begin| begin == 0 || !CONTROL_KEYWORDS.contains(&source.word(begin - 1)))
    }

    /// Whether every passing run executes an assertion and waits for it.
    fn is_certain(&self, assertion: &Assertion, body: Body, exit_index: Option<usize>) -> bool {
        let source = self.source;
        let mut first = assertion.first_token;
        let mut is_awaited = false;
        while first > 0 && matches!(source.word(first - 1), "await" | "return" | "void") {
            first -= 1;
            is_awaited |= source.word(first) != "void";
        }
        let next = assertion.last_token + 1;
        match body {
            Body::Expression(begin, end) => first == begin && assertion.last_token == end,
            Body::Block(open) => {
                let ends = match source.kind(next) {
                    Some(TokenKind::Sign(b';' | b'}')) => true,
                    Some(
                        TokenKind::Word | TokenKind::Text | TokenKind::Number | TokenKind::Other,
                    ) => source.tokens[next].is_first,
                    _ => false,
                };
                source.enclosing_bracket(first) == Some(open)
                    && self.begins_statement(first)
                    && ends
                    && (!assertion.is_promise || is_awaited)
                    && exit_index.is_none_or(|leaves| first <= leaves)
            }
        }
    }

    fn begins_statement(&self, at: usize) -> bool {
        let source = self.source;
        let Some(before) = at.checked_sub(1) else { return true };
        let is_first = source.tokens[at].is_first;
        match source.kind(before) {
            Some(TokenKind::Sign(b';' | b'{' | b'}')) => true,
            Some(TokenKind::Sign(b')')) if is_first => {
                let begin = source.matching_bracket(before).and_then(|begin| begin.checked_sub(1));
                begin.is_none_or(|word| !CONTROL_KEYWORDS.contains(&source.word(word)))
            }
            Some(TokenKind::Word) => {
                is_first && !CONTINUATION_KEYWORDS.contains(&source.word(before))
            }
            Some(
                TokenKind::Sign(b']') | TokenKind::Text | TokenKind::Number | TokenKind::Other,
            ) => is_first,
            _ => false,
        }
    }

    /// Returns the assertion that begins at a token.
    fn parse_assertion(&self, at: usize) -> Option<Assertion> {
        let source = self.source;
        let is_part = at > 0 && source.is_sign(at - 1, b'.');
        if source.word(at).is_empty() || is_part {
            return None;
        }
        if source.word(at) == "expect" && source.is_sign(at + 1, b'(') {
            return self.parse_expectation(at);
        }
        let mut last = at;
        while source.is_sign(last + 1, b'.') && !source.word(last + 2).is_empty() {
            last += 2;
        }
        let open = last + 1;
        let close = source.matching_bracket(open).filter(|_| source.is_sign(open, b'('))?;
        let method = source.word(last);
        let words = self.words;
        let is_bare = last == at;
        let receiver: Vec<&str> = (at..last).step_by(2).map(|at| source.word(at)).collect();
        if !is_bare && !contains_word(&words.receivers, &receiver.join(".")) {
            return None;
        }
        let arguments = source.arguments(open);
        let is_truth = match is_bare {
            true => words.receivers.first().is_some_and(|name| name == method),
            false => contains_word(&words.truths, method),
        };
        let is_equality =
            contains_word(&words.equalities, method) && (!is_bare || method.ends_with("Equal"));
        let changes = match arguments.as_slice() {
            [one, other, ..] if is_equality => self.other_values(Some(*one), *other),
            [one, ..] if is_truth => {
                let (start, end) = source.byte_range(*one);
                let now = format!("!({})", &source.text[start..end]);
                vec![Change::new(MistakeKind::Negated, (start, end), now)]
            }
            _ => {
                let opposite = words.opposites.get(method).filter(|_| !is_bare)?;
                let span = source.byte_range((last, last));
                vec![Change::new(MistakeKind::Negated, span, opposite.as_str())]
            }
        };
        let is_promise = contains_word(&words.promised, method);
        Some(Assertion {
            first_token: at,
            last_token: close,
            changes,
            is_comparison: is_equality,
            is_promise,
        })
    }

    /// Parses `expect(value).to.equal(other)` and `expect(value).resolves.toBe(other)`.
    fn parse_expectation(&self, at: usize) -> Option<Assertion> {
        let source = self.source;
        let mut last = source.matching_bracket(at + 1)?;
        let mut chain = Vec::new();
        while source.is_sign(last + 1, b'.') && !source.word(last + 2).is_empty() {
            last += 2;
            chain.push(last);
        }
        let name_at = *chain.last()?;
        let name = source.word(name_at);
        let is_called = source.is_sign(last + 1, b'(');
        if !is_called && !contains_word(&self.words.properties, name) || name.contains("Snapshot") {
            return None;
        }
        let arguments = if is_called { source.arguments(last + 1) } else { Vec::new() };
        if is_called {
            last = source.matching_bracket(last + 1)?;
        }
        let compared = arguments.first().filter(|_| contains_word(&self.words.matchers, name));
        let not = chain.iter().find(|at| source.word(**at) == "not");
        let changes = match not {
            Some(not) => {
                vec![Change::new(MistakeKind::Negated, source.byte_range((*not - 1, *not)), "")]
            }
            None => {
                let (dot, _) = source.byte_range((name_at - 1, name_at - 1));
                let given = source.arguments(at + 1).first().copied();
                let mut changes =
                    compared.map(|other| self.other_values(given, *other)).unwrap_or_default();
                changes.push(Change::new(MistakeKind::Negated, (dot, dot), ".not"));
                changes
            }
        };
        let is_promise =
            chain.iter().any(|at| contains_word(&self.words.promised, source.word(*at)));
        Some(Assertion {
            first_token: at,
            last_token: last,
            changes,
            is_comparison: compared.is_some(),
            is_promise,
        })
    }

    /// Returns other values for the argument that consists of literals, or for the second argument.
    fn other_values(
        &self,
        first_operand: Option<(usize, usize)>,
        second_operand: (usize, usize),
    ) -> Vec<Change> {
        let source = self.source;
        let written =
            (first_operand.and_then(|one| self.literals(one)), self.literals(second_operand));
        let (argument, literals) = match (written, first_operand) {
            // Both arguments are literals, so the code under test has no effect on the comparison.
            ((Some(_), Some(_)), _) => return Vec::new(),
            ((Some(literals), None), Some(one)) => (one, literals),
            ((_, literals), _) => (second_operand, literals.unwrap_or_default()),
        };
        let changes = literals.into_iter().filter_map(|at| {
            let now =
                changed_literal(source.token_text(at), source.kind(at)?, Language::JavaScript)?;
            Some(Change::new(MistakeKind::Value, source.byte_range((at, at)), now))
        });
        let changes: Vec<Change> = changes.collect();
        if changes.is_empty() {
            return vec![Change::new(
                MistakeKind::Wrapped,
                source.byte_range(argument),
                UNIQUE_SYMBOL,
            )];
        }
        changes
    }

    /// Returns an argument's literals if it contains nothing else. Property names are ignored.
    fn literals(&self, (first, last): (usize, usize)) -> Option<Vec<usize>> {
        let source = self.source;
        let mut found = Vec::new();
        for at in first..=last {
            let is_name = source.is_sign(at + 1, b':');
            match source.kind(at)? {
                TokenKind::Word if is_name => {}
                TokenKind::Word
                    if matches!(source.word(at), "true" | "false" | "null" | "undefined") =>
                {
                    found.push(at);
                }
                TokenKind::Text | TokenKind::Number if is_name => {}
                TokenKind::Text | TokenKind::Number => found.push(at),
                TokenKind::Sign(b'[' | b']' | b'{' | b'}' | b',' | b':') => {}
                TokenKind::Sign(b'-') if source.kind(at + 1) == Some(TokenKind::Number) => {}
                _ => return None,
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn find_tests_in(text: &str) -> Vec<TestCase> {
        find_tests(text, &Policy::get().unwrap().report.canaries.javascript)
    }

    /// The mistakes of a test with this body, except the failure at its start.
    fn mistakes(body: &str) -> Vec<(MistakeKind, bool, String)> {
        let text = format!("test('t', async (t) => {{\n{body}\n}});\n");
        let [test]: [TestCase; 1] = find_tests_in(&text).try_into().unwrap();
        let of = |mistake: &Mistake| {
            let (start, end) = mistake.span;
            let before = text[..start].rfind('\n').unwrap_or(0);
            let after = text[end..].find('\n').map_or(text.len(), |at| end + at);
            let now =
                format!("{}{}{}", &text[before..start], mistake.replacement, &text[end..after]);
            (mistake.kind, mistake.is_certain, now.trim().to_owned())
        };
        let rest = test.mistakes.iter().filter(|mistake| mistake.kind != MistakeKind::Fail);
        rest.map(of).collect()
    }

    #[test]
    fn mistakes_change_the_expected_value() {
        for (body, now) in [
            ("assert.equal(add(1, 2), 3);", "assert.equal(add(1, 2), 2);"),
            ("assert.strictEqual('IV', f(4))", "assert.strictEqual('JV', f(4))"),
            (
                "assert.deepEqual(f(), { a: [1], 'b': -2 });",
                "assert.deepEqual(f(), { a: [0], 'b': -2 });",
            ),
            ("expect(f(1)).toBe('x');", "expect(f(1)).toBe('y');"),
            ("expect(f(1)).to.deep.equal([true]);", "expect(f(1)).to.deep.equal([false]);"),
            ("await expect(f(1)).resolves.toEqual(2);", "await expect(f(1)).resolves.toEqual(1);"),
            ("strictEqual(f(), `a`);", "strictEqual(f(), `b`);"),
        ] {
            let found = mistakes(body);
            assert_eq!(found[0], (MistakeKind::Value, true, now.to_owned()), "{body}");
        }
        for (body, now) in [
            ("assert.equal(f(), other());", "assert.equal(f(), Symbol());"),
            ("assert.deepEqual(f(), {});", "assert.deepEqual(f(), Symbol());"),
            ("expect(f()).toEqual(new Set([1]));", "expect(f()).toEqual(Symbol());"),
            ("expect(f()).toBe(null);", "expect(f()).toBe(Symbol());"),
        ] {
            assert_eq!(mistakes(body)[0], (MistakeKind::Wrapped, true, now.to_owned()), "{body}");
        }
    }

    #[test]
    fn mistakes_reverse_other_assertions() {
        for (body, now) in [
            ("assert(f(1) > 2, 'text');", "assert(!(f(1) > 2), 'text');"),
            ("assert.ok(f());", "assert.ok(!(f()));"),
            ("assert.throws(() => f(), /x/);", "assert.doesNotThrow(() => f(), /x/);"),
            ("expect(f()).toContain('a');", "expect(f()).not.toContain('a');"),
            ("expect(f()).not.toBe(3);", "expect(f()).toBe(3);"),
            ("expect(f()).to.be.true;", "expect(f()).to.be.not.true;"),
            ("expect(() => f()).toThrow();", "expect(() => f()).not.toThrow();"),
        ] {
            let found = mistakes(body);
            assert_eq!(found, [(MistakeKind::Negated, true, now.to_owned())], "{body}");
        }
        for body in ["expect(f()).toMatchSnapshot();", "check(f(), 3);", "cache.equal(f(), 3);"] {
            assert!(mistakes(body).is_empty(), "{body}");
        }
    }

    #[test]
    fn only_assertions_that_every_run_reaches_are_certain() {
        let is_certain = |body: &str| mistakes(body)[0].1;
        for body in [
            "const a = f()\nassert.equal(a, 3)",
            "const f = () => { return 1; };\nassert.equal(f(), 3);",
            "if (x) { y(); }\nexpect(a).toBe(3)\nlast()",
            "return assert.equal(a, 3);",
            "return expect(f()).resolves.toBe(3);",
        ] {
            assert!(is_certain(body), "{body}");
        }
        for body in [
            "if (x) assert.equal(a, 3);",
            "if (x)\n  assert.equal(a, 3);",
            "for (const x of y) { assert.equal(x, 3); }",
            "if (x) { return; }\nassert.equal(a, 3);",
            "x && assert.equal(a, 3);",
            "y(() => assert.equal(a, 3));",
            "expect(f()).resolves.toBe(3);",
            "expect(f()).resolves.toBe(3)\n  .catch(() => {});",
            "try { assert.equal(a, 3); } catch {}",
            "else\nassert.equal(a, 3);",
        ] {
            assert!(!is_certain(body), "{body}");
        }
    }

    #[test]
    fn tests_include_the_titles_of_their_suites() {
        let text = "describe('calc', function () {\n  it('adds', () => assert.equal(f(), 3));\n  \
                    it.skip('later', () => {});\n  describe(name, () => { it('x', () => {}); });\n  \
                    it(`no ${title}`, () => {});\n});\n\
                    test('it\\'s', { timeout: 5 }, async function (t) {\n  await t.test('inner', () => {});\n});\n\
                    function test(a) {}\nregex.test('y');\n";
        let found = find_tests_in(text);
        let titles: Vec<&[String]> = found.iter().map(|test| test.titles.as_slice()).collect();
        assert_eq!(titles, [&["calc", "adds"][..], &["it's"], &["it's", "inner"]]);
        assert_eq!(found[0].mistakes.len(), 2);
        assert!(found[0].has_comparison && !found[1].has_comparison);
        // The test function's body is an expression.
        assert!(found[0].mistakes[0].replacement.starts_with("{ if ("));
    }
}
