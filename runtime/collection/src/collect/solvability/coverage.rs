//! Determines where an agent can find what each test requires.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Coverage, Requirement, RequirementKind,
    example_choice::choose_examples,
    examples::Example,
    test_requirements::TestRequirements,
    vocabulary::{CodeVocabulary, VisibleText},
};
use crate::collect::settings::SolvabilitySettings;

/// The text that a task shows to the agent or hides from the agent.
pub(super) struct TaskTexts<'a> {
    /// The remaining code. Empty in a level-2 task.
    pub(super) tree: &'a VisibleText,
    pub(super) statement: &'a VisibleText,
    pub(super) hidden: &'a CodeVocabulary,
    /// Names of all functions and classes in the library.
    pub(super) library_functions: &'a BTreeSet<String>,
    /// Names of functions and classes whose results depend on the hidden code.
    pub(super) affected_functions: &'a BTreeSet<String>,
    pub(super) limits: &'a SolvabilitySettings,
}

/// A test function and what it requires.
pub(super) struct TestFunction {
    pub(super) name: String,
    pub(super) requirements: TestRequirements,
    /// The hidden functions that the test called. For each name, whether the statement shows the
    /// function.
    pub(super) called_functions: BTreeMap<String, bool>,
}

type RequirementMap = BTreeMap<(RequirementKind, String), Requirement>;

/// Returns the tests' requirements, sorted by kind. A test with an [`Coverage::Uncovered`]
/// requirement must be removed from the task.
pub(super) fn find_requirements(tests: &[TestFunction], texts: &TaskTexts<'_>) -> Vec<Requirement> {
    let mut found = RequirementMap::new();
    for test in tests {
        for (function, is_shown) in &test.called_functions {
            let coverage = if *is_shown { Coverage::Statement } else { Coverage::Uncovered };
            add_requirement(
                &mut found,
                test,
                RequirementKind::Call,
                function,
                &BTreeSet::new(),
                coverage,
            );
        }
        add_names(&mut found, test, texts);
        add_expectations(&mut found, test, texts);
        add_attributes(&mut found, test, texts);
    }
    let unstated_words = add_examples(&mut found, tests, texts);
    add_texts(&mut found, tests, texts);
    add_expected_texts(&mut found, tests, texts);
    add_values(&mut found, tests, texts);
    add_unstated_words(&mut found, &unstated_words);
    // If only removed tests have a requirement, don't add the requirement to the statement.
    let uncovered = uncovered_tests(&found);
    for requirement in found.values_mut() {
        if requirement.coverage == Coverage::Added && requirement.tests.is_subset(&uncovered) {
            requirement.coverage = Coverage::Uncovered;
        }
    }
    let is_moot =
        |it: &Requirement| it.coverage == Coverage::Unstated && it.tests.is_subset(&uncovered);
    found.into_values().filter(|it| !is_moot(it)).collect()
}

fn uncovered_tests(requirements: &RequirementMap) -> BTreeSet<String> {
    let uncovered = requirements.values().filter(|it| it.coverage == Coverage::Uncovered);
    uncovered.flat_map(|it| it.tests.iter().cloned()).collect()
}

fn add_requirement(
    requirements: &mut RequirementMap,
    test: &TestFunction,
    kind: RequirementKind,
    text: &str,
    functions: &BTreeSet<String>,
    coverage: Coverage,
) {
    let requirement = requirements.entry((kind, text.to_owned())).or_insert_with(|| Requirement {
        kind,
        what: text.to_owned(),
        by: BTreeSet::new(),
        coverage,
        tests: BTreeSet::new(),
    });
    let is_attribute =
        matches!(kind, RequirementKind::Attribute | RequirementKind::PrivateAttribute);
    // One example of how an attribute is used is enough.
    if !is_attribute || requirement.by.is_empty() {
        requirement.by.extend(functions.iter().cloned());
    }
    requirement.tests.insert(test.name.clone());
}

/// Adds the names that a test requires. Unknown names are not added to the statement, because a
/// name alone would not help a solver.
fn add_names(requirements: &mut RequirementMap, test: &TestFunction, texts: &TaskTexts<'_>) {
    for (module, name) in &test.requirements.names {
        let is_constant =
            name.chars().any(char::is_uppercase) && !name.chars().any(char::is_lowercase);
        let kind = if is_constant { RequirementKind::Constant } else { RequirementKind::Name };
        let coverage = texts.word_coverage(name).unwrap_or(Coverage::Uncovered);
        let message = format!("{module}.{name}");
        add_requirement(requirements, test, kind, &message, &BTreeSet::new(), coverage);
    }
}

