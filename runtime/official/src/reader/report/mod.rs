//! Reports of test runners. They contain every test of a run, including tests that the task does
//! not expect.
//!
//! Each reader returns the tests with the ids that `docs/reference/tasks.md` specifies for its format. If a
//! test is reported twice, its worst status counts.

mod content;
mod ctrf;
mod go_json;
mod javascript;
mod json;
mod libtest;
mod root;
mod tap;

use proctor_types::TestFormat;

pub use content::Report;
use root::ReportRoot;

use crate::reader::{junit, to_plain_text};

impl Report {
    /// Parses the report files of one run. Paths below `root` are made relative to it. The report
    /// is empty if there are no files.
    pub fn parse(format: TestFormat, files: &[Vec<u8>], root: &str) -> Self {
        let mut report = Self::default();
        for (at, file) in files.iter().enumerate() {
            let one = Self::from_text(format, &to_plain_text(file), root);
            for (id, status) in one.tests {
                report.add(id, status);
            }
            report.is_complete = one.is_complete && (at == 0 || report.is_complete);
            report.doubts.extend(one.doubts);
            report.other_failure_count += one.other_failure_count;
        }
        report
    }

    pub(super) fn from_text(format: TestFormat, text: &str, root: &str) -> Self {
        let root = ReportRoot::new(root);
        match format {
            // pytest's own log is not a report. Another reader handles this log.
            TestFormat::Pytest => Self::default(),
            TestFormat::Junit => junit::read_report(text),
            TestFormat::Tap => tap::read(text, &root),
            TestFormat::GoJson => go_json::read(text),
            TestFormat::Libtest => libtest::read(text),
            TestFormat::Jest => javascript::read(text, &root),
            TestFormat::Ctrf => ctrf::read(text),
        }
    }
}

/// Detects the format of a report. Returns `None` if the text is not a report.
pub fn detect_format(text: &str) -> Option<TestFormat> {
    if junit::matches_format(text) {
        return Some(TestFormat::Junit);
    }
    type FormatTest = fn(&str) -> bool;
    let formats: [(TestFormat, FormatTest); 6] = [
        (TestFormat::Ctrf, ctrf::matches_format),
        (TestFormat::Jest, javascript::matches_format),
        (TestFormat::GoJson, go_json::matches_format),
        (TestFormat::Libtest, libtest::matches_format),
        (TestFormat::Tap, tap::matches_format),
        // The report may follow the output of a package manager.
        (TestFormat::Junit, junit::contains_report),
    ];
    formats.into_iter().find(|(_, matches_format)| matches_format(text)).map(|(format, _)| format)
}

#[cfg(test)]
mod tests {
    use proctor_types::TestStatus;

    use super::*;

    fn report_with(tests: &[(&str, TestStatus)]) -> Report {
        let mut report = Report::default();
        for (id, status) in tests {
            report.add((*id).to_owned(), *status);
        }
        report
    }

    #[test]
    fn resolve_finds_a_unique_id_by_its_suffix() {
        use TestStatus::Passed;
        let report = report_with(&[
            ("com.A::adds", Passed),
            ("com.A::never adds", Passed),
            ("com.A::twice", Passed),
            ("com.B::twice", Passed),
            ("/x/src/a.test.js::outer > inner", Passed),
            ("pkg::TestSum/two_ones", Passed),
            ("tests.test_a.Case::test_b[x::y]", Passed),
        ]);
        for (wanted, found) in [
            ("com.A::adds", Some("com.A::adds")),
            ("adds", Some("com.A::adds")),
            ("never adds", Some("com.A::never adds")),
            ("twice", None),
            ("com.B::twice", Some("com.B::twice")),
            ("src/a.test.js::outer > inner", Some("/x/src/a.test.js::outer > inner")),
            ("inner", Some("/x/src/a.test.js::outer > inner")),
            ("two_ones", Some("pkg::TestSum/two_ones")),
            // A suffix that starts inside a word does not match.
            ("dds", None),
            ("ones", None),
            ("", None),
            ("nowhere", None),
            ("tests/test_a.py::Case::test_b[x::y]", Some("tests.test_a.Case::test_b[x::y]")),
        ] {
            assert_eq!(report.resolve_id(wanted), found, "{wanted}");
        }
    }

    #[test]
    fn add_keeps_the_worst_result() {
        use TestStatus::{Error, Failed, Passed, Skipped};
        for (first, second, worst) in
            [(Passed, Failed, Failed), (Error, Passed, Error), (Skipped, Passed, Skipped)]
        {
            assert_eq!(report_with(&[("t", first), ("t", second)]).tests["t"], worst);
        }
    }

    #[test]
    fn missing_files_give_an_empty_incomplete_report() {
        let wanted = ["a".to_owned()];
        for format in [
            TestFormat::Junit,
            TestFormat::Tap,
            TestFormat::GoJson,
            TestFormat::Libtest,
            TestFormat::Jest,
            TestFormat::Ctrf,
        ] {
            for files in [vec![], vec![Vec::new()], vec![b"npm ERR! missing script\n".to_vec()]] {
                let report = Report::parse(format, &files, "/testbed");
                assert!(!report.is_complete, "{format}");
                assert_eq!(report.expected_statuses(&wanted)["a"], TestStatus::Missing, "{format}");
            }
        }
    }

    #[test]
    fn read_combines_files_and_requires_all_to_end() {
        let suite = |class: &str| {
            format!("<testsuite><testcase classname='{class}' name='t'/></testsuite>").into_bytes()
        };
        let both = Report::parse(TestFormat::Junit, &[suite("A"), suite("B")], "/");
        assert_eq!(both.tests.keys().collect::<Vec<_>>(), ["A::t", "B::t"]);
        assert!(both.is_complete && both.doubts.is_empty());
        let torn = Report::parse(TestFormat::Junit, &[suite("A"), b"<testsuite>".to_vec()], "/");
        assert!(!torn.is_complete && torn.tests.len() == 1);
    }

    #[test]
    fn detect_format_distinguishes_formats() {
        for (text, format) in [
            ("<testsuites/>", Some(TestFormat::Junit)),
            ("TAP version 14\n1..1\nok 1 - a\n", Some(TestFormat::Tap)),
            ("1..1\nok 1 - a\n", Some(TestFormat::Tap)),
            ("{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"T\"}\n", Some(TestFormat::GoJson)),
            (
                "\nrunning 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed;",
                Some(TestFormat::Libtest),
            ),
            (
                "{\"type\":\"suite\",\"event\":\"started\",\"test_count\":1}\n",
                Some(TestFormat::Libtest),
            ),
            ("        PASS [   0.004s] crate tests::a\n", Some(TestFormat::Libtest)),
            ("> jest --json\n{\"success\":true,\"testResults\":[]}", Some(TestFormat::Jest)),
            ("{\"stats\":{},\"passes\":[],\"failures\":[]}", Some(TestFormat::Jest)),
            ("{\"results\":{\"tool\":{\"name\":\"x\"},\"tests\":[]}}", Some(TestFormat::Ctrf)),
            (
                "== test session starts ==\ncollected 1 item\nt.py . [100%]\n== 1 passed in 0.1s ==",
                None,
            ),
            ("{\"a\":1}\n", None),
            ("", None),
        ] {
            assert_eq!(detect_format(text), format, "{text}");
        }
    }
}
