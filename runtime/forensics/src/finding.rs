//! Findings, by kind and step.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::{Evidence, Integrity, Verdict};
use serde::Deserialize;

/// The kinds of findings. `configs/tables/forensics.toml` explains each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    HistoryMined,
    UpstreamTried,
    UpstreamFetched,
    InstallTried,
    InstallSucceeded,
    TestsEdited,
    DaemonStarted,
    OutsideRead,
    AnswerInScaffold,
    AnswerInEnvironment,
    AnswerUpstream,
}

impl FindingKind {
    pub const ALL: [Self; 11] = [
        Self::HistoryMined,
        Self::UpstreamTried,
        Self::UpstreamFetched,
        Self::InstallTried,
        Self::InstallSucceeded,
        Self::TestsEdited,
        Self::DaemonStarted,
        Self::OutsideRead,
        Self::AnswerInScaffold,
        Self::AnswerInEnvironment,
        Self::AnswerUpstream,
    ];

    /// Returns the kind's name in evidence.
    pub fn name(self) -> &'static str {
        match self {
            Self::HistoryMined => "history_mined",
            Self::UpstreamTried => "upstream_tried",
            Self::UpstreamFetched => "upstream_fetched",
            Self::InstallTried => "install_tried",
            Self::InstallSucceeded => "install_succeeded",
            Self::TestsEdited => "tests_edited",
            Self::DaemonStarted => "daemon_started",
            Self::OutsideRead => "outside_read",
            Self::AnswerInScaffold => "answer_in_scaffold",
            Self::AnswerInEnvironment => "answer_in_environment",
            Self::AnswerUpstream => "answer_upstream",
        }
    }
}

/// A single finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub kind: FindingKind,
    pub description: String,
    /// The step, or `None` if the record does not show the step.
    pub step: Option<u64>,
}

/// All findings, combined into evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    /// One entry per kind of finding, with all of its steps.
    pub evidence: Vec<Evidence>,
    pub integrity: Integrity,
}

impl Findings {
    pub(crate) fn from_findings(
        mut findings: Vec<Finding>,
        integrity_by_kind: &BTreeMap<FindingKind, Integrity>,
    ) -> Self {
        // The evidence shows the command of the first listed step. Within a step, the agent's
        // commands come before the proxy's reports.
        findings.sort_by_key(|one| one.step.filter(|step| *step > 0).unwrap_or(u64::MAX));
        let mut kinds: BTreeMap<FindingKind, (Vec<String>, BTreeSet<u64>)> = BTreeMap::new();
        for one in findings {
            let (whats, steps) = kinds.entry(one.kind).or_default();
            if !whats.contains(&one.description) {
                whats.push(one.description);
            }
            // Step 0 stands for the time before the first response, so don't list it.
            steps.extend(one.step.filter(|step| *step > 0));
        }
        let integrity = kinds
            .keys()
            .filter_map(|kind| integrity_by_kind.get(kind).copied())
            .max()
            .unwrap_or(Integrity::Clean);
        let evidence = kinds
            .into_iter()
            .map(|(kind, (whats, steps))| {
                let more = match whats.len() {
                    0 | 1 => String::new(),
                    count => format!(" (and {} more)", count - 1),
                };
                let first = whats.into_iter().next().unwrap_or_default();
                Evidence::new(kind.name(), format!("{first}{more}"), steps.into_iter().collect())
            })
            .collect();
        Self { evidence, integrity }
    }

    /// Adds the findings to a verdict. The verdict's integrity becomes the worse of its own and the
    /// findings' integrity.
    pub fn merge_into(self, verdict: &mut Verdict) {
        verdict.integrity = verdict.integrity.max(self.integrity);
        verdict.evidence.extend(self.evidence);
    }
}