fn add_expectations(requirements: &mut RequirementMap, test: &TestFunction, texts: &TaskTexts<'_>) {
    let needs = &test.requirements;
    for (kind, types) in
        [(RequirementKind::Raised, &needs.exceptions), (RequirementKind::Warning, &needs.warnings)]
    {
        for (name, by) in types {
            // Ignore the remaining code here, because it may mention the type for an unrelated
            // reason.
            let silent = functions_without(texts.statement, by, name);
            if silent.is_empty() && texts.statement.has_word(name) {
                add_requirement(requirements, test, kind, name, by, Coverage::Statement);
                continue;
            }
            let by = if silent.is_empty() { by } else { &silent };
            // Another test may expect the type from a function whose documentation mentions it.
            let key = (kind, name.clone());
            let stated = requirements.get_mut(&key);
            if let Some(stated) = stated.filter(|it| it.coverage == Coverage::Statement) {
                stated.coverage = Coverage::Added;
                stated.by.clear();
            }
            add_requirement(requirements, test, kind, name, by, Coverage::Added);
        }
    }
    for (text, message) in &needs.messages {
        if text.chars().count() < texts.limits.shortest {
            continue;
        }
        let kind = match message.is_pattern {
            true => RequirementKind::Pattern,
            false => RequirementKind::Message,
        };
        let coverage = texts.text_coverage(text).unwrap_or_else(|| texts.addable_coverage(text));
        add_requirement(requirements, test, kind, text, &message.functions, coverage);
    }
}

/// Returns the functions whose definition in the statement does not mention a word.
fn functions_without(
    statement: &VisibleText,
    functions: &BTreeSet<String>,
    word: &str,
) -> BTreeSet<String> {
    let lacks = |name: &&String| {
        let definitions = statement.definitions(name);
        !definitions.is_empty() && !definitions.into_iter().any(|it| has_whole(it, word))
    };
    functions.iter().filter(lacks).cloned().collect()
}

fn add_attributes(requirements: &mut RequirementMap, test: &TestFunction, texts: &TaskTexts<'_>) {
    let none = BTreeSet::new();
    for (name, written) in &test.requirements.attributes {
        let is_private = name.starts_with('_') && !name.ends_with("__");
        let kind = match is_private {
            true => RequirementKind::PrivateAttribute,
            false => RequirementKind::Attribute,
        };
        let is_hidden = texts.hidden.names.contains(name);
        match texts.word_coverage(name) {
            Some(coverage) if is_hidden || is_private => {
                add_requirement(requirements, test, kind, name, &none, coverage)
            }
            None if is_hidden && !name.ends_with("__") => {
                add_requirement(
                    requirements,
                    test,
                    kind,
                    name,
                    &BTreeSet::from([written.clone()]),
                    Coverage::Added,
                );
            }
            _ => {}
        }
    }
    for (name, written) in &test.requirements.replaced {
        // At level 2, tests can only replace attributes of the library, which is not the solution.
        if texts.tree.is_empty() {
            continue;
        }
        let (kind, none) = (RequirementKind::Replaced, BTreeSet::new());
        let coverage = texts.word_coverage(name).unwrap_or(Coverage::Added);
        add_requirement(requirements, test, kind, written, &none, coverage);
    }
    for (name, by) in &test.requirements.keywords {
        if texts.hidden.names.contains(name) {
            let coverage = texts.word_coverage(name).unwrap_or(Coverage::Added);
            add_requirement(requirements, test, RequirementKind::Keyword, name, by, coverage);
        }
    }
}

/// Adds examples of what the tests expect. Returns the expected words that the examples leave out,
/// for each test.
fn add_examples<'a>(
    requirements: &mut RequirementMap,
    tests: &'a [TestFunction],
    texts: &TaskTexts<'_>,
) -> Vec<(&'a TestFunction, BTreeSet<String>)> {
    let choice = choose_examples(tests, texts);
    for (test, example) in choice.shown {
        let Some(code) = &example.code else { continue };
        // Without a call, the comparison doesn't say what it is about.
        let by = match example.called.is_empty() {
            true => BTreeSet::from([test.name.clone()]),
            false => BTreeSet::new(),
        };
        add_requirement(requirements, test, RequirementKind::Example, code, &by, Coverage::Added);
    }
    choice.unstated
}

