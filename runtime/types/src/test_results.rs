//! Where a task's test results come from, and in which format.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How to read the results of a task's tests. With this key, `test_command` runs as written and test ids are not
/// appended.
///
/// ```
/// use proctor_types::{TestFormat, TestResults};
///
/// let read: TestResults = serde_json::from_str(r#"{"format": "go-json"}"#).unwrap();
/// assert_eq!((read.format, read.path), (TestFormat::GoJson, None));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestResults {
    /// The format of the results.
    pub format: TestFormat,
    /// Path of the report that `test_command` writes, absolute or relative to `workdir`. `*` in the last part matches
    /// any characters, for runners that write one file per class. Proctor deletes the report before the run. Default:
    /// the standard output of `test_command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// A format of test results. `docs/reference/tasks.md` describes the test ids of each format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TestFormat {
    /// pytest with Proctor's own recorder (default).
    Pytest,
    /// JUnit XML from any runner.
    Junit,
    /// The Test Anything Protocol, versions 12 to 14.
    Tap,
    /// `go test -json`.
    GoJson,
    /// Rust's libtest as text or JSON, and cargo-nextest.
    Libtest,
    /// The JSON of jest, vitest and mocha.
    Jest,
    /// Common Test Report Format, JSON.
    Ctrf,
}

impl TestFormat {
    /// Returns the name used in tasks.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pytest => "pytest",
            Self::Junit => "junit",
            Self::Tap => "tap",
            Self::GoJson => "go-json",
            Self::Libtest => "libtest",
            Self::Jest => "jest",
            Self::Ctrf => "ctrf",
        }
    }
}

impl fmt::Display for TestFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_displays_as_its_serialized_name() {
        for format in [
            TestFormat::Pytest,
            TestFormat::Junit,
            TestFormat::Tap,
            TestFormat::GoJson,
            TestFormat::Libtest,
            TestFormat::Jest,
            TestFormat::Ctrf,
        ] {
            assert_eq!(serde_json::to_value(format).unwrap(), format.name());
        }
        let unknown = serde_json::from_str::<TestResults>(r#"{"format": "nunit"}"#).unwrap_err();
        assert!(unknown.to_string().contains("go-json"), "{unknown}");
        assert!(serde_json::from_str::<TestResults>(r#"{"format": "tap", "file": "x"}"#).is_err());
    }
}
