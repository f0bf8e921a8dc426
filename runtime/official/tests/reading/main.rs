//! Fuzzes logs and reports. Graded code can write to them, so they may contain any bytes.

use fuzz::fuzz;
use proctor_official::{
    OfficialPolicy,
    parsers::{RowFacts, parse_with_row_facts},
    reader::{Report, detect_format, read, to_plain_text},
};
use proctor_types::TestFormat;

/// Every seed is a complete report of a real run, so its format must be detected.
#[test]
fn read_accepts_arbitrary_bytes() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reports");
    let wanted =
        ["calc adds", "top level", "example.com/calc::TestGood", "adds"].map(str::to_owned);
    fuzz(seeds, |bytes| {
        read(bytes, &wanted, None, "/testbed");
        for format in [TestFormat::Junit, TestFormat::Tap, TestFormat::Libtest, TestFormat::GoJson]
        {
            Report::parse(format, &[bytes.to_vec()], "/testbed");
        }
        let Some(format) = detect_format(&to_plain_text(bytes)) else { return false };
        let report = Report::parse(format, &[bytes.to_vec()], "/testbed");
        assert_eq!(report.expected_statuses(&wanted).len(), wanted.len());
        report.is_complete && !report.tests.is_empty()
    });
}

#[test]
fn swe_bench_parsers_accept_arbitrary_logs() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/official/languages");
    let policies = OfficialPolicy::all().unwrap();
    let newest = policies.iter().find(|policy| policy.version == "5.0.2").unwrap();
    let rows = [
        RowFacts { id: "jekyll__jekyll-9141", version: Some("1.27") },
        RowFacts { id: "immutable-js__immutable-js-2005", version: Some("9.5") },
        RowFacts { id: "", version: Some("2.0") },
    ];
    fuzz(seeds, |bytes| {
        let log = String::from_utf8_lossy(bytes);
        for parser in newest.parser.names.values() {
            for row in rows {
                // If the official parser raises an exception, Proctor's returns an error.
                let _ = parse_with_row_facts(*parser, newest.parser.edition, &log, row);
            }
        }
        true
    });
}