/// Adds strings in the hidden code that are too short for [`add_texts`], but that tests expect.
fn add_expected_texts(
    requirements: &mut RequirementMap,
    tests: &[TestFunction],
    texts: &TaskTexts<'_>,
) {
    let is_candidate = |text: &&String| {
        let length = text.chars().count();
        (texts.limits.shortest_expected..texts.limits.shortest).contains(&length)
            && text.contains(char::is_alphabetic)
            && texts.word_coverage(text).is_none()
            && !texts.statement.has_quoted(text)
            && !texts.tree.has_quoted(text)
            && texts.is_addable(text)
    };
    let said = added_texts(requirements);
    for text in texts.hidden.texts.iter().filter(is_candidate) {
        if said.iter().any(|it| has_whole(it, text)) {
            continue;
        }
        for test in tests {
            let mut examples = test.requirements.examples.iter().filter(|it| texts.is_open(it));
            let expects = examples.any(|example| {
                example.expected.iter().any(|it| has_whole(it, text))
                    && !example.inputs.iter().any(|it| has_whole(it, text))
            });
            if expects {
                let (kind, none) = (RequirementKind::Text, BTreeSet::new());
                add_requirement(requirements, test, kind, text, &none, Coverage::Added);
            }
        }
    }
}

/// Adds strings that a test uses as values and that the hidden code handles specially, such as
/// `en_US` if that code compares with the prefix `en`. Tests that expect an exception are skipped,
/// because their values may be the reason for the exception.
fn add_values(requirements: &mut RequirementMap, tests: &[TestFunction], texts: &TaskTexts<'_>) {
    let is_stated = |text: &str| {
        texts.word_coverage(text).is_some()
            || texts.statement.has_quoted(text)
            || texts.tree.has_quoted(text)
    };
    let special: Vec<&String> = texts
        .hidden
        .compared
        .iter()
        .filter(|text| text.contains(char::is_alphabetic) && !is_stated(text))
        .collect();
    let mut said: BTreeSet<&String> = BTreeSet::new();
    for test in tests.iter().filter(|test| test.requirements.exceptions.is_empty()) {
        let needs = &test.requirements;
        let is_expected =
            |text: &String| needs.examples.iter().any(|example| example.expected.contains(text));
        let is_special = |text: &&String| {
            let (starts, ends) = (|it: &str| text.starts_with(it), |it: &str| text.ends_with(it));
            special.iter().any(|it| (starts(it) || ends(it)) && has_whole(text, it))
        };
        let values = needs.strings.iter().filter(is_special);
        let open =
            values.filter(|text| !is_expected(text) && !is_stated(text) && texts.is_addable(text));
        for value in open {
            // At level 2, the hidden code is the whole library, which may compare many strings.
            if said.len() == texts.limits.examples && !said.contains(value) {
                continue;
            }
            said.insert(value);
            let (kind, none) = (RequirementKind::Value, BTreeSet::new());
            add_requirement(requirements, test, kind, value, &none, Coverage::Added);
        }
    }
}

/// Adds the expected words that nothing in the statement contains. The tests stay in the task,
/// because a solver may know the words or find a pattern in the examples.
fn add_unstated_words(
    requirements: &mut RequirementMap,
    words: &[(&TestFunction, BTreeSet<String>)],
) {
    let said = added_texts(requirements);
    for (test, words) in words {
        for word in words.iter().filter(|word| !said.iter().any(|it| it.contains(word.as_str()))) {
            let (kind, none) = (RequirementKind::Word, BTreeSet::new());
            add_requirement(requirements, test, kind, word, &none, Coverage::Unstated);
        }
    }
}

/// Returns everything that is added to the statement.
fn added_texts(requirements: &RequirementMap) -> BTreeSet<String> {
    let added = requirements.values().filter(|it| it.coverage == Coverage::Added);
    added.map(|it| it.what.clone()).collect()
}

/// Whether a text contains another one that is not part of a longer word.
fn has_whole(text: &str, part: &str) -> bool {
    let is_inner = |before: Option<char>, after: Option<char>| {
        before.is_some_and(char::is_alphanumeric) && after.is_some_and(char::is_alphanumeric)
    };
    text.match_indices(part).any(|(at, _)| {
        let end = at + part.len();
        !is_inner(text[..at].chars().next_back(), part.chars().next())
            && !is_inner(part.chars().next_back(), text[end..].chars().next())
    })
}

