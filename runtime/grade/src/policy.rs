//! The grading policy, as data: `configs/tables/grading.toml`.

use std::{collections::BTreeMap, sync::OnceLock};

use proctor_types::{Evidence, Fault, FaultLayer, Integrity, ShippedTable, TestNames};
use regex::RegexSet;
use serde::Deserialize;

use crate::report_canary::ReportCanaryRules;

const POLICY_TEXT: &str = include_str!("../../../configs/tables/grading.toml");

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Policy {
    pub self_loading_files: Vec<String>,
    pub self_loading_suffixes: Vec<String>,
    pub self_loading_folder_suffixes: Vec<String>,
    pub bytecode_suffixes: Vec<String>,
    pub bytecode_folders: Vec<String>,
    pub history_folders: Vec<String>,
    pub guarded_modules: Vec<String>,
    pub unguarded_modules: Vec<String>,
    pub importable_suffixes: Vec<String>,
    pub test_words: Vec<String>,
    pub helper_folders: Vec<String>,
    pub unwatched: Vec<String>,
    pub expected_of_gold: Vec<String>,
    pub source_suffixes: Vec<String>,
    pub not_original: Vec<String>,
    pub not_tests: Vec<String>,
    pub names: TestNames,
    pub report: ReportRules,
    pub environment: Environment,
    pub pytest: Pytest,
    pub canaries: CanaryLimits,
    pub limits: Limits,
    pub evidence: BTreeMap<String, EvidenceEffect>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Environment {
    pub unset: Vec<String>,
    pub set: BTreeMap<String, String>,
    pub default: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pytest {
    pub arguments: Vec<String>,
    pub plugin_arguments: BTreeMap<String, Vec<String>>,
}

/// The rules for tests whose results are in a report: how tests are recognized if their ids do not
/// name files, which programs can report through the results pipe, and how canaries are created.
/// `test_files` and `config_files` are file name patterns.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportRules {
    pub test_files: Vec<String>,
    pub test_folders: Vec<String>,
    pub config_files: Vec<String>,
    pub pipe_programs: Vec<String>,
    pub canaries: ReportCanaryRules,
}

/// Maximum number of canaries per run, for each group of tests that the canaries copy.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CanaryLimits {
    pub files: usize,
    pub enough: usize,
    pub fail_to_pass: usize,
    pub pass_to_pass: usize,
    /// How often a passed canary runs again. A test with random behavior may pass by chance.
    pub again: usize,
    pub seconds: f64,
    /// Names that the canary generator recognizes, by category.
    pub words: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    pub log_bytes: usize,
    pub file_bytes: u64,
    pub report_bytes: usize,
    pub entries: usize,
    pub probe_seconds: u64,
    pub evidence_per_kind: usize,
    pub evidence_characters: usize,
}

/// The patterns that recognize tests and their configuration by file name.
///
/// # Errors
///
/// The grader's own policy cannot be read, which means that the build is defective.
pub fn test_names() -> Result<&'static TestNames, Fault> {
    Policy::get().map(|policy| &policy.names)
}

impl Environment {
    /// Returns the environment variables of the interpreter, for both the probe and the test run.
    pub(crate) fn for_task(
        &self,
        task_variables: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let mut env = self.default.clone();
        env.extend(task_variables.clone());
        for name in &self.unset {
            env.remove(name);
        }
        env.extend(self.set.clone());
        env
    }
}

/// The effect of a kind of evidence on a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EvidenceEffect {
    pub integrity: Integrity,
    pub blocks: bool,
}

static POLICY: ShippedTable<Policy> = ShippedTable::new("tables/grading.toml", POLICY_TEXT);

impl Policy {
    pub(crate) fn get() -> Result<&'static Self, Fault> {
        POLICY.get().map_err(|error| Fault::new(FaultLayer::Grade, error))
    }

    /// Whether an id can belong to a test. Some benchmarks list other words as ids, because their
    /// log parsers mistake them for ids.
    pub(crate) fn is_test(&self, id: &str) -> bool {
        static NOT_TESTS: OnceLock<Option<RegexSet>> = OnceLock::new();
        let set = NOT_TESTS.get_or_init(|| RegexSet::new(&self.not_tests).ok());
        !set.as_ref().is_some_and(|set| set.is_match(id))
    }

    /// Returns the effect of a kind of evidence. A kind that the policy does not list is suspect
    /// and blocks the verdict.
    pub(crate) fn effect(&self, evidence: &Evidence) -> EvidenceEffect {
        self.evidence
            .get(&evidence.kind)
            .copied()
            .unwrap_or(EvidenceEffect { integrity: Integrity::Suspect, blocks: true })
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::EvidenceClass;

    use super::*;
    use crate::evidence::KINDS;

    #[test]
    fn is_test_rejects_words_from_a_log() {
        let policy = Policy::get().unwrap();
        assert!(RegexSet::new(&policy.not_tests).is_ok());
        for id in [
            "[100%]",
            "[ 50%]",
            "[",
            "50%]",
            "[3]",
            "",
            "PASSED",
            "======",
            "ok",
            "--version is equivalent to version",
        ] {
            assert!(!policy.is_test(id), "{id:?}");
        }
        for id in
            ["t.py::a[100%]", "test_ok", "test_a (m.C)", "Doc a.", "a.py", "t[[]", "t.py::x[ok]"]
        {
            assert!(policy.is_test(id), "{id:?}");
        }
    }

    #[test]
    fn policy_lists_exactly_the_known_evidence_kinds() {
        let policy = Policy::get().unwrap();
        let named: Vec<&str> = policy.evidence.keys().map(String::as_str).collect();
        assert_eq!(named, KINDS);
        for kind in KINDS {
            assert!(
                EvidenceClass::is_known_kind(kind),
                "configs/tables/evidence.toml does not name {kind}"
            );
            let is_unverified = policy.evidence[kind].integrity == Integrity::Unverified;
            let reason = EvidenceClass::unverified_reason(kind);
            assert_eq!(
                reason.is_some(),
                is_unverified,
                "configs/tables/evidence.toml [unverified]: {kind}"
            );
        }
        for kind in &policy.expected_of_gold {
            assert!(named.contains(&kind.as_str()), "{kind}");
        }
    }
}
