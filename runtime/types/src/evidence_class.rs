//! Classes of cheating, for evidence and attacks. Benchmark audits use the same classes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::ShippedTable;

/// One kind of cheating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceClass {
    /// The solution was found in the sandbox: in the Git history, the image, a cache or a mount.
    AnswerInEnvironment,
    /// The solution was downloaded over the network.
    AnswerUpstream,
    /// The scaffold's author put the solution into the scaffold.
    AnswerInScaffold,
    /// Tests, parser, results or a plugin were overwritten.
    GraderOverwrite,
    /// The running grader was modified or deceived, for example by a patched runner or by an object
    /// that equals everything.
    GraderInProcess,
    /// A program that the grader calls was replaced.
    ToolReplaced,
    /// A process outlived its time limit.
    LateWriter,
    /// Forged markers or results were printed.
    OutputForged,
    /// The solution works only for the values in the tests.
    SpecialCased,
    /// Time or resource limits were changed.
    LimitChanged,
    /// Text was addressed to a model that acts as a judge.
    JudgeInjected,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvidenceTable {
    classes: BTreeMap<EvidenceClass, BTreeSet<String>>,
    none: UnclassifiedKinds,
    unverified: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnclassifiedKinds {
    kinds: BTreeSet<String>,
}

static TABLE: ShippedTable<EvidenceTable> = ShippedTable::new(
    "tables/evidence.toml",
    include_str!("../../../configs/tables/evidence.toml"),
);

impl EvidenceClass {
    /// Every class, in declaration order.
    pub const ALL: [Self; 11] = [
        Self::AnswerInEnvironment,
        Self::AnswerUpstream,
        Self::AnswerInScaffold,
        Self::GraderOverwrite,
        Self::GraderInProcess,
        Self::ToolReplaced,
        Self::LateWriter,
        Self::OutputForged,
        Self::SpecialCased,
        Self::LimitChanged,
        Self::JudgeInjected,
    ];

    /// Returns the class of a kind of evidence, or `None` for a kind unrelated to cheating.
    pub fn for_kind(kind: &str) -> Option<Self> {
        let table = TABLE.get().ok()?;
        table.classes.iter().find(|(_, kinds)| kinds.contains(kind)).map(|(class, _)| *class)
    }

    /// Whether `configs/tables/evidence.toml` lists a kind. Every recorded kind must be listed.
    pub fn is_known_kind(kind: &str) -> bool {
        Self::for_kind(kind).is_some()
            || TABLE.get().is_ok_and(|table| table.none.kinds.contains(kind))
    }

    /// Returns why evidence of this kind makes a verdict unverified, or `None` if it does not.
    pub fn unverified_reason(kind: &str) -> Option<&'static str> {
        TABLE.get().ok()?.unverified.get(kind).map(String::as_str)
    }

    /// Returns the serialized name.
    pub fn name(self) -> &'static str {
        match self {
            Self::AnswerInEnvironment => "answer_in_environment",
            Self::AnswerUpstream => "answer_upstream",
            Self::AnswerInScaffold => "answer_in_scaffold",
            Self::GraderOverwrite => "grader_overwrite",
            Self::GraderInProcess => "grader_in_process",
            Self::ToolReplaced => "tool_replaced",
            Self::LateWriter => "late_writer",
            Self::OutputForged => "output_forged",
            Self::SpecialCased => "special_cased",
            Self::LimitChanged => "limit_changed",
            Self::JudgeInjected => "judge_injected",
        }
    }
}

impl std::fmt::Display for EvidenceClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_every_class_and_no_duplicate_kinds() {
        let table = TABLE.get().unwrap();
        assert_eq!(table.classes.keys().copied().collect::<Vec<_>>(), EvidenceClass::ALL);
        let mut seen = BTreeSet::new();
        for kind in table.classes.values().chain([&table.none.kinds]).flatten() {
            assert!(seen.insert(kind), "{kind} is listed twice");
        }
        for class in EvidenceClass::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
        assert_eq!(
            EvidenceClass::for_kind("upstream_fetched"),
            Some(EvidenceClass::AnswerUpstream)
        );
        assert_eq!(
            (EvidenceClass::for_kind("timed_out"), EvidenceClass::is_known_kind("timed_out")),
            (None, true)
        );
        assert!(!EvidenceClass::is_known_kind("dreamt"));
    }
}