/// Adds strings in the hidden code that also occur in the tests' strings. A test that needs too
/// many unknown strings must be removed. The tests that need the fewest strings are handled first.
/// A string that is added to the statement for one test is then known to the other tests.
fn add_texts(requirements: &mut RequirementMap, tests: &[TestFunction], texts: &TaskTexts<'_>) {
    let limits = texts.limits;
    let is_long =
        |text: &&String| text.chars().count() >= limits.shortest && is_mostly_letters(text);
    let long: Vec<&String> = texts.hidden.texts.iter().filter(is_long).collect();
    // Everything that is added to the statement, including strings that are added below.
    let mut said = added_texts(requirements);
    let mut open: Vec<(&TestFunction, BTreeSet<&String>)> = Vec::new();
    for test in tests {
        let strings = &test.requirements.strings;
        let is_in_test = |text: &&String| strings.iter().any(|it| it.contains(text.as_str()));
        let mut unknown = BTreeSet::new();
        for text in long.iter().copied().filter(is_in_test) {
            match texts.text_coverage(text) {
                Some(coverage) => {
                    add_requirement(
                        requirements,
                        test,
                        RequirementKind::Text,
                        text,
                        &BTreeSet::new(),
                        coverage,
                    );
                }
                None => drop(unknown.insert(text)),
            }
        }
        open.push((test, unknown));
    }
    open.sort_by_key(|(_, unknown)| unknown.len());
    for (test, mut unknown) in open {
        unknown.retain(|text| !said.iter().any(|it| it.contains(text.as_str())));
        let too_many = unknown.len() > limits.texts;
        for text in unknown {
            let coverage =
                if too_many { Coverage::Uncovered } else { texts.addable_coverage(text) };
            add_requirement(
                requirements,
                test,
                RequirementKind::Text,
                text,
                &BTreeSet::new(),
                coverage,
            );
            if coverage == Coverage::Added {
                said.insert(text.clone());
            }
        }
    }
}

/// Whether letters make up at least half of a string. This excludes rows of dashes and the like.
fn is_mostly_letters(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphabetic()).count() * 2 >= text.chars().count()
}

