//! Chooses the examples that the statement shows, if it does not state all the strings that the
//! tests expect.

use std::collections::BTreeSet;

use super::{
    coverage::{TaskTexts, TestFunction},
    examples::Example,
};

/// Characters around a word that are not part of it.
const PUNCTUATION: [char; 17] =
    ['"', '\'', '`', '(', ')', '[', ']', '{', '}', '<', '>', ',', '.', ';', ':', '!', '?'];

/// The examples that a statement shows.
#[derive(Default)]
pub(super) struct ExampleChoice<'a> {
    pub(super) shown: Vec<(&'a TestFunction, &'a Example)>,
    /// Words that a test expects and that no shown example contains.
    pub(super) unstated: Vec<(&'a TestFunction, BTreeSet<String>)>,
}

/// Chooses examples for each test whose expected strings are unknown: first the examples that
/// contain unknown words, then examples that are spread evenly over the rest.
pub(super) fn choose_examples<'a>(
    tests: &'a [TestFunction],
    texts: &TaskTexts<'_>,
) -> ExampleChoice<'a> {
    let limits = texts.limits;
    let mut known: BTreeSet<String> = words(texts.statement.text()).collect();
    let mut out = ExampleChoice::default();
    for test in tests {
        let open: Vec<&Example> =
            test.requirements.examples.iter().filter(|it| texts.is_open(it)).collect();
        let usable: Vec<&Example> = open
            .iter()
            .copied()
            .filter(|it| it.code.as_ref().is_some_and(|code| texts.is_addable(code)))
            .collect();
        let mut chosen: Vec<&Example> = Vec::new();
        let budget = limits.examples.min(limits.all_examples.saturating_sub(out.shown.len()));
        while chosen.len() < budget {
            let count = |example: &&&Example| unknown_words(example, &known, texts).len();
            // `max_by_key` returns the last maximum. Prefer the first.
            let Some(next) = usable.iter().rev().max_by_key(count) else { break };
            if count(&next) == 0 {
                break;
            }
            known.extend(next.expected.iter().flat_map(|text| words(text)));
            chosen.push(next);
        }
        let fewest = limits.fewest_examples.min(budget);
        for at in 0..fewest {
            let index = at * usable.len().saturating_sub(1) / fewest.saturating_sub(1).max(1);
            if let Some(next) = usable.get(index)
                && chosen.len() < fewest
                && !chosen.contains(next)
            {
                chosen.push(next);
            }
        }
        for example in &chosen {
            known.extend(example.expected.iter().flat_map(|text| words(text)));
        }
        let mut unstated: BTreeSet<String> =
            open.iter().flat_map(|example| unknown_words(example, &known, texts)).collect();
        // An example of another number shows the format.
        unstated.retain(|word| !word.contains('0'));
        if !unstated.is_empty() {
            out.unstated.push((test, unstated));
        }
        out.shown.extend(chosen.into_iter().map(|example| (test, example)));
    }
    out
}

/// Returns the words in an example's expected strings that neither the task's texts nor the
/// example's own inputs contain.
fn unknown_words(
    example: &Example,
    known: &BTreeSet<String>,
    texts: &TaskTexts<'_>,
) -> BTreeSet<String> {
    let inputs: BTreeSet<String> = example.inputs.iter().flat_map(|text| words(text)).collect();
    let expected = example.expected.iter().filter(|text| !texts.is_stated(text, example));
    let is_unknown = |word: &String| {
        word != "0"
            && word.contains(char::is_alphanumeric)
            && !known.contains(word)
            && !inputs.contains(word)
            && !texts.has_word(word)
    };
    expected.flat_map(|text| words(text)).filter(is_unknown).collect()
}

/// Splits a text into words. In a word, each number is replaced by zeros that show its format, such
/// as `0`, `0,000` or `0.0`, because an example of one number explains the others.
fn words(text: &str) -> impl Iterator<Item = String> {
    let trimmed = text.split_whitespace().map(|word| word.trim_matches(PUNCTUATION));
    trimmed.filter(|word| !word.is_empty()).map(number_format)
}

