//! Finds the lines in a grading log that are about one test.

use std::collections::HashMap;

use memchr::memmem::Finder;

/// Maximum number of lines shown per test.
const MAX_LINES: usize = 40;
/// Maximum length of a title in bytes. Each suffix of a title is listed, so the time for a title
/// grows with the square of its length.
const MAX_TITLE_BYTES: usize = 1000;

/// A grading log, with the positions of the sections that pytest printed for failed tests. If a
/// module cannot be imported, thousands of tests fail, so the log must not be searched for each.
pub struct TestLog<'a> {
    lines: Vec<&'a str>,
    /// The line of the first section with each title. A title `Class.test` is also listed as
    /// `test`.
    headings: HashMap<&'a str, usize>,
}

impl<'a> TestLog<'a> {
    pub fn parse(log: &'a str) -> Self {
        let lines: Vec<&str> = log.lines().collect();
        let mut headings = HashMap::new();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_heading(line)) {
            let title = line.trim_matches(|sign| sign == '_' || sign == ' ');
            if title.len() > MAX_TITLE_BYTES {
                continue;
            }
            headings.entry(title).or_insert(at);
            for (dot, _) in title.match_indices('.') {
                headings.entry(&title[dot + 1..]).or_insert(at);
            }
        }
        Self { lines, headings }
    }

    /// Returns the section that pytest printed for a failed test. Without such a section, returns
    /// the lines that mention the test. Returns an empty string if the log does not mention the
    /// test.
    pub fn test_section(&self, test: &str) -> String {
        let name = test.rsplit("::").next().unwrap_or(test);
        let bare = name.split('[').next().unwrap_or(name);
        // If a file cannot be collected, all of its tests share one section.
        let file = test.split("::").next().unwrap_or(test);
        let uncollected = format!("ERROR collecting {file}");
        let titles = [name, bare, &uncollected];
        if let Some(at) = titles.iter().find_map(|title| self.headings.get(*title)) {
            let rest = &self.lines[at + 1..];
            let end = rest.iter().position(|line| is_heading(line) || is_rule(line));
            return keep_last_lines(&rest[..end.unwrap_or(rest.len())]);
        }
        let finder = Finder::new(test);
        let is_about = |line: &&str| finder.find(line.as_bytes()).is_some();
        let matching_lines: Vec<&str> = self.lines.iter().copied().filter(is_about).collect();
        keep_last_lines(&matching_lines)
    }
}

fn is_heading(line: &str) -> bool {
    line.starts_with("___") && line.ends_with("___")
}

fn is_rule(line: &str) -> bool {
    line.starts_with("===") && line.ends_with("===")
}

/// Removes the start of a long section, because the reason for the failure is at its end.
fn keep_last_lines(lines: &[&str]) -> String {
    let omitted_count = lines.len().saturating_sub(MAX_LINES);
    let kept_lines = lines[omitted_count..].join("\n");
    match omitted_count {
        0 => kept_lines,
        gone => format!("[{gone} lines omitted]\n{kept_lines}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_section(log: &str, test: &str) -> String {
        TestLog::parse(log).test_section(test)
    }

    #[test]
    fn long_titles_are_not_listed() {
        for (length, is_listed) in [(MAX_TITLE_BYTES, true), (MAX_TITLE_BYTES + 1, false)] {
            let title = format!("{}.test_a", "x".repeat(length - ".test_a".len()));
            let log = format!("____ {title} ____\nE  boom\n");
            assert_eq!(TestLog::parse(&log).headings.contains_key("test_a"), is_listed, "{length}");
        }
    }

    #[test]
    fn test_section_is_found_by_heading_or_id() {
        let log = "____ test_a[1] ____\n\nE  assert 1 == 2\n\na.py:3: AssertionError\n____ T.test_b ____\nE  boom\n\
                   ===== short test summary info =====\nFAILED a.py::test_a[1] - assert 1 == 2\n";
        assert_eq!(
            test_section(log, "a.py::test_a[1]"),
            "\nE  assert 1 == 2\n\na.py:3: AssertionError"
        );
        assert_eq!(test_section(log, "a.py::T::test_b"), "E  boom");
        let twice = "____ T.test_b ____\nfirst\n____ test_b ____\nsecond";
        assert_eq!(test_section(twice, "a.py::test_b"), "first", "the first section counts");
        assert_eq!(
            test_section("ERROR a.py::test_c - no module", "a.py::test_c"),
            "ERROR a.py::test_c - no module"
        );
        let log_of_none = "=== ERRORS ===\n____ ERROR collecting t/a.py ____\nE   ImportError: cannot import name 'f'\n\
                           === short test summary info ===\nERROR t/a.py\n";
        assert_eq!(
            test_section(log_of_none, "t/a.py::test_a[1]"),
            "E   ImportError: cannot import name 'f'"
        );
        assert_eq!(test_section(log_of_none, "t/b.py::test_a"), "");
        assert_eq!(test_section(log, "a.py::test_z"), "");
        let long = format!("____ test_a ____\n{}E  last", "line\n".repeat(100));
        assert!(test_section(&long, "test_a").starts_with("[61 lines omitted]\n"));
        assert!(test_section(&long, "test_a").ends_with("E  last"));
    }
}