impl TaskTexts<'_> {
    /// Whether an example depends on the hidden code and expects a string that is not stated.
    pub(super) fn is_open(&self, example: &Example) -> bool {
        let calls = |names: &BTreeSet<String>| !names.is_disjoint(&example.called);
        let is_affected =
            example.uses_state || calls(self.affected_functions) || !calls(self.library_functions);
        is_affected && example.expected.iter().any(|text| !self.is_stated(text, example))
    }

    /// Whether the task's texts contain an expected string, or whether it is one of the inputs.
    pub(super) fn is_stated(&self, text: &str, example: &Example) -> bool {
        text.trim().is_empty()
            || example.inputs.contains(text)
            || self.statement.has_quoted(text)
            || self.tree.has_quoted(text)
    }

    pub(super) fn has_word(&self, word: &str) -> bool {
        self.word_coverage(word).is_some()
    }

    /// Whether a text is fit for the statement.
    pub(super) fn is_addable(&self, text: &str) -> bool {
        text.chars().count() <= self.limits.longest && !text.contains(char::is_control)
    }

    fn word_coverage(&self, word: &str) -> Option<Coverage> {
        if self.statement.has_word(word) {
            return Some(Coverage::Statement);
        }
        self.tree.has_word(word).then_some(Coverage::Tree)
    }

    fn text_coverage(&self, text: &str) -> Option<Coverage> {
        if self.statement.has_text(text) {
            return Some(Coverage::Statement);
        }
        self.tree.has_text(text).then_some(Coverage::Tree)
    }

    /// Returns [`Coverage::Added`] if the text can be added to the statement, and
    /// [`Coverage::Uncovered`] otherwise.
    fn addable_coverage(&self, text: &str) -> Coverage {
        if self.is_addable(text) { Coverage::Added } else { Coverage::Uncovered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::solvability::file_requirements::FileRequirements;

    const TEST_CODE: &str = "\
from pkg import LIMIT, GONE, parse
import pytest

def test_raises():
    with pytest.raises(ValueError, match='no such level'):
        parse(LIMIT, max_depth=3)

def test_private():
    assert parse('x')._cache == {} and parse('x').shown

def test_text():
    assert parse('a').text == 'Written by the parser: a'

def test_page():
    assert parse('b').page == 'First line here, second line here and third line here'

def test_gone():
    assert parse(GONE)
";

    const LIMITS: SolvabilitySettings = SolvabilitySettings {
        shortest: 12,
        shortest_expected: 2,
        longest: 60,
        texts: 1,
        examples: 1,
        fewest_examples: 1,
        all_examples: 1,
    };

    const HIDDEN_CODE: &str = "\
def parse(text, **options):
    tree._cache = options.get('max_depth')
    tree.shown = 'Written by the parser: ' + text
    tree.page = 'First line here', 'second line here', 'third line here'
";

    fn sample_requirements() -> Vec<Requirement> {
        let roots = BTreeSet::from(["pkg".to_owned()]);
        let read = FileRequirements::read(TEST_CODE, "tests.test_m", &roots);
        let test = |name: &str| TestFunction {
            name: name.to_owned(),
            requirements: read.requirements_for_test(&format!("t.py::{name}")),
            called_functions: BTreeMap::from([("parse".to_owned(), true)]),
        };
        let names = ["test_raises", "test_private", "test_text", "test_page", "test_gone"];
        let limits = SolvabilitySettings { texts: 2, examples: 2, all_examples: 5, ..LIMITS };
        let shown = TaskTexts {
            library_functions: &BTreeSet::new(),
            affected_functions: &BTreeSet::new(),
            tree: &VisibleText::new("LIMIT = 3\n".to_owned()),
            statement: &VisibleText::new(
                "def parse(text, **options):\n    # Raises ValueError.\n    shown\n".to_owned(),
            ),
            hidden: &CodeVocabulary::from_code(HIDDEN_CODE),
            limits: &limits,
        };
        find_requirements(&names.map(test), &shown)
    }

    #[test]
    fn find_requirements_reports_the_coverage_of_each_requirement() {
        let told: Vec<String> = sample_requirements()
            .iter()
            .map(|it| {
                let tests: Vec<&str> = it.tests.iter().map(String::as_str).collect();
                format!("{:?} {} {:?} {}", it.kind, it.what, it.coverage, tests.join(" "))
            })
            .collect();
        assert_eq!(
            told,
            [
                "Call parse Statement test_gone test_page test_private test_raises test_text",
                "Name pkg.parse Statement test_gone test_page test_private test_raises test_text",
                "Constant pkg.GONE Uncovered test_gone",
                "Constant pkg.LIMIT Tree test_raises",
                "Raised ValueError Statement test_raises",
                "Pattern no such level Added test_raises",
                "Text First line here Uncovered test_page",
                "Text second line here Uncovered test_page",
                "Text third line here Uncovered test_page",
                "Attribute page Uncovered test_page",
                "Attribute shown Statement test_private",
                "Attribute text Statement test_text",
                "PrivateAttribute _cache Added test_private",
                "Keyword max_depth Added test_raises",
                "Example parse('a').text == 'Written by the parser: a' Added test_text",
            ]
        );
    }

    #[test]
    fn exception_in_the_stub_of_another_function_is_no_statement() {
        let code = "\
def test_get():
    assert raises(TypeError, lambda: get([1], 2))
def test_diff():
    with raises(TypeError):
        diff(1)
    with raises(KeyError):
        diff(2)
    with raises(IndexError):
        other(3)
";
        let read = FileRequirements::read(code, "tests.test_m", &BTreeSet::new());
        let shown = TaskTexts {
            library_functions: &BTreeSet::new(),
            affected_functions: &BTreeSet::new(),
            tree: &VisibleText::default(),
            statement: &VisibleText::new(
                "An IndexError is raised.\ndef diff(x):\n    # Raises TypeError.\ndef get(x, y):\n    \
                 # Raises KeyError.\n"
                    .to_owned(),
            ),
            hidden: &CodeVocabulary::default(),
            limits: &LIMITS,
        };
        // In either order, because the first test creates the requirement.
        for names in [["test_get", "test_diff"], ["test_diff", "test_get"]] {
            let tests = names.map(|name| TestFunction {
                name: name.to_owned(),
                requirements: read.requirements_for_test(&format!("t.py::{name}")),
                called_functions: BTreeMap::new(),
            });
            let told: Vec<(String, Coverage)> = find_requirements(&tests, &shown)
                .into_iter()
                .map(|it| (it.what, it.coverage))
                .collect();
            assert_eq!(
                told,
                [
                    ("IndexError".to_owned(), Coverage::Statement),
                    ("KeyError".to_owned(), Coverage::Added),
                    ("TypeError".to_owned(), Coverage::Added),
                ],
                "{names:?}"
            );
        }
    }

    #[test]
    fn short_hidden_text_is_added_if_tests_expect_it_and_no_example_shows_it() {
        let example = Example {
            code: None,
            expected: vec!["+Inf".to_owned(), "this or that".to_owned()],
            inputs: BTreeSet::from(["an input".to_owned()]),
            called: BTreeSet::new(),
            uses_state: false,
        };
        let test = TestFunction {
            name: "test".to_owned(),
            requirements: TestRequirements { examples: vec![example], ..Default::default() },
            called_functions: BTreeMap::new(),
        };
        let shown = TaskTexts {
            library_functions: &BTreeSet::new(),
            affected_functions: &BTreeSet::new(),
            tree: &VisibleText::default(),
            statement: &VisibleText::new("Returns this or the other.".to_owned()),
            // `or` is a word of the statement, and `an` occurs in no expected string.
            hidden: &CodeVocabulary::from_code("x = '+Inf', 'or', 'an', '-Inf'\n"),
            limits: &LIMITS,
        };
        let told: Vec<(RequirementKind, String, Coverage)> = find_requirements(&[test], &shown)
            .into_iter()
            .map(|it| (it.kind, it.what, it.coverage))
            .collect();
        assert_eq!(
            told,
            [
                (RequirementKind::Text, "+Inf".to_owned(), Coverage::Added),
                (RequirementKind::Word, "that".to_owned(), Coverage::Unstated),
            ]
        );
        assert!(has_whole("a +Inf", "+Inf") && !has_whole("information", "in"));
    }

    #[test]
    fn values_that_the_hidden_code_compares_are_added() {
        let test = |name: &str, strings: &[&str], exceptions: &[&str]| TestFunction {
            name: name.to_owned(),
            requirements: TestRequirements {
                strings: strings.iter().map(|&it| it.to_owned()).collect(),
                exceptions: exceptions.iter().map(|&it| (it.to_owned(), BTreeSet::new())).collect(),
                ..TestRequirements::default()
            },
            called_functions: BTreeMap::new(),
        };
        let tests = [
            test("plain", &["en_US", "en_ZA", "en_GB", "open", "fr_FR"], &[]),
            test("raises", &["xx_en"], &["KeyError"]),
        ];
        let limits = SolvabilitySettings { texts: 2, ..LIMITS };
        let shown = TaskTexts {
            library_functions: &BTreeSet::new(),
            affected_functions: &BTreeSet::new(),
            tree: &VisibleText::default(),
            statement: &VisibleText::new("Raises KeyError. A name, e.g. `en_GB`.".to_owned()),
            hidden: &CodeVocabulary::from_code("x = name.startswith('en')\n"),
            limits: &limits,
        };
        let told: Vec<(RequirementKind, String)> =
            find_requirements(&tests, &shown).into_iter().map(|it| (it.kind, it.what)).collect();
        let expected = [(RequirementKind::Raised, "KeyError"), (RequirementKind::Value, "en_US")];
        assert_eq!(told, expected.map(|(kind, what)| (kind, what.to_owned())));
    }

    #[test]
    fn text_added_for_one_test_counts_as_known_to_the_others() {
        let test = |name: &str, strings: &[&str]| TestFunction {
            name: name.to_owned(),
            requirements: TestRequirements {
                strings: strings.iter().map(|&it| it.to_owned()).collect(),
                ..TestRequirements::default()
            },
            called_functions: BTreeMap::new(),
        };
        let tests = [test("both", &["first text, second text"]), test("one", &["first text"])];
        let limits = SolvabilitySettings { shortest: 10, shortest_expected: 3, ..LIMITS };
        let shown = TaskTexts {
            library_functions: &BTreeSet::new(),
            affected_functions: &BTreeSet::new(),
            tree: &VisibleText::default(),
            statement: &VisibleText::default(),
            hidden: &CodeVocabulary::from_code("x = 'first text', 'second text'\n"),
            limits: &limits,
        };
        let judged = find_requirements(&tests, &shown);
        assert!(judged.iter().all(|it| it.coverage == Coverage::Added), "{judged:?}");
    }
}
