//! Describes expected ids that match no test in a report, for the grading log.

use std::{collections::BTreeMap, fmt::Write as _};

use proctor_official::reader::Report;
use proctor_types::{TestStatus, count_with_noun, similar_names};

/// Maximum number of ids to list.
const MAX_LISTED_IDS: usize = 10;

/// Returns lines about the expected ids that match no reported test, each with the nearest reported
/// id, and about the ids that the report has. Returns nothing if every expected id matches.
pub(super) fn describe_missing_ids(
    report: &Report,
    expected_tests: &BTreeMap<String, TestStatus>,
) -> String {
    let missing: Vec<&String> =
        expected_tests.keys().filter(|id| report.resolve_id(id).is_none()).collect();
    if missing.is_empty() || report.tests.is_empty() {
        return String::new();
    }
    let count = count_with_noun(missing.len(), "expected id");
    let mut text = format!("{count} not in the report:\n");
    for id in missing.iter().take(MAX_LISTED_IDS) {
        let nearest = nearest_id(id, report);
        let nearest = nearest.map_or("no similar id".to_owned(), |id| format!("nearest id: {id}"));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {id} ({nearest})");
    }
    add_remaining_count(&mut text, missing.len());
    text.push_str("ids in the report:\n");
    for id in report.tests.keys().take(MAX_LISTED_IDS) {
        let _ = writeln!(text, "  {id}");
    }
    add_remaining_count(&mut text, report.tests.len());
    text
}

fn add_remaining_count(text: &mut String, total: usize) {
    if let Some(more) = total.checked_sub(MAX_LISTED_IDS).filter(|more| *more > 0) {
        let _ = writeln!(text, "  and {more} more");
    }
}

/// Returns the reported id that most likely means the expected one. An id with the same test name
/// is nearer than an id in a suite with a similar name.
fn nearest_id<'a>(id: &str, report: &'a Report) -> Option<&'a str> {
    let reported = || report.tests.keys().map(String::as_str);
    let same_name = || reported().filter(|other| test_name(other) == test_name(id));
    similar_names(id, same_name())
        .first()
        .copied()
        .or_else(|| same_name().next())
        .or_else(|| similar_names(id, reported()).first().copied())
        .or_else(|| {
            let names = similar_names(test_name(id), reported().map(test_name));
            reported().find(|other| names.first() == Some(&test_name(other)))
        })
}

/// Returns the last part of an id.
fn test_name(id: &str) -> &str {
    let name = id.rsplit_once("::").map_or(id, |(_, name)| name);
    name.rsplit_once(" > ").map_or(name, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(ids: &[&str]) -> Report {
        let tests = ids.iter().map(|id| ((*id).to_owned(), TestStatus::Passed)).collect();
        Report { tests, is_complete: true, ..Report::default() }
    }

    fn describe(ids: &[&str], expected: &[&str]) -> String {
        let report = report(ids);
        let expected: Vec<String> = expected.iter().map(|id| (*id).to_owned()).collect();
        describe_missing_ids(&report, &report.expected_statuses(&expected))
    }

    #[test]
    fn missing_ids_are_listed_with_the_nearest_reported_id() {
        let ids = ["com.example.CalcTest::adds", "com.example.CalcTest::zero", "suite > subtracts"];
        let text = describe(&ids, &["CalcTests::adds", "substracts", "adds", "xyz"]);
        assert_eq!(
            text,
            "3 expected ids not in the report:\n  \
             CalcTests::adds (nearest id: com.example.CalcTest::adds)\n  \
             substracts (nearest id: suite > subtracts)\n  \
             xyz (no similar id)\n\
             ids in the report:\n  \
             com.example.CalcTest::adds\n  com.example.CalcTest::zero\n  suite > subtracts\n"
        );
        let typo = describe(&["calc::adds", "calc::zero"], &["calc::ads"]);
        assert!(typo.contains("calc::ads (nearest id: calc::adds)"), "{typo}");
    }

    #[test]
    fn lists_are_limited_and_complete_reports_need_no_lines() {
        assert_eq!(describe(&["a::b"], &["b"]), "");
        assert_eq!(describe(&[], &["b"]), "", "the log already says that there are no tests");
        let many: Vec<String> = (0..25).map(|number| format!("test {number:02}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let text = describe(&many, &["other"]);
        assert_eq!(text.matches("\n  test ").count(), MAX_LISTED_IDS, "{text}");
        assert!(text.ends_with("  test 09\n  and 15 more\n"), "{text}");
    }
}
