//! Reads JUnit XML reports from pytest and all other runners.

use std::{borrow::Cow, collections::BTreeMap, sync::LazyLock};

use proctor_types::{ShippedTable, TestStatus};
use regex::Regex;
use roxmltree::{Document, Node};
use serde::Deserialize;

use crate::{
    parsers::text::pattern,
    reader::{LogReading, Report, agreement::RunCounts, node_id::split_node_id, worst_status},
};

/// The content of `configs/tables/junit.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusWords {
    ran: Vec<String>,
    skipped: Vec<String>,
    failed: Vec<String>,
    error: Vec<String>,
    xfailed: Vec<String>,
    xpassed: Vec<String>,
    flaky: Vec<String>,
}

static STATUS_WORDS: ShippedTable<StatusWords> =
    ShippedTable::new("tables/junit.toml", include_str!("../../../../configs/tables/junit.toml"));

impl StatusWords {
    fn status_for(&self, word: &str) -> Option<TestStatus> {
        let word = word.trim().to_lowercase();
        let lists = [
            (&self.ran, TestStatus::Passed),
            (&self.skipped, TestStatus::Skipped),
            (&self.failed, TestStatus::Failed),
            (&self.error, TestStatus::Error),
            (&self.xfailed, TestStatus::Xfailed),
            (&self.xpassed, TestStatus::Xpassed),
            (&self.flaky, TestStatus::Flaky),
        ];
        let list = lists.into_iter().find(|(words, _)| words.contains(&word));
        list.map(|(_, status)| status)
    }
}

/// Character references that XML 1.0 does not allow. Runners write them if a test printed such
/// characters.
static REFERENCE_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"&#(?:x([0-9A-Fa-f]+)|([0-9]+));"));

/// Whether the text is a report: its first element is `testsuite` or `testsuites`.
pub(super) fn matches_format(text: &str) -> bool {
    let start = text.trim_start();
    let mut rest = start;
    while let Some(close) = [("<?", "?>"), ("<!--", "-->"), ("<!", ">")]
        .into_iter()
        .find_map(|(open, close)| rest.starts_with(open).then_some(close))
    {
        rest = rest.split_once(close).map_or("", |(_, after)| after.trim_start());
    }
    // A report that was truncated inside its prolog is still a report.
    rest.starts_with("<testsuite") || (rest.is_empty() && start.starts_with("<?xml"))
}

/// Whether a report starts on some line of the text.
pub(super) fn contains_report(text: &str) -> bool {
    text.lines().any(|line| {
        let rest = line.trim_start().strip_prefix("<testsuite");
        rest.is_some_and(|rest| rest.starts_with(['s', ' ', '>']))
    })
}

/// Reads a report. Runners write it at the end of a run, so a report that can be parsed is
/// complete.
pub(super) fn read(text: &str, expected_ids: &[String]) -> LogReading {
    let mut reading = LogReading::default();
    let words = match STATUS_WORDS.get() {
        Ok(words) => words,
        Err(error) => {
            reading.doubts.push(error);
            return reading;
        }
    };
    let text = replace_invalid_characters(text.trim_start());
    let document = match Document::parse(&text) {
        Ok(document) => document,
        Err(error) => {
            reading.doubts.push(format!("the report cannot be read: {error}"));
            return reading;
        }
    };
    reading.is_complete = true;
    let cases: Vec<Node<'_, '_>> =
        document.descendants().filter(|node| node.has_tag_name("testcase")).collect();
    for id in expected_ids {
        let named: Vec<&Node<'_, '_>> = cases.iter().filter(|case| matches_id(case, id)).collect();
        let statuses: Vec<TestStatus> = named.iter().map(|case| case_status(case, words)).collect();
        let mut found = worst_status(&statuses);
        // pytest reports each attempt of a test that was rerun, but reports failed attempts without
        // a failure.
        if found == TestStatus::Passed
            && named.len() > 1
            && named.iter().any(|case| is_from_pytest(case))
        {
            found = TestStatus::Flaky;
        }
        reading.tests.insert(id.clone(), found);
    }
    for suite in document.descendants() {
        if suite.has_tag_name("testsuite") || suite.has_tag_name("testsuites") {
            reading.doubts.extend(count_suite(&suite, words).disagreements());
        }
    }
    reading.doubts.dedup();
    reading
}

