//! Transfers a report from the test program to the host.

use proctor_types::TestResults;

/// The path of the results pipe, for programs that accept an output path. The program's child
/// processes do not inherit the pipe.
const PIPE_PATH: &str = "/dev/fd/3";
const REPORTER_OPTION: &str = "--test-reporter";
const DESTINATION_OPTION: &str = "--test-reporter-destination";

/// A run's command, and whether the report comes through the results pipe.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReportCommand {
    pub command: Vec<String>,
    /// Whether the report comes through the results pipe.
    pub is_from_pipe: bool,
}

/// Redirects the report to the results pipe if `test_command` starts one of `programs` and an
/// option sets the report's path. Other commands are unchanged. This includes commands that start
/// the program through a wrapper, because a wrapper would not pass the pipe to the program.
pub(super) fn redirect_report(
    test_command: &[String],
    results: &TestResults,
    programs: &[String],
) -> ReportCommand {
    let program = test_command.first().and_then(|first| first.rsplit('/').next());
    let is_direct = program.is_some_and(|name| programs.iter().any(|known| known == name));
    let redirected = match &results.path {
        _ if !is_direct => None,
        Some(path) => redirect_report_path(test_command, path),
        None => redirect_node_report(test_command),
    };
    match redirected {
        Some(command) => ReportCommand { command, is_from_pipe: true },
        None => ReportCommand { command: test_command.to_vec(), is_from_pipe: false },
    }
}

/// Handles `--outputFile=report.json`, `--outputFile report.json` and
/// `--reporter-option output=report.json`.
fn redirect_report_path(test_command: &[String], path: &str) -> Option<Vec<String>> {
    let names = |(at, argument): (usize, &String)| {
        let is_value = at > 1 && test_command[at - 1].starts_with('-') && argument == path;
        let is_assigned = argument.strip_suffix(path).is_some_and(|option| option.ends_with('='));
        (is_value || is_assigned).then_some(at)
    };
    let mut found = test_command.iter().enumerate().filter_map(names);
    // If two options have this value, it is unclear which of them sets the report's path.
    let (at, None) = (found.next()?, found.next()) else { return None };
    let mut command = test_command.to_vec();
    let option = command[at].strip_suffix(path)?;
    command[at] = format!("{option}{PIPE_PATH}");
    Some(command)
}

/// Handles `node --test --test-reporter=tap`, which writes to standard output.
fn redirect_node_report(test_command: &[String]) -> Option<Vec<String>> {
    let count = |option: &str| test_command.iter().filter(|one| is_option(one, option)).count();
    if count(REPORTER_OPTION) != 1 || count(DESTINATION_OPTION) != 0 {
        return None;
    }
    let at = test_command.iter().position(|argument| is_option(argument, REPORTER_OPTION))?;
    let mut command = test_command.to_vec();
    command.insert(at, format!("{DESTINATION_OPTION}={PIPE_PATH}"));
    Some(command)
}

fn is_option(argument: &str, option: &str) -> bool {
    argument.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirected_command(command: &str, path: Option<&str>) -> Option<String> {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let results =
            TestResults { format: proctor_types::TestFormat::Tap, path: path.map(str::to_owned) };
        let programs = ["node", "jest", "mocha"].map(str::to_owned);
        let ReportCommand { command, is_from_pipe: by_pipe } =
            redirect_report(&words, &results, &programs);
        assert_eq!(by_pipe, command != words);
        by_pipe.then(|| command.join(" "))
    }

    #[test]
    fn redirect_report_replaces_a_path_set_by_an_option() {
        for (command, path, expected) in [
            (
                "/usr/bin/node --test --test-reporter=tap test/",
                None,
                Some(
                    "/usr/bin/node --test --test-reporter-destination=/dev/fd/3 --test-reporter=tap test/",
                ),
            ),
            (
                "node --test --test-reporter=junit --test-reporter-destination=report.xml",
                Some("report.xml"),
                Some("node --test --test-reporter=junit --test-reporter-destination=/dev/fd/3"),
            ),
            (
                "node_modules/.bin/jest --json --outputFile out.json",
                Some("out.json"),
                Some("node_modules/.bin/jest --json --outputFile /dev/fd/3"),
            ),
            (
                "mocha --reporter json --reporter-option output=out.json",
                Some("out.json"),
                Some("mocha --reporter json --reporter-option output=/dev/fd/3"),
            ),
            // The reporter has a destination, there is no reporter, or there are two.
            ("node --test --test-reporter=tap --test-reporter-destination=stdout", None, None),
            ("node --test test/", None, None),
            ("node --test --test-reporter=tap --test-reporter=spec", None, None),
            // Wrappers such as `npx` don't pass the pipe's file descriptor to the test program. A
            // path that isn't an option's value might not be the report's path, so leave it
            // unchanged.
            ("npx jest --json --outputFile=out.json", Some("out.json"), None),
            ("node report.js out.json", Some("out.json"), None),
            ("jest --json --outputFile=out.json --copy=out.json", Some("out.json"), None),
            ("jest --json", None, None),
        ] {
            assert_eq!(redirected_command(command, path).as_deref(), expected, "{command}");
        }
    }
}
