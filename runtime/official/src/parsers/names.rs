//! The closed set of official parsers: their names, their editions, and the facts about a row that
//! they need.

use serde::Deserialize;

/// A parser of a benchmark's own harness. The benchmark's policy selects the parser for a
/// repository or row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParserName {
    Pytest,
    PytestOptions,
    PytestV2,
    /// SWE-Gym's own parser for pydantic.
    PytestPydantic,
    Matplotlib,
    Seaborn,
    Django,
    Sympy,
    Featurebench,
    FeaturebenchSubfailed,
    FeaturebenchVerbose,
    /// SWE-bench-Live's `pytest`. Its harness maps the status words to pass, skip and fail.
    Live,
    /// SWE-smith's profile for Python repositories.
    Smith,
    // SWE-bench 5, for languages other than Python.
    Ant,
    BpmnJs,
    Calypso,
    /// Also the parser of react-pdf.
    Carbon,
    Cargo,
    ChartJs,
    Cucumber,
    /// doctest for C++.
    Doctest,
    Eslint,
    Googletest,
    Gotest,
    GradleCustom,
    Grommet,
    Highlightjs,
    /// One of two parsers, chosen by the row.
    ImmutableJs,
    /// One of two parsers, chosen by the row.
    Jekyll,
    Jest,
    JestJson,
    Jq,
    Karma,
    /// One of three parsers, chosen by the row's version.
    Lighthouse,
    Marked,
    Maven,
    MicropythonTest,
    Minitest,
    /// One of two parsers, chosen by the row's version.
    Next,
    Openlayers,
    P5js,
    Phpunit,
    Prismjs,
    QuartoCli,
    Redis,
    RspecTransformedJson,
    RubyUnit,
    Tap,
    Vitest,
}

impl ParserName {
    /// Returns the parser's name in policy files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pytest => "pytest",
            Self::PytestOptions => "pytest_options",
            Self::PytestV2 => "pytest_v2",
            Self::PytestPydantic => "pytest_pydantic",
            Self::Matplotlib => "matplotlib",
            Self::Seaborn => "seaborn",
            Self::Django => "django",
            Self::Sympy => "sympy",
            Self::Featurebench => "featurebench",
            Self::FeaturebenchSubfailed => "featurebench_subfailed",
            Self::FeaturebenchVerbose => "featurebench_verbose",
            Self::Live => "live",
            Self::Smith => "smith",
            Self::Ant => "ant",
            Self::BpmnJs => "bpmn_js",
            Self::Calypso => "calypso",
            Self::Carbon => "carbon",
            Self::Cargo => "cargo",
            Self::ChartJs => "chart_js",
            Self::Cucumber => "cucumber",
            Self::Doctest => "doctest",
            Self::Eslint => "eslint",
            Self::Googletest => "googletest",
            Self::Gotest => "gotest",
            Self::GradleCustom => "gradle_custom",
            Self::Grommet => "grommet",
            Self::Highlightjs => "highlightjs",
            Self::ImmutableJs => "immutable_js",
            Self::Jekyll => "jekyll",
            Self::Jest => "jest",
            Self::JestJson => "jest_json",
            Self::Jq => "jq",
            Self::Karma => "karma",
            Self::Lighthouse => "lighthouse",
            Self::Marked => "marked",
            Self::Maven => "maven",
            Self::MicropythonTest => "micropython_test",
            Self::Minitest => "minitest",
            Self::Next => "next",
            Self::Openlayers => "openlayers",
            Self::P5js => "p5js",
            Self::Phpunit => "phpunit",
            Self::Prismjs => "prismjs",
            Self::QuartoCli => "quarto_cli",
            Self::Redis => "redis",
            Self::RspecTransformedJson => "rspec_transformed_json",
            Self::RubyUnit => "ruby_unit",
            Self::Tap => "tap",
            Self::Vitest => "vitest",
        }
    }
}

/// The generation of the SWE-bench parsers. Ids that were recorded with one generation don't match
/// those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Edition {
    /// 2.1.0, which SWE-Gym forked.
    #[serde(rename = "2")]
    V2,
    /// 3.0.4, which FEA-Bench pins.
    #[serde(rename = "3")]
    V3,
    /// 4.1, and the version that SWE-rebench forked.
    #[serde(rename = "4")]
    V4,
    /// 5.0.2.
    #[serde(rename = "5")]
    V5,
}

/// Facts about the row that some parsers need in addition to the log.
#[derive(Debug, Clone, Copy, Default)]
pub struct RowFacts<'a> {
    /// The row's `instance_id`.
    pub id: &'a str,
    pub version: Option<&'a str>,
}
