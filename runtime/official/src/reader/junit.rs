//! JUnit XML reports: pytest's, and those of every other runner.

use proctor_types::TestStatus;
use roxmltree::{Document, Node};

use crate::reader::{LogReading, worst};

/// A report is written at the end of a run, so one that can be read has its end.
pub(super) fn read(text: &str, wanted: &[String]) -> LogReading {
    let mut reading = LogReading::default();
    let document = match Document::parse(text.trim_start()) {
        Ok(document) => document,
        Err(error) => {
            reading.doubts.push(format!("the report cannot be read: {error}"));
            return reading;
        }
    };
    reading.ended = true;
    let cases: Vec<Node<'_, '_>> =
        document.descendants().filter(|node| node.has_tag_name("testcase")).collect();
    for id in wanted {
        let statuses: Vec<TestStatus> =
            cases.iter().filter(|case| is_named(case, id)).map(status).collect();
        if statuses.len() > 1 && statuses.contains(&TestStatus::Passed) {
            reading.doubts.push(format!("{id}: reported {} times", statuses.len()));
        }
        reading.tests.insert(id.clone(), worst(&statuses));
    }
    reading
}

fn status(case: &Node<'_, '_>) -> TestStatus {
    let child = |name: &str| case.children().find(|node| node.has_tag_name(name));
    if child("error").is_some() {
        return TestStatus::Error;
    }
    if child("failure").is_some() {
        return TestStatus::Failed;
    }
    match child("skipped").map(|node| node.attribute("type")) {
        Some(Some("pytest.xfail")) => TestStatus::Xfailed,
        Some(_) => TestStatus::Skipped,
        None => TestStatus::Passed,
    }
}

/// An id is a pytest node id, or class and name as other runners join them.
fn is_named(case: &Node<'_, '_>, id: &str) -> bool {
    let name = case.attribute("name").unwrap_or_default();
    let class = case.attribute("classname").unwrap_or_default();
    let joined = ["::", ".", "#", " ", "/"];
    id == name && class.is_empty()
        || joined.iter().any(|joint| {
            id.strip_suffix(name).and_then(|head| head.strip_suffix(joint)) == Some(class)
        })
        || node_id(id) == (class.to_owned(), name.to_owned())
}

/// `tests/test_a.py::Case::test_b[x]` is `test_b[x]` of `tests.test_a.Case`.
fn node_id(id: &str) -> (String, String) {
    let (nodes, parameters) = match id.find('[') {
        Some(at) => id.split_at(at),
        None => (id, ""),
    };
    let Some((head, name)) = nodes.rsplit_once("::") else { return (String::new(), String::new()) };
    let mut parts = head.split("::");
    let file = parts.next().unwrap_or_default();
    let mut class = file.strip_suffix(".py").unwrap_or(file).replace('/', ".");
    for part in parts {
        class.push('.');
        class.push_str(part);
    }
    (class, format!("{name}{parameters}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0"?><testsuites><testsuite name="pytest">
        <testcase classname="tests.test_a.Case" name="test_b[x::y]"/>
        <testcase classname="tests.test_a" name="test_c"><failure message="m">t</failure></testcase>
        <testcase classname="tests.test_a" name="test_d"><skipped type="pytest.xfail"/></testcase>
        <testcase classname="com.example.Thing" name="works"/>
        <testcase classname="t" name="twice"/><testcase classname="t" name="twice"><error/></testcase>
        </testsuite></testsuites>"#;

    #[test]
    fn cases_are_found_by_node_id_and_by_class_and_name() {
        let ids = [
            "tests/test_a.py::Case::test_b[x::y]",
            "tests/test_a.py::test_c",
            "tests/test_a.py::test_d",
            "com.example.Thing.works",
            "t::twice",
            "t::never",
        ];
        let reading = read(REPORT, &ids.map(String::from));
        let statuses: Vec<TestStatus> = ids.iter().map(|id| reading.tests[*id]).collect();
        assert_eq!(
            statuses,
            [
                TestStatus::Passed,
                TestStatus::Failed,
                TestStatus::Xfailed,
                TestStatus::Passed,
                TestStatus::Error,
                TestStatus::Missing
            ]
        );
        assert_eq!(reading.doubts, ["t::twice: reported 2 times"]);
    }

    #[test]
    fn a_torn_report_has_no_end_and_entities_are_not_expanded() {
        assert!(!read("<testsuite><testcase name='a'/>", &[]).ended);
        let bomb = "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'>]><testsuite>&a;</testsuite>";
        assert!(!read(bomb, &[]).doubts.is_empty());
    }
}
