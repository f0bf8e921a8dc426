//! Runs the official parser with a given name and edition.

use crate::parsers::{
    StatusMap,
    crash::ParserCrash,
    django, featurebench, indented, javascript, live,
    names::{Edition, ParserName, RowFacts},
    pytest, pytest_v2, results, seaborn, smith, stateful, sympy,
};

impl ParserName {
    /// Checks that the parser can read the log of this row.
    ///
    /// # Errors
    ///
    /// Returns an error if the official code chooses the parser by the row and does not recognize
    /// this row. The official code then raises an exception for every log.
    pub fn check_row(self, row_facts: RowFacts<'_>) -> Result<(), ParserCrash> {
        match self {
            Self::ImmutableJs => javascript::immutable_js_parser(row_facts).map(drop),
            Self::Jekyll => javascript::jekyll_parser(row_facts).map(drop),
            Self::Lighthouse => javascript::check_lighthouse_row(row_facts),
            _ => Ok(()),
        }
    }
}

/// Reads `log` as the parser of this edition does, without facts about the row.
///
/// # Errors
///
/// The official parser raises an exception.
pub fn parse(parser: ParserName, edition: Edition, log: &str) -> Result<StatusMap, ParserCrash> {
    parse_with_row_facts(parser, edition, log, RowFacts::default())
}

