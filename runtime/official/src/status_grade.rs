//! How statuses count for a test that is expected to pass.

use serde::Deserialize;

/// How an expected test counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusGrade {
    Pass,
    Fail,
    /// Counts neither as passed nor as failed.
    Neither,
}

/// How each status counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusGrades {
    pub passed: StatusGrade,
    pub failed: StatusGrade,
    pub error: StatusGrade,
    pub skipped: StatusGrade,
    pub xfailed: StatusGrade,
    pub xpassed: StatusGrade,
    /// How a test counts if the log does not mention it.
    pub missing: StatusGrade,
    /// How a test counts if its status is a word that the harness accepts but does not know.
    pub other: StatusGrade,
}

impl StatusGrades {
    pub fn grade_for(&self, status: Option<&str>) -> StatusGrade {
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
