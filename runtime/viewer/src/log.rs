//! Finds the lines in a grading log that are about one test.

/// Maximum number of lines shown per test.
const MAX_LINES: usize = 40;

/// Returns the section that pytest printed for a failed test. Without such a section, returns the
/// lines that mention the test. Returns an empty text if the log does not mention the test.
pub fn test_section(log: &str, test: &str) -> String {
    let name = test.rsplit("::").next().unwrap_or(test);
    let bare = name.split('[').next().unwrap_or(name);
    let lines: Vec<&str> = log.lines().collect();
    let is_head = |line: &str| line.starts_with("___") && line.ends_with("___");
    let is_rule = |line: &str| line.starts_with("===") && line.ends_with("===");
    let heads = |wanted: &str| {
        lines.iter().position(|line| {
            let title = line.trim_matches(|sign| sign == '_' || sign == ' ');
            is_head(line) && (title == wanted || title.ends_with(&format!(".{wanted}")))
        })
    };
    // If a file cannot be collected, all of its tests share one section.
    let file = test.split("::").next().unwrap_or(test);
    let uncollected = || heads(&format!("ERROR collecting {file}"));
    if let Some(at) = heads(name).or_else(|| heads(bare)).or_else(uncollected) {
        let rest = &lines[at + 1..];
        let end = rest.iter().position(|line| is_head(line) || is_rule(line));
        let section = &rest[..end.unwrap_or(rest.len())];
        return keep_last_lines(section);
    }
    let matching_lines: Vec<&str> = lines.into_iter().filter(|line| line.contains(test)).collect();
    keep_last_lines(&matching_lines)
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
    use super::test_section;

    #[test]
    fn test_section_is_found_by_heading_or_id() {
        let log = "____ test_a[1] ____\n\nE  assert 1 == 2\n\na.py:3: AssertionError\n____ T.test_b ____\nE  boom\n\
                   ===== short test summary info =====\nFAILED a.py::test_a[1] - assert 1 == 2\n";
        assert_eq!(
            test_section(log, "a.py::test_a[1]"),
            "\nE  assert 1 == 2\n\na.py:3: AssertionError"
        );
        assert_eq!(test_section(log, "a.py::T::test_b"), "E  boom");
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