/// Reads every test in the reports. The text may contain several reports, with other output around
/// them.
pub(super) fn read_report(text: &str) -> Report {
    let words = match STATUS_WORDS.get() {
        Ok(words) => words,
        Err(error) => return Report { doubts: vec![error], ..Report::default() },
    };
    let text = replace_invalid_characters(text);
    let mut report = Report::default();
    let Some(whole) = trim_to_suites(&text) else { return report };
    let whole = Document::parse(whole).map(|document| vec![document]);
    let documents = whole.or_else(|_| {
        let parts = text.split("<?xml").filter_map(trim_to_suites);
        parts.map(Document::parse).collect::<Result<Vec<_>, _>>()
    });
    let documents = match documents {
        Ok(documents) => documents,
        Err(error) => {
            report.doubts.push(format!("the report cannot be read: {error}"));
            return report;
        }
    };
    report.is_complete = true;
    // How often pytest lists each test: it reports each attempt of a rerun test.
    let mut tries: BTreeMap<String, usize> = BTreeMap::new();
    for node in documents.iter().flat_map(|document| document.descendants()) {
        if node.has_tag_name("testcase") {
            let id = case_id(&node);
            if is_from_pytest(&node) {
                *tries.entry(id.clone()).or_default() += 1;
            }
            report.add(id, case_status(&node, words));
        } else if node.has_tag_name("testsuite") || node.has_tag_name("testsuites") {
            report.add_disagreements(&count_suite(&node, words));
        }
    }
    for (id, _) in tries.into_iter().filter(|(_, count)| *count > 1) {
        if report.tests.get(&id) == Some(&TestStatus::Passed) {
            report.tests.insert(id, TestStatus::Flaky);
        }
    }
    report.doubts.dedup();
    report
}

/// Returns the text from the start of the first suite to the end of the last one.
fn trim_to_suites(text: &str) -> Option<&str> {
    let start = text.find("<testsuite")?;
    let text = &text[start..];
    let close = if text.starts_with("<testsuites") { "</testsuites>" } else { "</testsuite>" };
    let end = text.rfind(close).map(|at| at + close.len());
    Some(end.map_or(text.trim_end(), |end| &text[..end]))
}

/// Returns a test case's name. The class is added as a prefix unless it adds no information: node
/// uses the class `test` for every test.
fn case_id(case: &Node<'_, '_>) -> String {
    let name = case.attribute("name").unwrap_or_default();
    match case.attribute("classname").unwrap_or_default() {
        "" | "test" => name.to_owned(),
        class if class == name => name.to_owned(),
        class => format!("{class}::{name}"),
    }
}

/// Replaces characters that XML 1.0 does not allow.
fn replace_invalid_characters(text: &str) -> Cow<'_, str> {
    let is_allowed =
        |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{fffd}' | '\u{10000}'..);
    let text = if text.chars().all(is_allowed) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.replace(|c: char| !is_allowed(c), "\u{fffd}"))
    };
    let replace = |found: &regex::Captures<'_>| {
        let number = match (found.get(1), found.get(2)) {
            (Some(hex), _) => u32::from_str_radix(hex.as_str(), 16).ok(),
            (None, Some(decimal)) => decimal.as_str().parse().ok(),
            (None, None) => None,
        };
        let is_good = number.and_then(char::from_u32).is_some_and(is_allowed);
        if is_good { found[0].to_owned() } else { "\u{fffd}".to_owned() }
    };
    match REFERENCE_PATTERN.replace_all(&text, replace) {
        Cow::Borrowed(_) => text,
        Cow::Owned(changed) => Cow::Owned(changed),
    }
}

