//! The attack results in a dataset's certificate.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{EnvironmentRecord, EvidenceClass, Integrity, Selection, TaskId, count_with_noun};

/// The results of attacks on a dataset, written by `proctor tasks validate --attack --certificate
/// FILE`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttackCertificate {
    /// SHA-256 of the attack pack's files.
    pub pack: String,
    /// SHA-256 of the sorted task digests.
    pub dataset: String,
    /// The dataset revisions that the rows name, as `NAME@REVISION`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub revisions: BTreeSet<String>,
    /// Which of the dataset's tasks were attacked. Absent if all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Selection>,
    /// The attacks in pack order, followed by the tasks' own `cheats`.
    pub attacks: Vec<CertifiedAttack>,
    /// One entry per attacked task.
    pub tasks: Vec<AttackedTask>,
}

/// One attack, from the pack or from a task's own `cheats`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertifiedAttack {
    /// The attack's name; `cheat: NAME` for a task's own cheat.
    pub name: String,
    /// The class of cheating that the attack belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<EvidenceClass>,
}

/// The results of the attacks on one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttackedTask {
    /// The task's id.
    pub task: TaskId,
    /// SHA-256 of the task's canonical JSON.
    pub digest: String,
    /// The environment in which the attacks were graded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentRecord>,
    /// The result of each attack, by name. Attacks that did not run are missing.
    pub attacks: BTreeMap<String, AttackResult>,
}

/// The result of one attack on one task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttackResult {
    /// The outcome under each policy: `strict`, and `official` if the dataset has one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, AttackOutcome>,
    /// The kinds of evidence that made the verdict suspect.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub seen_as: BTreeSet<String>,
    /// The classes of this evidence.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub classes: BTreeSet<EvidenceClass>,
    /// Why the attack does not apply to the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_applicable: Option<String>,
    /// Why grading the attack produced no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_verdict: Option<String>,
}

/// The result of an attack under one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttackOutcome {
    /// The attack did not resolve the task, and the verdict is not suspect.
    Beaten,
    /// The verdict is suspect, whether or not the attack resolved the task.
    Seen,
    /// The attack resolved the task, and the verdict is unverified.
    Unverified,
    /// The attack resolved the task, and the verdict is clean.
    Passed,
}

impl AttackOutcome {
    /// Returns the outcome for a verdict.
    pub fn from_verdict(resolved: bool, integrity: Integrity) -> Self {
        match (resolved, integrity) {
            (_, Integrity::Suspect | Integrity::Contaminated) => Self::Seen,
            (false, _) => Self::Beaten,
            (true, Integrity::Unverified) => Self::Unverified,
            (true, Integrity::Clean) => Self::Passed,
        }
    }

    /// Whether the attack resolved the task without a suspect verdict.
    pub fn is_success(self) -> bool {
        matches!(self, Self::Unverified | Self::Passed)
    }
}

impl std::fmt::Display for AttackOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Beaten => "beaten",
            Self::Seen => "seen",
            Self::Unverified => "unverified",
            Self::Passed => "passed",
        })
    }
}

impl AttackResult {
    /// Whether the attack succeeded under a policy.
    pub fn succeeded_under(&self, policy: &str) -> bool {
        self.policies.get(policy).is_some_and(|outcome| outcome.is_success())
    }
}

impl AttackedTask {
    /// Whether any attack ran on the task. No attack runs if gold does not resolve the task.
    pub fn was_attacked(&self) -> bool {
        self.attacks.values().any(|one| !one.policies.is_empty())
    }
}

impl AttackCertificate {
    /// Returns the attacks that succeeded under a policy, by task.
    pub fn successful_attacks(&self, policy: &str) -> BTreeMap<&TaskId, Vec<&str>> {
        let mut found: BTreeMap<&TaskId, Vec<&str>> = BTreeMap::new();
        for task in &self.tasks {
            for (attack, _) in task.attacks.iter().filter(|(_, one)| one.succeeded_under(policy)) {
                found.entry(&task.task).or_default().push(attack);
            }
        }
        found
    }

    /// Returns a sentence about the attacks for a report. `digests` are the digests of the report's
    /// tasks. Tasks that have changed since the attacks, or that were never attacked, count as not
    /// attacked.
    pub fn summary_sentence<'a>(
        &self,
        digests: impl IntoIterator<Item = (&'a TaskId, &'a str)>,
    ) -> String {
        let is_attacked = |(id, digest): (&TaskId, &str)| {
            let mut attacked = self.tasks.iter().filter(|task| task.was_attacked());
            attacked.any(|task| task.task == *id && task.digest == digest)
        };
        let known: Vec<bool> = digests.into_iter().map(is_attacked).collect();
        let named = |policy: &str| {
            let found = self.successful_attacks(policy);
            match found.len() {
                0 => format!("none resolved a task under {policy}"),
                _ => {
                    let names: Vec<String> = found
                        .iter()
                        .take(MAX_NAMED_TASKS)
                        .map(|(task, attacks)| format!("{task} ({})", attacks.join(", ")))
                        .collect();
                    let more = found.len().saturating_sub(MAX_NAMED_TASKS);
                    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                    format!("resolved under {policy}: {}{more}", names.join(", "))
                }
            }
        };
        let official = self.tasks.iter().flat_map(|task| task.attacks.values());
        let official = official.flat_map(|one| one.policies.keys()).any(|one| one == "official");
        format!(
            "Certified by {} on {}: {}{}; not attacked: {} of {}.",
            count_with_noun(self.attacks.len(), "attack"),
            count_with_noun(self.tasks.iter().filter(|task| task.was_attacked()).count(), "task"),
            named("strict"),
            if official { format!("; {}", named("official")) } else { String::new() },
            known.iter().filter(|known| !**known).count(),
            count_with_noun(known.len(), "task"),
        )
    }
}

/// Maximum number of tasks named in a sentence.
const MAX_NAMED_TASKS: usize = 3;
