//! What grading found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{EnvironmentRecord, TaskId};

pub const VERDICT_SCHEMA: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestStatus {
    Passed,
    Failed,
    Error,
    Skipped,
    Xfailed,
    Xpassed,
    /// No record: the test did not report, or reported twice.
    Missing,
}

impl std::fmt::Display for TestStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Error => "error",
            Self::Skipped => "skipped",
            Self::Xfailed => "xfailed",
            Self::Xpassed => "xpassed",
            Self::Missing => "missing",
        })
    }
}

/// What a verdict is worth, the best first: of two, the later counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Integrity {
    Clean,
    /// Nothing speaks against it, and nothing was there to try it: no canary was judged.
    Unverified,
    Suspect,
    Contaminated,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestGroup {
    pub passed: Vec<String>,
    pub failed: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyVerdict {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub resolved: bool,
    pub why: String,
}

/// The kind of evidence that grading leaves of a patch that does not apply.
pub const PATCH_REJECTED: &str = "patch_rejected";

/// Something that makes a result worth a second look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// A stable name, such as `canary_passed`.
    pub kind: String,
    pub what: String,
    /// The steps that it shows in, where it shows in steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<u64>,
}

/// `verdict.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub schema_version: u32,
    pub task: TaskId,
    pub resolved: bool,
    /// F2P tests passed / F2P tests.
    pub passed_rate: f64,
    pub fail_to_pass: TestGroup,
    pub pass_to_pass: TestGroup,
    pub tests: BTreeMap<String, TestStatus>,
    /// `official` where the dataset has one, and `strict`.
    pub policies: BTreeMap<String, PolicyVerdict>,
    pub integrity: Integrity,
    pub evidence: Vec<Evidence>,
    /// What the tests ran in; absent for a log that somebody else's run left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentRecord>,
}
