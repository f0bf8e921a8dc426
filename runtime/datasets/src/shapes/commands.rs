//! Determines how a row's tests run: the shell line that is recorded, and the command that a strict
//! run starts.

use proctor_types::Commands;
use serde_json::Value;

use super::shape::{Directives, RepoTestSettings, TestRules};

/// Suffixes of data files. The harness never passes such files to the test runner.
const DATA_SUFFIXES: [&str; 11] =
    [".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml"];

/// Returns the arguments that follow the test command on its line.
pub(crate) fn test_directives(test_files: &[String], rule: Directives) -> Vec<String> {
    let tests =
        test_files.iter().filter(|path| !DATA_SUFFIXES.iter().any(|end| path.ends_with(end)));
    match rule {
        Directives::Files | Directives::Expected => tests.cloned().collect(),
        Directives::Whole => Vec::new(),
        Directives::Modules => tests
            .map(|path| {
                let path = path.strip_suffix(".py").unwrap_or(path);
                path.strip_prefix("tests/").unwrap_or(path).replace('/', ".")
            })
            .collect(),
    }
}

/// Returns the row's test command, or the one for the row's repository and version.
pub(crate) fn select_command(
    row: Option<&Value>,
    tests: &TestRules,
    repo_settings: Option<&RepoTestSettings>,
) -> Commands {
    let of_repo = repo_settings.and_then(|by| by.command.as_deref());
    let fixed = of_repo.filter(|_| repo_settings.is_some_and(|by| by.over_row));
    if let Some(fixed) = fixed {
        return Commands::One(fixed.to_owned());
    }
    match row {
        Some(Value::String(text)) if !text.trim().is_empty() => Commands::One(text.clone()),
        Some(Value::Array(lines)) if !lines.is_empty() => {
            Commands::Several(lines.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => Commands::One(of_repo.unwrap_or(&tests.command).to_owned()),
    }
}

/// Returns the words of the command that starts the tests. Leading variables are removed, and bare
/// `pytest` and `python` get the path of the image's programs. If there are several lines, one that
/// starts pytest is preferred.
pub(crate) fn command_words(command: &Commands, bin_dir: &str) -> Vec<String> {
    let lines: Vec<&str> = match command {
        Commands::One(text) => text.lines().collect(),
        Commands::Several(lines) => lines.iter().map(String::as_str).collect(),
    };
    let chosen = lines
        .iter()
        .rev()
        .find(|line| line.contains("pytest"))
        .or_else(|| lines.iter().rev().find(|line| !line.trim().is_empty()));
    let Some(chosen) = chosen else { return Vec::new() };
    let chosen = chosen.rsplit(['&', ';']).find(|part| !part.trim().is_empty()).unwrap_or(chosen);
    let Some(words) = shlex::split(chosen) else { return Vec::new() };
    let mut words: Vec<String> = words.into_iter().skip_while(|word| is_assignment(word)).collect();
    if let Some(first) = words.first_mut()
        && matches!(first.as_str(), "pytest" | "py.test" | "python" | "python3")
        && !bin_dir.is_empty()
    {
        *first = format!("{}/{first}", bin_dir.trim_end_matches('/'));
    }
    words
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

const START_MARKER: &str = ">>>>> Start Test Output";
const END_MARKER: &str = ">>>>> End Test Output";

/// Commands that may appear next to a script's test command: they print, set or store something.
const AUXILIARY_COMMANDS: [&str; 9] =
    ["echo", "printf", "set", "export", "cd", "source", "exit", "true", ":"];

/// Returns the test command in an evaluation script: the line between the markers, without the
/// directives at its end. Lines that store the command's exit status may follow.
pub(crate) fn command_in_script<'a>(script: &'a str, directives: &[String]) -> Option<&'a str> {
    let mut lines = script.lines().skip_while(|line| !line.contains(START_MARKER));
    lines.next()?;
    let between: Vec<&str> = lines
        .take_while(|line| !line.contains(END_MARKER))
        .map(str::trim)
        .filter(|line| !is_auxiliary_command(line))
        .collect();
    let pytest = between.iter().rfind(|line| line.contains("pytest"));
    let mut line = *pytest.or(between.last())?;
    for directive in directives.iter().rev() {
        line = line.strip_suffix(directive.as_str()).unwrap_or(line).trim_end();
    }
    Some(line)
}

fn is_auxiliary_command(line: &str) -> bool {
    line.starts_with('#')
        || line.split_whitespace().next().is_none_or(|first| AUXILIARY_COMMANDS.contains(&first))
        || shlex::split(line).is_some_and(|words| words.iter().all(|word| is_assignment(word)))
}

/// Returns the error for a script without a test command.
pub(crate) fn no_command_error(script: &str) -> String {
    if script.contains(START_MARKER) {
        format!("has no test command between `{START_MARKER}` and `{END_MARKER}`")
    } else {
        format!("has no line `{START_MARKER}`, which must precede the test command")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn command_words_drops_variables_and_uses_the_image_programs() {
        let of = |row: Value| {
            let command: Commands = serde_json::from_value(row).unwrap();
            command_words(&command, "/env/bin").join(" ")
        };
        assert_eq!(of(json!("pytest -rA -k 'a or b'")), "/env/bin/pytest -rA -k a or b");
        assert_eq!(of(json!("PYTHONWARNINGS='x y' bin/test -C")), "bin/test -C");
        assert_eq!(of(json!(["pip list", "source x && pytest -q"])), "/env/bin/pytest -q");
        assert_eq!(
            of(json!("source a; conda activate b; pytest --verbose")),
            "/env/bin/pytest --verbose"
        );
        assert_eq!(of(json!([])), "");
    }

    #[test]
    fn command_in_script_is_between_the_markers() {
        let script = "#!/bin/bash\ncd /testbed\n: '>>>>> Start Test Output'\npytest -rA tests/a.py tests/b.py\n: '>>>>> End Test Output'\n";
        let directives = ["tests/a.py".to_owned(), "tests/b.py".to_owned()];
        assert_eq!(command_in_script(script, &directives), Some("pytest -rA"));
        assert_eq!(command_in_script("echo", &directives), None);
        assert!(no_command_error("echo").contains("has no line `"));
    }

    #[test]
    fn command_in_script_ignores_lines_that_save_the_exit_status() {
        for (lines, command) in [
            ("pytest -rA tests/a.py\nrc=$?", "pytest -rA"),
            (
                "pytest -rA tests/a.py\nTEST_EXIT_CODE=$?\necho $TEST_EXIT_CODE\nset -e",
                "pytest -rA",
            ),
            ("set +e\nA=1 ./tests/runtests.py x\nexport rc=$?\n", "A=1 ./tests/runtests.py x"),
            ("pip install pytest\npytest -q\nmv report.xml /tmp", "pytest -q"),
        ] {
            let script = format!(": '{START_MARKER}'\n{lines}\n: '{END_MARKER}'\nexit 0\n");
            assert_eq!(
                command_in_script(&script, &["tests/a.py".to_owned()]),
                Some(command),
                "{lines}"
            );
        }
        let empty = format!(": '{START_MARKER}'\nrc=$?\n: '{END_MARKER}'\npytest\n");
        assert_eq!(command_in_script(&empty, &[]), None);
        assert!(no_command_error(&empty).contains("no test command between"));
    }

    #[test]
    fn directives_skip_data_files_and_use_modules_for_django() {
        let files = ["tests/a/test_x.py", "tests/data.json"].map(str::to_owned);
        assert_eq!(test_directives(&files, Directives::Files), ["tests/a/test_x.py"]);
        assert_eq!(test_directives(&files, Directives::Modules), ["a.test_x"]);
    }
}
