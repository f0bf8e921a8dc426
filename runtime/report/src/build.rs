//! Builds a report from trials.

use proctor_types::ArmId;
use serde::{Deserialize, Serialize};

use crate::{
    ArmReport, DifferingFactor, Finding, RankAgreement, TaskReport, TrialResult,
    agreement::rank_agreements,
};

pub const REPORT_SCHEMA: u32 = 1;

/// The output of `report --format json`. Within a schema version, fields are only added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema_version: u32,
    /// Arms in plan order.
    pub arms: Vec<ArmReport>,
    /// One entry per trial, in plan order.
    pub tasks: Vec<TaskReport>,
    /// How well sets of tasks agree on the ranking of the arms. Empty if there is only one set or a
    /// verdict is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rank_agreement: Vec<RankAgreement>,
    /// Sentences about the run that readers need in order to interpret the numbers. Shown below the
    /// tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Warnings, notes and remarks about the numbers, as the other formats print them below the
    /// tables. Only in the output of `report --format json`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The factors that differ between the arms under study. Only in the output of `report --format
    /// json`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differing_factors: Vec<DifferingFactor>,
}

impl Report {
    /// Does the same as [`build_report`], for callers that keep the trials. The results of ten
    /// thousand trials take too much memory for a copy.
    pub fn from_results(trials: &[TrialResult]) -> Self {
        let mut ids: Vec<&ArmId> = Vec::new();
        for trial in trials {
            if !ids.contains(&&trial.arm) {
                ids.push(&trial.arm);
            }
        }
        let arms = ids
            .into_iter()
            .map(|id| {
                let of_arm: Vec<_> = trials.iter().filter(|trial| trial.arm == *id).collect();
                ArmReport::from_trials(id, &of_arm)
            })
            .collect();
        Self {
            schema_version: REPORT_SCHEMA,
            arms,
            tasks: trials.iter().map(TaskReport::from_trial).collect(),
            rank_agreement: rank_agreements(trials),
            remarks: Vec::new(),
            findings: Vec::new(),
            differing_factors: Vec::new(),
        }
    }

    /// Whether every planned trial has a verdict.
    pub fn is_complete(&self) -> bool {
        self.arms.iter().all(|arm| arm.complete)
    }

    /// Returns the arms under study: all arms that are not controls, or all arms if there are only
    /// controls.
    pub fn arms_under_study(&self) -> Vec<&ArmReport> {
        let study: Vec<&ArmReport> = self.arms.iter().filter(|arm| !arm.control).collect();
        if study.is_empty() { self.arms.iter().collect() } else { study }
    }

    /// Returns the controls, if other arms are under study.
    pub fn controls(&self) -> Vec<&ArmReport> {
        let study = self.arms_under_study();
        let is_apart = |arm: &&ArmReport| study.iter().all(|other| other.arm != arm.arm);
        self.arms.iter().filter(is_apart).collect()
    }
}

/// Builds the report of all trials of a plan, including trials that have not ended. Arms are
/// identified by id. If an arm has several names, the report shows the first.
pub fn build_report(inputs: Vec<TrialResult>) -> Report {
    Report::from_results(&inputs)
}
