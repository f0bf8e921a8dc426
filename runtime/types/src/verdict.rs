//! The result of grading.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{EnvironmentRecord, EvidenceClass, FailureReason, Noise, TaskId};

/// The version of the verdict format.
pub const VERDICT_SCHEMA_VERSION: u32 = 1;

/// A test's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestStatus {
    /// The test ran and passed.
    Passed,
    /// The test ran, and an assertion or the code failed.
    Failed,
    /// The test's setup or teardown failed.
    Error,
    /// The test was skipped, which does not count as a pass.
    Skipped,
    /// The test failed as expected.
    Xfailed,
    /// The test passed although a failure was expected, which does not count as a pass.
    Xpassed,
    /// The test failed and then passed in a rerun. Official harnesses count a pass; `strict` does
    /// not.
    Flaky,
    /// No result: the test did not report, or reported twice.
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
            Self::Flaky => "flaky",
            Self::Missing => "missing",
        })
    }
}

/// The integrity of a verdict, from best to worst. If several apply, the worst counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Integrity {
    /// There is no evidence against the verdict.
    Clean,
    /// There is no evidence against the verdict, but no canary was evaluated that would have
    /// verified it.
    Unverified,
    /// Something falsified the test run, or may have done so.
    Suspect,
    /// The record shows that the agent reached the solution.
    Contaminated,
}

impl Verdict {
    /// Returns the classes of the evidence against the verdict. Empty if the integrity is no worse
    /// than `unverified`, because honest work can leave evidence too.
    pub fn evidence_classes(&self) -> BTreeSet<EvidenceClass> {
        let doubted = self.integrity >= Integrity::Suspect;
        let evidence = self.evidence.iter().filter(|_| doubted);
        // Older verdicts record kinds but no classes.
        evidence
            .filter_map(|one| one.class.or_else(|| EvidenceClass::for_kind(&one.kind)))
            .collect()
    }

    /// Returns the evidence that makes the verdict unverified. Yields nothing for other verdicts.
    pub fn unverified_evidence(&self) -> impl Iterator<Item = &Evidence> {
        let evidence = self.evidence.iter().filter(|_| self.integrity == Integrity::Unverified);
        evidence.filter(|one| EvidenceClass::unverified_reason(&one.kind).is_some())
    }

    /// Returns why the verdict is unverified, each reason once, in words.
    pub fn unverified_reasons(&self) -> BTreeSet<&'static str> {
        let evidence = self.unverified_evidence();
        evidence.filter_map(|one| EvidenceClass::unverified_reason(&one.kind)).collect()
    }
}

impl std::fmt::Display for Integrity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Clean => "clean",
            Self::Unverified => "unverified",
            Self::Suspect => "suspect",
            Self::Contaminated => "contaminated",
        })
    }
}

/// The results of the fail-to-pass or of the pass-to-pass tests, in task order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestGroup {
    /// Ids that passed.
    pub passed: Vec<String>,
    /// Ids that did not pass, whatever their status.
    pub failed: Vec<String>,
}

/// The verdict of one policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyVerdict {
    /// The policy's benchmark. Absent for `strict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The version of the benchmark's harness. Absent for `strict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether the task is resolved under the policy.
    pub resolved: bool,
    /// The reason in one sentence.
    pub why: String,
}

/// The kind of evidence for a patch that does not apply.
pub const PATCH_REJECTED_KIND: &str = "patch_rejected";

/// Something that makes a result worth a second look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// A stable name, such as `canary_passed`.
    pub kind: String,
    /// The class of this kind in `configs/tables/evidence.toml`. Absent if the kind is unrelated to
    /// cheating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<EvidenceClass>,
    /// What was found, and where. `configs/tables/grading.toml` limits the length of this text in a
    /// verdict.
    pub what: String,
    /// The steps in which the evidence appears, if any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<u64>,
}

impl Evidence {
    /// Creates evidence of a kind, with that kind's class.
    pub fn new(kind: impl Into<String>, message: impl Into<String>, steps: Vec<u64>) -> Self {
        let kind = kind.into();
        Self { class: EvidenceClass::for_kind(&kind), kind, what: message.into(), steps }
    }
}

/// The content of `verdict.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// [`VERDICT_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The task's id.
    pub task: TaskId,
    /// Whether the task is resolved under the policy that counts for the run: `official` if the
    /// dataset has one, else `strict`.
    pub resolved: bool,
    /// The policy that determines `resolved`: a key of `policies`. Absent in older verdicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<String>,
    /// The proportion of fail-to-pass tests that passed. If the verdict has `rewards`, the mean of
    /// the rewards, each clipped to [0, 1].
    pub passed_rate: f64,
    /// The rewards of a Harbor verifier, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rewards: BTreeMap<String, f64>,
    /// Tests that the patch must make pass.
    pub fail_to_pass: TestGroup,
    /// Tests that the patch must not break.
    pub pass_to_pass: TestGroup,
    /// The status of every expected test, by id.
    pub tests: BTreeMap<String, TestStatus>,
    /// The verdict of each policy: `strict`, and `official` if the dataset has one.
    pub policies: BTreeMap<String, PolicyVerdict>,
    /// The worst integrity that the evidence implies.
    pub integrity: Integrity,
    /// Evidence that makes the result worth a second look. `configs/tables/grading.toml` limits how much
    /// evidence of a kind is listed; the rest is counted.
    pub evidence: Vec<Evidence>,
    /// The environment that the tests ran in. Absent if an external log was graded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentRecord>,
    /// The effect of limits on the grading sandboxes, by policy. Absent if an external log was
    /// graded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub noise: BTreeMap<String, Noise>,
    /// Why the trial did not resolve the task, according to its record and test log. Absent if the
    /// trial resolved the task, and for a patch without a trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailureReason>,
    /// Number of failed tests in the log by exception class (`NameError`, `AssertionError`, ...);
    /// [`TIMEOUT_EXCEPTION`] counts the tests that did not end in time. Empty for a resolved task,
    /// and for a patch without a trial.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exceptions: BTreeMap<String, u64>,
}

/// The key in [`Verdict::exceptions`] for tests that did not end in time. No Python exception class
/// can have this name.
pub const TIMEOUT_EXCEPTION: &str = "timeout";
