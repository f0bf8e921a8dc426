//! How statuses count for a test that is expected to pass.

use serde::Deserialize;

/// How an expected test counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Pass,
    Fail,
    /// Counts neither as passed nor as failed.
    Neither,
}

/// How each status counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standings {
    pub passed: Standing,
    pub failed: Standing,
    pub error: Standing,
    pub skipped: Standing,
    pub xfailed: Standing,
    pub xpassed: Standing,
    /// The test was not printed.
    pub missing: Standing,
    /// A word that the harness reads as a status but does not know.
    pub other: Standing,
}

impl Standings {
    pub fn of(&self, status: Option<&str>) -> Standing {
        match status {
            None => self.missing,
            Some("PASSED") => self.passed,
            Some("FAILED") => self.failed,
            Some("ERROR") => self.error,
            Some("SKIPPED") => self.skipped,
            Some("XFAIL") => self.xfailed,
            Some("XPASS") => self.xpassed,
            Some(_) => self.other,
        }
    }
}
