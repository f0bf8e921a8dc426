//! Removes from a test command the words that select tests. A strict run adds its own selection,
//! and a test that is selected twice would run twice.

use proctor_types::ShippedTable;
use serde::Deserialize;

/// pytest's options, which are needed to tell the value of an option from the name of a test.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PytestOptions {
    with_value: Vec<String>,
    switches: Vec<String>,
}

const OPTIONS_TOML: &str = include_str!("../../../../configs/tables/pytest-options.toml");

static OPTIONS: ShippedTable<PytestOptions> =
    ShippedTable::new("tables/pytest-options.toml", OPTIONS_TOML);

/// Whether the next word is the value of an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextWord {
    Value,
    Free,
    Unknown,
}

/// Returns the words without test files, directories and ids. A command that does not start pytest
/// is returned unchanged.
///
/// `tests` are the files and ids of the row. This function uses them only to interpret the word
/// after an unknown option.
///
/// # Errors
/// The built-in list of options cannot be read. Without it, an option's value could be mistaken for
/// a test.
pub(crate) fn remove_tests<'a>(
    words: Vec<String>,
    tests: impl Iterator<Item = &'a String> + Clone,
) -> Result<Vec<String>, String> {
    let options = OPTIONS.get()?;
    let Some(start) = pytest_arguments_start(&words) else { return Ok(words) };
    let mut next = NextWord::Free;
    let mut only_tests = false;
    let mut kept = Vec::with_capacity(words.len());
    for (at, word) in words.into_iter().enumerate() {
        if at < start {
            kept.push(word);
            continue;
        }
        only_tests |= next != NextWord::Value && word == "--";
        let names_tests = only_tests
            || match next {
                NextWord::Value => false,
                NextWord::Free => !word.starts_with('-'),
                NextWord::Unknown => {
                    !word.starts_with('-') && looks_like_tests(&word, tests.clone())
                }
            };
        next = match next {
            NextWord::Value => NextWord::Free,
            _ if word.starts_with('-') => next_word_after(&word, options),
            _ => NextWord::Free,
        };
        if !names_tests {
            kept.push(word);
        }
    }
    Ok(kept)
}

/// Returns the index at which pytest's arguments start.
fn pytest_arguments_start(words: &[String]) -> Option<usize> {
    let name = words.first()?.rsplit('/').next()?;
    let is_pytest = |word: &str| matches!(word, "pytest" | "py.test");
    if is_pytest(name) {
        return Some(1);
    }
    let module = words.windows(2).position(|pair| pair[0] == "-m" && is_pytest(&pair[1]))?;
    (name.starts_with("python") || name.starts_with("pypy")).then_some(module + 2)
}

fn next_word_after(option: &str, options: &PytestOptions) -> NextWord {
    let known = |list: &[String], option: &str| list.iter().any(|known| known == option);
    if option.starts_with("--") {
        return if option.contains('=') || known(&options.switches, option) {
            NextWord::Free
        } else if known(&options.with_value, option) {
            NextWord::Value
        } else {
            NextWord::Unknown
        };
    }
    // In a group of short options, the first one that takes a value consumes the rest of the word,
    // if any.
    let takes = |letter: char| known(&options.with_value, &format!("-{letter}"));
    match option.char_indices().skip(1).find(|(_, letter)| takes(*letter)) {
        Some((at, letter)) if at + letter.len_utf8() == option.len() => NextWord::Value,
        _ => NextWord::Free,
    }
}

fn looks_like_tests<'a>(word: &str, mut tests: impl Iterator<Item = &'a String>) -> bool {
    let folder = word.trim_end_matches('/');
    let inside = |test: &'a String| {
        test.strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest.starts_with(':'))
    };
    word.contains("::") || word.ends_with(".py") || tests.any(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remaining_words(line: &str) -> String {
        let tests = ["tests/test_new.py".to_owned(), "tests/test_mul.py::test_stack".to_owned()];
        remove_tests(shlex::split(line).unwrap(), tests.iter()).unwrap().join(" ")
    }

    #[test]
    fn shipped_options_are_valid_and_disjoint() {
        let options = OPTIONS.get().unwrap();
        assert!(options.switches.iter().all(|option| !options.with_value.contains(option)));
        assert!(options.with_value.contains(&"-k".to_owned()));
    }

    #[test]
    fn without_tests_removes_tests_anywhere() {
        for line in [
            "pytest -rA tests/test_mul.py tests/test_new.py",
            "pytest -rA tests/test_new.py tests/test_mul.py",
            "pytest tests/test_new.py -rA",
            "pytest -rA tests/test_mul.py::test_stack tests/test_new.py",
            "pytest -rA tests",
            "pytest -rA . ",
            "pytest -rA -- tests/test_new.py -x",
        ] {
            assert_eq!(remaining_words(line), "pytest -rA", "{line}");
        }
        assert_eq!(
            remaining_words("python -X dev -m pytest a.py -q"),
            "python -X dev -m pytest -q"
        );
        assert_eq!(remaining_words("/env/bin/py.test 'a.py::t[x y]'"), "/env/bin/py.test");
        assert_eq!(remaining_words("pytest -xvs --no-header doc"), "pytest -xvs --no-header");
    }

    #[test]
    fn without_tests_keeps_option_values() {
        for options in [
            "-p no:cacheprovider",
            "-k a",
            "-vk tests",
            "-o a=b",
            "--tb short",
            "-n 4",
            "-n4",
            "-W ignore::DeprecationWarning",
            "-c tests/pytest.ini",
            "--ignore tests/test_new.py",
            "--deselect tests/test_mul.py::test_stack",
            "--cov tests",
            "--tb=short",
            "--of-a-plugin value",
            "--maxfail -1",
        ] {
            let line = format!("pytest {options} -rA");
            assert_eq!(
                remaining_words(&format!("pytest {options} tests/test_new.py tests -rA")),
                line
            );
        }
        // The option is unknown, so the form of the next word decides whether it is a test.
        assert_eq!(
            remaining_words("pytest --of-a-plugin tests/test_new.py"),
            "pytest --of-a-plugin"
        );
        assert_eq!(remaining_words("pytest --of-a-plugin tests/"), "pytest --of-a-plugin");
    }

    #[test]
    fn without_tests_leaves_other_commands_unchanged() {
        for line in ["./tests/runtests.py --parallel 1 a.b", "bin/test -C a.py", "make -m pytest x"]
        {
            assert_eq!(remaining_words(line), line);
        }
        assert!(remove_tests(Vec::new(), [].iter()).unwrap().is_empty());
    }
}