/// A number with at least this many digits usually has separators, so their absence is a format.
const MANY_DIGITS: usize = 4;

fn number_format(word: &str) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        out.push_str(match digits {
            3 if out.ends_with(',') => "000",
            MANY_DIGITS.. if !out.ends_with('.') => "0000",
            _ => "0",
        });
        rest = &rest[digits..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::{
        settings::SolvabilitySettings,
        solvability::{
            file_requirements::FileRequirements,
            vocabulary::{CodeVocabulary, VisibleText},
        },
    };

    const TEST_FILE: &str = r#"
@pytest.mark.parametrize("value, expected", [
    (1, "1 day"),
    (2000, "2,000 days"),
    (3000, "3,000 days"),
    (math.nan, "NaN"),
    (math.inf, "+Inf"),
    (-math.inf, "-Inf"),
    ("other", "other"),
])
def test_show(value, expected):
    assert show(value) == expected

def test_known():
    assert show(1) == "1 day"
    assert kept(1) == "unrelated"

def test_many():
    assert spell() == ["alpha"]
    assert spell() == ["beta"]
    assert spell() == ["gamma"]
    assert spell() == ["delta"]
"#;

    #[test]
    fn number_format_keeps_separators_and_decimals() {
        for (word, format) in [
            ("31st", "0st"),
            ("1,234,567.89", "0,000,000.0"),
            ("1200", "0000"),
            ("P3Y0.330000S", "P0Y0.0S"),
            ("+Inf", "+Inf"),
        ] {
            assert_eq!(number_format(word), format, "{word}");
        }
    }

    #[test]
    fn choose_examples_covers_unknown_words_within_the_limits() {
        let read = FileRequirements::read(TEST_FILE, "tests.test_m", &BTreeSet::new());
        let tests = ["test_known", "test_many", "test_show"].map(|name| TestFunction {
            name: name.to_owned(),
            requirements: read.requirements_for_test(&format!("t.py::{name}")),
            called_functions: Default::default(),
        });
        let limits = SolvabilitySettings {
            shortest: 12,
            shortest_expected: 2,
            longest: 60,
            texts: 2,
            examples: 3,
            fewest_examples: 1,
            all_examples: 5,
        };
        let names = |names: &[&str]| -> BTreeSet<String> {
            names.iter().map(|&it| it.to_owned()).collect()
        };
        let library = names(&["show", "kept", "spell"]);
        let affected = names(&["show", "spell"]);
        let texts = TaskTexts {
            tree: &VisibleText::default(),
            statement: &VisibleText::new("Returns \"1 day\", or the input.".to_owned()),
            hidden: &CodeVocabulary::default(),
            library_functions: &library,
            affected_functions: &affected,
            limits: &limits,
        };
        let choice = choose_examples(&tests, &texts);
        let shown: Vec<String> = choice
            .shown
            .iter()
            .map(|(test, it)| format!("{}: {}", test.name, it.code.as_deref().unwrap()))
            .collect();
        // `other` is an input, `1 day` is stated, and `kept` is not affected by the removal. Three
        // examples of `test_many` leave two of the five for `test_show`.
        assert_eq!(
            shown,
            [
                r#"test_many: spell() == ["alpha"]"#,
                r#"test_many: spell() == ["beta"]"#,
                r#"test_many: spell() == ["gamma"]"#,
                r#"test_show: show(2000) == "2,000 days""#,
                r#"test_show: show(math.nan) == "NaN""#,
            ]
        );
        let unstated: Vec<String> = choice
            .unstated
            .iter()
            .map(|(test, words)| {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                format!("{}: {}", test.name, words.join(" "))
            })
            .collect();
        assert_eq!(unstated, ["test_many: delta", "test_show: +Inf -Inf"]);
    }
}