/// Returns a suite's counts, together with the failures and errors that it lists.
fn count_suite(suite: &Node<'_, '_>, words: &StatusWords) -> RunCounts {
    let count = |name: &str| -> Option<usize> { suite.attribute(name)?.trim().parse().ok() };
    let counted = match (count("failures"), count("errors")) {
        (None, None) => None,
        (failures, errors) => Some(failures.unwrap_or(0).saturating_add(errors.unwrap_or(0))),
    };
    let is_bad = |node: &Node<'_, '_>| {
        matches!(case_status(node, words), TestStatus::Failed | TestStatus::Error)
    };
    let cases = suite.descendants().filter(|node| node.has_tag_name("testcase"));
    let cases = cases.filter(is_bad).count();
    // A test may list several failures, and a suite may list failures of its own.
    let elements = suite
        .descendants()
        .filter(|node| node.has_tag_name("failure") || node.has_tag_name("error"));
    let elements = elements.count();
    // node counts a failed suite as one failure of the suite around it.
    let parts = suite.children().filter(|node| match node.tag_name().name() {
        "testcase" => is_bad(node),
        "testsuite" => {
            node.descendants().any(|inner| inner.has_tag_name("testcase") && is_bad(&inner))
        }
        _ => false,
    });
    let parts = parts.count();
    RunCounts {
        runner_failure_count: counted,
        min_shown_failures: cases.min(elements).min(parts),
        max_shown_failures: cases.max(elements).max(parts),
        ..RunCounts::default()
    }
}

fn case_status(case: &Node<'_, '_>, words: &StatusWords) -> TestStatus {
    let child = |name: &str| case.children().find(|node| node.has_tag_name(name));
    let mut statuses = Vec::new();
    if child("error").is_some() {
        statuses.push(TestStatus::Error);
    }
    if child("failure").is_some() {
        statuses.push(TestStatus::Failed);
    }
    if let Some(skipped) = child("skipped").or_else(|| child("disabled")) {
        let kind = skipped.attribute("type").unwrap_or_default().to_lowercase();
        let message = skipped.attribute("message").unwrap_or_default().to_lowercase();
        statuses.push(if kind.contains("xpass") || message.contains("passes unexpectedly") {
            TestStatus::Xpassed
        } else if kind.contains("xfail") {
            TestStatus::Xfailed
        } else {
            TestStatus::Skipped
        });
    }
    for attribute in ["status", "result"] {
        let word = case.attribute(attribute).and_then(|word| words.status_for(word));
        statuses.extend(word.filter(|word| *word != TestStatus::Passed));
    }
    // In Surefire, Gradle and nextest, this means that an earlier attempt failed and a later one
    // passed.
    if child("flakyFailure").or_else(|| child("flakyError")).is_some() {
        statuses.push(TestStatus::Flaky);
    }
    // Earlier attempts failed, and so did the last one.
    if statuses.is_empty() && child("rerunFailure").or_else(|| child("rerunError")).is_some() {
        statuses.push(TestStatus::Failed);
    }
    if statuses.is_empty() { TestStatus::Passed } else { worst_status(&statuses) }
}

/// Whether pytest wrote this case's suite.
fn is_from_pytest(case: &Node<'_, '_>) -> bool {
    case.ancestors().any(|node| {
        node.has_tag_name("testsuite") && node.attribute("name") == Some("pytest")
            || node.has_tag_name("testsuites") && node.attribute("name") == Some("pytest tests")
    })
}