/// Parses a log as the official parser of this edition does. Some parsers also need facts about the
/// dataset row.
///
/// # Errors
///
/// The official parser raises an exception.
pub fn parse_with_row_facts(
    parser: ParserName,
    edition: Edition,
    log: &str,
    row_facts: RowFacts<'_>,
) -> Result<StatusMap, ParserCrash> {
    match parser {
        ParserName::Pytest => Ok(pytest::parse_pytest(edition, log)),
        ParserName::PytestOptions => Ok(pytest::parse_pytest_options(edition, log)),
        ParserName::Matplotlib => Ok(pytest::parse_matplotlib(edition, log)),
        ParserName::PytestV2 => pytest_v2::parse_pytest_v2(edition, log),
        ParserName::PytestPydantic => pytest_v2::parse_pydantic(log),
        ParserName::Seaborn => seaborn::parse(edition, log),
        ParserName::Django => django::parse(log),
        ParserName::Sympy => Ok(sympy::parse(log)),
        ParserName::Featurebench => Ok(featurebench::parse_summary(log, false)),
        ParserName::FeaturebenchSubfailed => Ok(featurebench::parse_summary(log, true)),
        ParserName::FeaturebenchVerbose => Ok(featurebench::parse_verbose(log)),
        ParserName::Live => Ok(live::parse(log)),
        ParserName::Smith => Ok(smith::parse(log)),
        ParserName::BpmnJs => Ok(javascript::parse_bpmn_js(log)),
        ParserName::Calypso => indented::parse_calypso(log),
        ParserName::ChartJs => Ok(javascript::parse_chart_js(log)),
        ParserName::Doctest => stateful::parse_doctest(log),
        ParserName::Eslint => Ok(javascript::parse_eslint(log)),
        ParserName::GradleCustom => Ok(stateful::parse_gradle(log)),
        ParserName::Grommet => Ok(javascript::parse_grommet(log)),
        ParserName::Highlightjs => Ok(indented::parse_highlightjs(log)),
        ParserName::ImmutableJs => parse_with_row_facts(
            javascript::immutable_js_parser(row_facts)?,
            edition,
            log,
            row_facts,
        ),
        ParserName::Jekyll => {
            parse_with_row_facts(javascript::jekyll_parser(row_facts)?, edition, log, row_facts)
        }
        ParserName::Karma => indented::parse_karma(log),
        ParserName::Lighthouse => javascript::parse_lighthouse(log, row_facts.version),
        ParserName::Maven => Ok(stateful::parse_maven(log)),
        ParserName::Next => Ok(indented::parse_next(log, row_facts.version)),
        ParserName::Openlayers => Ok(javascript::parse_openlayers(log)),
        ParserName::P5js => Ok(javascript::parse_p5js(log)),
        ParserName::Phpunit => Ok(stateful::parse_phpunit(log)),
        ParserName::Prismjs => javascript::parse_prismjs(log),
        ParserName::QuartoCli => Ok(javascript::parse_quarto_cli(log)),
        ParserName::Redis => Ok(stateful::parse_redis(log)),
        ParserName::Ant
        | ParserName::Carbon
        | ParserName::Cargo
        | ParserName::Cucumber
        | ParserName::Googletest
        | ParserName::Gotest
        | ParserName::Jest
        | ParserName::JestJson
        | ParserName::Jq
        | ParserName::Marked
        | ParserName::MicropythonTest
        | ParserName::Minitest
        | ParserName::RspecTransformedJson
        | ParserName::RubyUnit
        | ParserName::Tap
        | ParserName::Vitest => Ok(results::parse(parser, log).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_v5(parser: ParserName, log: &str) -> Vec<(String, String)> {
        parse_row_v5(parser, log, RowFacts::default()).unwrap()
    }

    fn parse_row_v5(
        parser: ParserName,
        log: &str,
        row_facts: RowFacts<'_>,
    ) -> Result<Vec<(String, String)>, ParserCrash> {
        let map = parse_with_row_facts(parser, Edition::V5, log, row_facts)?;
        Ok(map.iter().map(|(name, word)| (name.to_owned(), word.to_owned())).collect())
    }

    fn to_pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned())).collect()
    }

    /// Every line-by-line parser has its own rules.
    #[test]
    fn each_line_parser_reads_a_result_and_ignores_other_text() {
        for (parser, line, name, word) in [
            (ParserName::Ant, "    [junit] [ERR] a.B.c", "a.B.c", "FAILED"),
            (ParserName::Carbon, "PASS src/a.js (1.2 s)", "src/a.js", "PASSED"),
            (ParserName::Cargo, "test a::b ... FAILED", "a::b", "FAILED"),
            (ParserName::Cucumber, "features/a.feature ...F", "features/a.feature", "FAILED"),
            (ParserName::Googletest, "3: [       OK ] a.b (0 ms)", "a.b", "PASSED"),
            (ParserName::Gotest, "    --- SKIP: TestA/b (0.00s)", "TestA/b", "SKIPPED"),
            (ParserName::Jest, "    ✕ adds (12 ms)", "adds", "FAILED"),
            (ParserName::JestJson, "[PASSED] a > b", "a > b", "PASSED"),
            (ParserName::Jq, "PASS: tests/jqtest", "tests/jqtest", "PASSED"),
            (ParserName::Marked, "12) a b ", "a b", "FAILED"),
            (ParserName::MicropythonTest, "skip  basics/a.py", "basics/a.py", "SKIPPED"),
            (ParserName::Minitest, "TestA#test_b. = 0.01 s = .", "TestA#test_b", "PASSED"),
            (ParserName::RspecTransformedJson, "a b - failed", "a b", "FAILED"),
            (ParserName::RubyUnit, "  test: a:\t\tO: (0.1)", "a", "SKIPPED"),
            (ParserName::Tap, "not ok 3 a b", "a b", "FAILED"),
            (ParserName::Vitest, " ✓ a.ts > b 3ms", "a.ts > b", "PASSED"),
        ] {
            assert_eq!(parse_v5(parser, line), to_pairs(&[(name, word)]), "{parser:?}");
            assert!(parse_v5(parser, "nothing of a test").is_empty(), "{parser:?}");
        }
    }

    #[test]
    fn parse_reads_results_on_later_lines() {
        let maven =
            "+ mvn -Dtest=A#a\n+ mvn -Dtest=A#b\n[INFO] BUILD SUCCESS\n[INFO] BUILD FAILURE";
        assert_eq!(
            parse_v5(ParserName::Maven, maven),
            to_pairs(&[("A#a", "PASSED"), ("A#b", "FAILED")])
        );
        let gradle = "a.T > b\nwarning: x\nPASSED\na.T > c FAILED\nPASSED";
        let expected = to_pairs(&[("a.T > b", "PASSED"), ("a.T > c", "FAILED")]);
        assert_eq!(parse_v5(ParserName::GradleCustom, gradle), expected);
        let php = "✔ Lost\nCalc (Tests\\Calc)\n ✘ Adds\n ↩ Skips";
        let expected =
            [("None > Lost", "PASSED"), ("Calc > Adds", "FAILED"), ("Calc > Skips", "SKIPPED")];
        assert_eq!(parse_v5(ParserName::Phpunit, php), to_pairs(&expected));
        let redis = "[ok]: a (3 ms)\n[err]: b in tests/x.tcl\n[ignore]: c";
        let expected = [("a", "PASSED"), ("b", "FAILED"), ("c", "SKIPPED")];
        assert_eq!(parse_v5(ParserName::Redis, redis), to_pairs(&expected));
    }

    #[test]
    fn parse_reads_doctest_xml_and_raises_if_it_is_truncated() {
        let log = "x <doctest><TestCase name='a'><SubCase name='b'><Expression success='true'/>\
                   <SubCase name='c'><Expression success='false'/></SubCase></SubCase></TestCase></doctest> y";
        let expected = to_pairs(&[("a > b", "FAILED"), ("a > c", "FAILED")]);
        assert_eq!(parse_v5(ParserName::Doctest, log), expected);
        assert!(parse_v5(ParserName::Doctest, "none").is_empty());
        assert!(parse(ParserName::Doctest, Edition::V5, "<doctest><TestCase/>").is_err());
    }

    #[test]
    fn parse_includes_suites_in_test_names() {
        let jest = "yarn ./node_modules/.bin/jest x\n  outer\n    inner\n      ✓ a (3ms)\n    ✕ b\n  ● x\n      ✓ c";
        let expected = [("outer - inner - a", "PASSED"), ("outer - inner - b", "FAILED")];
        assert_eq!(parse_v5(ParserName::Calypso, jest), to_pairs(&expected));
        let karma = "Starting browser\n  A\n    B\n      ✔ a\n    ✖ b\nSUMMARY:\n    ✔ c";
        let expected = [("A > B > a", "PASSED"), ("A > B > b", "FAILED")];
        assert_eq!(parse_v5(ParserName::Karma, karma), to_pairs(&expected));
        let mocha = "  suite\n    ✓ a (20ms)\n    1) b\n\n  1 passing (2s)\n  1) suite";
        let expected = [("suite.a", "PASSED"), ("suite.b", "FAILED")];
        assert_eq!(parse_v5(ParserName::Highlightjs, mocha), to_pairs(&expected));
    }

    #[test]
    fn parse_finds_failures_in_noisy_browser_logs() {
        let log = "{\n1) in json:\n}\n<a><b>1) in xml:</b></a><a>\n  1) suite\n       title:\n     Error\n  2) x\n y:\n";
        assert_eq!(parse_v5(ParserName::P5js, log), to_pairs(&[("suite:title", "FAILED")]));
        let chart =
            "\x1b[31mChrome 99.0 (Linux 0.0.0) a b FAILED\x1b[39m\nChrome 99.0 (Linux 0.0.0) c";
        assert_eq!(parse_v5(ParserName::ChartJs, chart), to_pairs(&[("a b ", "FAILED")]));
    }

    #[test]
    fn parse_row_chooses_the_parser_by_the_row() {
        let row = |id, version| RowFacts { id, version };
        let log = "Feature: A ...F\nTestA#b. = 0.1 s = .";
        let jekyll = |id| parse_row_v5(ParserName::Jekyll, log, row(id, None));
        assert_eq!(jekyll("jekyll__jekyll-8761").unwrap(), to_pairs(&[("Feature: A", "FAILED")]));
        assert_eq!(jekyll("jekyll__jekyll-9141").unwrap(), to_pairs(&[("TestA#b", "PASSED")]));
        assert!(jekyll("jekyll__jekyll-1").is_err() && jekyll("").is_err());
        for (parser, good, bad) in [
            (ParserName::Jekyll, row("a-8047", None), row("a-8048", None)),
            (ParserName::ImmutableJs, row("a-2005", None), row("a-2", None)),
            (ParserName::Lighthouse, row("", Some("2.4")), row("", Some("new"))),
            (ParserName::Lighthouse, row("", Some("9.5")), row("", None)),
        ] {
            assert!(parser.check_row(good).is_ok() && parser.check_row(bad).is_err(), "{parser:?}");
        }
    }
}
