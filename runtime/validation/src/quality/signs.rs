//! Finds lines in tests that seem to depend on the network or the current date.

use std::collections::BTreeMap;

use proctor_types::{DependencySign, DependencySigns, SignSource, Task, file_from_test_id};

use crate::quality::settings::{SignLimits, SignRules};

/// The contents of test files, by path.
pub(crate) type TestTexts = BTreeMap<String, String>;

/// Searches the task's tests for signs of a dependency on the network or the current date.
pub(crate) fn find_signs(
    task: &Task,
    texts: &TestTexts,
    rules: &SignRules,
    limits: SignLimits,
) -> DependencySigns {
    if texts.is_empty() {
        return DependencySigns { by: SignSource::Nothing, found: Vec::new(), more: 0 };
    }
    let mut found = Vec::new();
    for (path, text) in texts {
        if rules.exclusions.iter().any(|pattern| pattern.is_match(text)) {
            continue;
        }
        let mut function: Option<&str> = None;
        for (at, line) in text.lines().enumerate() {
            let bare = line.trim_start();
            if let Some(name) = defined_name(bare) {
                function = Some(name);
            } else if line.len() == bare.len() && !bare.is_empty() {
                // An unindented line ends the function.
                function = None;
            }
            // Skip comments.
            if bare.starts_with('#') || !rules.signs.iter().any(|sign| sign.is_match(line)) {
                continue;
            }
            let Some(test) = find_test_of_function(task, path, function) else { continue };
            let text = bare.chars().take(limits.shown).collect();
            found.push(DependencySign { test, line: at + 1, text });
        }
    }
    let more = found.len().saturating_sub(limits.signs);
    found.truncate(limits.signs);
    DependencySigns { by: SignSource::Text, found, more }
}

/// Returns the name of the function that a line defines.
fn defined_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ")?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Returns the task's test for a function, or the file if the function is not a test but a helper
/// or fixture. Returns `None` for a test that the task does not use.
fn find_test_of_function(task: &Task, path: &str, function: Option<&str>) -> Option<String> {
    let Some(name) = function.filter(|name| name.starts_with("test")) else {
        return Some(path.to_owned());
    };
    let mut ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
    let is_it = |id: &&String| {
        // If a benchmark lists files instead of tests, an id that is the file's path covers every
        // test in it.
        *id == path || (file_from_test_id(id) == path && function_from_test_id(id) == name)
    };
    ids.find(is_it).map(|id| if id == path { format!("{path}::{name}") } else { id.clone() })
}

/// Returns the function name in a test id, without parameters.
fn function_from_test_id(id: &str) -> &str {
    let id = id.split('[').next().unwrap_or(id);
    id.rsplit("::").next().unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::{judge::tests::task, settings::Settings};

    const TESTS: &str = "import datetime\n\n\ndef day():\n    return datetime.date.today()\n\n\n\
        def test_asked():\n    # datetime.now()\n    assert datetime.datetime.now().year\n\n\n\
        def test_other():\n    assert datetime.datetime.now()\n\n\nclass TestIt:\n    def test_in(self):\n        urlopen('x')\n";

    #[test]
    fn find_signs_names_the_test_and_skips_files_that_freeze_time() {
        let settings = Settings::get().unwrap();
        let (date, network) = (settings.date_rules().unwrap(), settings.network_rules().unwrap());
        let mut task = task("a", "x", "");
        task.fail_to_pass = vec!["t.py::test_asked[1]".into(), "t.py::TestIt::test_in".into()];
        let look = |text: &str, rules: &SignRules| {
            let texts = TestTexts::from([("t.py".to_owned(), text.to_owned())]);
            find_signs(&task, &texts, rules, settings.limits)
        };
        let places = |signs: DependencySigns| -> Vec<(String, usize)> {
            signs.found.into_iter().map(|sign| (sign.test, sign.line)).collect()
        };
        let found = places(look(TESTS, &date));
        assert_eq!(found, [("t.py".to_owned(), 5), ("t.py::test_asked[1]".to_owned(), 10)]);
        let found = places(look(TESTS, &network));
        assert_eq!(found, [("t.py::TestIt::test_in".to_owned(), 19)]);
        let frozen = format!("from freezegun import freeze_time\n{TESTS}");
        assert_eq!(places(look(&frozen, &date)), []);
        assert_eq!(
            find_signs(&task, &TestTexts::new(), &date, settings.limits).by,
            SignSource::Nothing
        );
    }
}