/// Whether an id refers to a case. The id may be a pytest node id, or a class and a name in the
/// notation of another runner.
fn matches_id(case: &Node<'_, '_>, id: &str) -> bool {
    let name = case.attribute("name").unwrap_or_default();
    let class = case.attribute("classname").unwrap_or_default();
    let joined = ["::", ".", "#", " ", "/"];
    id == name && class.is_empty()
        || joined.iter().any(|joint| {
            id.strip_suffix(name).and_then(|head| head.strip_suffix(joint)) == Some(class)
        })
        || split_node_id(id) == (class.to_owned(), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PYTEST_REPORT: &str = r#"<?xml version="1.0"?><testsuites><testsuite name="pytest">
        <testcase classname="tests.test_a.Case" name="test_b[x::y]"/>
        <testcase classname="tests.test_a" name="test_c"><failure message="m">t</failure></testcase>
        <testcase classname="tests.test_a" name="test_d"><skipped type="pytest.xfail"/></testcase>
        <testcase classname="com.example.Thing" name="works"/>
        <testcase classname="t" name="twice"/><testcase classname="t" name="twice"><error/></testcase>
        <testcase classname="t" name="again"/><testcase classname="t" name="again"/>
        </testsuite></testsuites>"#;

    fn statuses(report: &str, ids: &[&str]) -> Vec<TestStatus> {
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        let reading = read(report, &ids);
        assert!(reading.is_complete && reading.doubts.is_empty(), "{:?}", reading.doubts);
        ids.iter().map(|id| reading.tests[id]).collect()
    }

    #[test]
    fn read_finds_cases_by_node_id_or_class_and_name() {
        let ids = [
            "tests/test_a.py::Case::test_b[x::y]",
            "tests/test_a.py::test_c",
            "tests/test_a.py::test_d",
            "com.example.Thing.works",
            "t::twice",
            "t::again",
            "t::never",
        ];
        assert_eq!(
            statuses(PYTEST_REPORT, &ids),
            [
                TestStatus::Passed,
                TestStatus::Failed,
                TestStatus::Xfailed,
                TestStatus::Passed,
                TestStatus::Error,
                TestStatus::Flaky,
                TestStatus::Missing
            ]
        );
    }

    #[test]
    fn read_report_accepts_reports_of_all_runners() {
        use TestStatus::{Failed, Passed, Skipped, Xpassed};
        for (text, expected) in [
            (
                include_str!("../../tests/reports/node.xml"),
                vec![
                    ("badly", Failed),
                    ("child", Passed),
                    ("later", Skipped),
                    ("some day", Skipped),
                    ("top level", Passed),
                    ("two # numbers", Passed),
                ],
            ),
            (
                include_str!("../../tests/reports/jest-junit.xml"),
                vec![
                    (" top level", Passed),
                    ("calc adds badly", Failed),
                    ("calc adds two numbers", Passed),
                    ("calc later", Skipped),
                ],
            ),
            (
                include_str!("../../tests/reports/vitest-junit.xml"),
                vec![
                    ("a.test.js::calc > adds > badly", Failed),
                    ("a.test.js::calc > adds > two numbers", Passed),
                    ("a.test.js::calc > later", Skipped),
                    ("a.test.js::top level", Passed),
                ],
            ),
            (
                // In this file, the report follows a test's output.
                include_str!("../../tests/reports/mocha.xml"),
                vec![
                    ("calc adds::badly", Failed),
                    ("calc adds::two numbers", Passed),
                    ("calc::later", Skipped),
                    ("top level", Passed),
                ],
            ),
        ] {
            let report = read_report(text);
            let found: Vec<(&str, TestStatus)> =
                report.tests.iter().map(|(id, status)| (id.as_str(), *status)).collect();
            assert_eq!(found, expected);
            assert!(report.is_complete && report.doubts.is_empty(), "{:?}", report.doubts);
        }
        let pytest = read_report(PYTEST_REPORT);
        assert_eq!(pytest.tests["t::again"], TestStatus::Flaky);
        assert_eq!(pytest.tests["t::twice"], TestStatus::Error);
        assert_eq!(
            pytest.expected_statuses(&["tests/test_a.py::test_c".to_owned()])["tests/test_a.py::test_c"],
            Failed
        );
        let odd = "<testsuite><testcase name='a' status='xpass'/></testsuite>";
        assert_eq!(read_report(odd).tests["a"], Xpassed);
    }

    #[test]
    fn read_report_combines_several_documents() {
        let suite = |class: &str| {
            format!(
                "<?xml version='1.0'?>\n<testsuite><testcase classname='{class}' name='t'/></testsuite>\n"
            )
        };
        let both = read_report(&format!("> mvn test\n{}noise\n{}done", suite("A"), suite("B")));
        assert_eq!(both.tests.keys().collect::<Vec<_>>(), ["A::t", "B::t"]);
        assert!(both.is_complete && both.doubts.is_empty(), "{:?}", both.doubts);
        // XML that a test prints does not split the report.
        let quoting = "<testsuite><testcase name='a'><system-out><![CDATA[<?xml <testsuite>]]></system-out></testcase></testsuite>";
        assert_eq!(read_report(quoting).tests.len(), 1);
        let torn = read_report("<testsuites><testsuite><testcase name='a'/>");
        assert!(!torn.is_complete && torn.tests.is_empty() && !torn.doubts.is_empty());
    }

    #[test]
    fn read_report_accepts_a_failed_suite_counted_as_one_failure() {
        let failure =
            "<testcase name='a'><failure/></testcase><testcase name='b'><failure/></testcase>";
        let nested = format!(
            "<testsuites><testsuite failures='1'><testsuite failures='2'>{failure}</testsuite></testsuite></testsuites>"
        );
        assert_eq!(read_report(&nested).doubts, Vec::<String>::new());
        let hidden = nested.replacen("failures='1'", "failures='3'", 1);
        assert_eq!(read_report(&hidden).doubts, ["failures counted by the runner: 3, shown: 2"]);
    }

    #[test]
    fn read_counts_only_executed_tests_as_passed() {
        let report = r#"<testsuites>
            <testcase classname="t" name="a" status="notrun" result="suppressed"/>
            <testcase classname="t" name="b" status="disabled"/>
            <testcase classname="t" name="c" status="run" result="completed"/>
            <testcase classname="t" name="d" status="run" result="skipped"/>
            <testcase classname="t" name="e" status="Failed"/>
            <testcase classname="t" name="f" status="0"/>
            <testcase classname="t" name="g"><skipped message="xfail-marked test passes unexpectedly"/></testcase>
            <testcase classname="t" name="h" status="xpass"/>
            <testcase classname="t" name="i"><flakyFailure/></testcase>
            <testcase classname="t" name="j"><failure/><rerunFailure/></testcase>
            <testcase classname="t" name="k" status="passed"><failure/></testcase>
            </testsuites>"#;
        let ids =
            ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"].map(|id| format!("t::{id}"));
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        use TestStatus::{Failed, Flaky, Passed, Skipped, Xpassed};
        assert_eq!(
            statuses(report, &ids),
            [
                Skipped, Skipped, Passed, Skipped, Failed, Passed, Xpassed, Xpassed, Flaky, Failed,
                Failed
            ]
        );
    }

    #[test]
    fn read_report_flags_a_suite_with_wrong_failure_counts() {
        let doubts = |attributes: &str, cases: &str| {
            let report =
                format!("<testsuites><testsuite {attributes}>{cases}</testsuite></testsuites>");
            read(&report, &[]).doubts
        };
        let failure = "<testcase name='a'><failure/></testcase>";
        let both = "<testcase name='a'><failure/><error/></testcase>";
        for (attributes, cases) in [
            ("", failure),
            ("failures='1'", failure),
            ("failures='1' errors='0' tests='7'", failure),
            ("failures='1' errors='1'", both),
            ("failures='1'", both),
            ("failures='0' errors='0'", "<testcase name='a'/>"),
            ("failures='many'", failure),
        ] {
            assert_eq!(doubts(attributes, cases), Vec::<String>::new(), "{attributes} {cases}");
        }
        for (attributes, cases) in [
            ("failures='1'", "<testcase name='a'/>"),
            ("errors='2'", failure),
            ("failures='0'", failure),
        ] {
            assert_eq!(doubts(attributes, cases).len(), 1, "{attributes} {cases}");
        }
    }

    #[test]
    fn read_accepts_any_prolog_and_invalid_characters() {
        let suite = "<testsuite><testcase classname='t' name='a'/><testcase classname='t' name='b'>\
                     <failure message='x&#0;&#x1b;[31m&#xD800;&#65;\u{8}\u{b}'>\u{1}</failure></testcase></testsuite>";
        for head in [
            "",
            "<?xml version='1.0' encoding='utf-8'?>\n",
            "<!-- made by a runner -->\n",
            "<?xml version='1.0'?><!-- a --><?style x?><!-- > -->",
        ] {
            let report = format!("{head}{suite}");
            assert!(matches_format(&report), "{head}");
            assert_eq!(
                statuses(&report, &["t::a", "t::b"]),
                [TestStatus::Passed, TestStatus::Failed],
                "{head}"
            );
        }
        assert!(
            !matches_format("<html></html>")
                && !matches_format("== test session starts ==")
                && !matches_format("")
        );
    }

    #[test]
    fn read_rejects_truncated_reports_and_entities() {
        assert!(!read("<testsuite><testcase name='a'/>", &[]).is_complete);
        let bomb = "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'>]><testsuite>&a;</testsuite>";
        assert!(!read(bomb, &[]).doubts.is_empty());
    }
}
