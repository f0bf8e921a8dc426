//! The closed set of official parsers.

use std::fmt;

use serde::Deserialize;

use crate::parsers::{
    StatusMap, django, featurebench, live, pytest, pytest_v2, seaborn, smith, sympy,
};

/// A parser of a benchmark's own harness. Which repository or row uses which is data of the
/// benchmark's policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParserName {
    Pytest,
    PytestOptions,
    PytestV2,
    /// SWE-Gym's own, for pydantic.
    PytestPydantic,
    Matplotlib,
    Seaborn,
    Django,
    Sympy,
    Featurebench,
    FeaturebenchSubfailed,
    FeaturebenchVerbose,
    /// SWE-bench-Live's `pytest`: its harness folds the words to pass, skip and fail.
    Live,
    /// SWE-smith's profile of Python repositories.
    Smith,
}

impl ParserName {
    /// As in the files of policies.
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
        }
    }
}

/// The generation of the SWE-bench parsers: they differ, and ids recorded with one do not match
/// those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Edition {
    /// 2.1.0, which SWE-Gym forked.
    #[serde(rename = "2")]
    V2,
    /// 3.0.4, which FEA-Bench pins.
    #[serde(rename = "3")]
    V3,
    /// 4.1, and what SWE-rebench forked.
    #[serde(rename = "4")]
    V4,
    /// 5.0.2.
    #[serde(rename = "5")]
    V5,
}

/// The official parser raises on this log: its harness counts the instance as an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParserCrash {
    pub line: String,
}

impl ParserCrash {
    pub(crate) fn at(line: &str) -> Self {
        Self { line: line.chars().take(80).collect() }
    }
}

impl fmt::Display for ParserCrash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the official parser raises an IndexError at the line {:?}", self.line)
    }
}

/// Reads `log` as the named parser of that edition does.
///
/// # Errors
///
/// Where the official parser raises.
pub fn parse(parser: ParserName, edition: Edition, log: &str) -> Result<StatusMap, ParserCrash> {
    match parser {
        ParserName::Pytest => Ok(pytest::plain(edition, log)),
        ParserName::PytestOptions => Ok(pytest::options(edition, log)),
        ParserName::Matplotlib => Ok(pytest::matplotlib(edition, log)),
        ParserName::PytestV2 => pytest_v2::v2(edition, log),
        ParserName::PytestPydantic => pytest_v2::pydantic(log),
        ParserName::Seaborn => seaborn::parse(edition, log),
        ParserName::Django => django::parse(log),
        ParserName::Sympy => Ok(sympy::parse(log)),
        ParserName::Featurebench => Ok(featurebench::summary(log, false)),
        ParserName::FeaturebenchSubfailed => Ok(featurebench::summary(log, true)),
        ParserName::FeaturebenchVerbose => Ok(featurebench::verbose(log)),
        ParserName::Live => Ok(live::parse(log)),
        ParserName::Smith => Ok(smith::parse(log)),
    }
}

/// The statuses that the official harnesses know, in the order of their enumeration.
pub(crate) const STATUSES: [&str; 5] = ["FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL"];

pub(crate) fn starts_with_status(line: &str) -> bool {
    STATUSES.iter().any(|status| line.starts_with(status))
}

pub(crate) fn ends_with_status(line: &str) -> bool {
    STATUSES.iter().any(|status| line.ends_with(status))
}
