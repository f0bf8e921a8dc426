//! Results of one single-response arm.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::record::{ProbeScore, RetrievalQuality, SingleShot, SingleShotResponse};
use crate::{TrialResult, rounding::round_to_four_decimals};

/// The results of one single-response arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SingleShotReport {
    /// Trials that received a response.
    pub answers: u64,
    /// Trials whose prompt did not fit the model's context window. Tables mark these trials with
    /// `x`.
    #[serde(default)]
    pub beyond_window: u64,
    /// Responses whose edits were all applied. `whole_rate` is this number divided by the planned
    /// trials.
    pub whole: u64,
    pub whole_rate: f64,
    /// Mean precision and recall of the shown files, over the trials whose gold patch changes
    /// Python files. Null if no files were shown.
    pub precision: Option<f64>,
    pub recall: Option<f64>,
    /// The fraction of trials in which every file of the gold patch was shown. Covers the same
    /// trials as `precision`.
    pub recall_all: Option<f64>,
    /// Number of edits in natural responses, by result.
    pub edits: BTreeMap<String, u64>,
    /// The sum of the scores of all trials that ran a probe. Null if there are none.
    pub probe: Option<ProbeScore>,
}

impl SingleShotReport {
    /// Returns `None` if there are no single-response trials.
    pub(crate) fn from_trials(trials: &[&TrialResult]) -> Option<Self> {
        let all: Vec<&SingleShot> =
            trials.iter().filter_map(|trial| trial.single_shot.as_ref()).collect();
        if all.is_empty() {
            return None;
        }
        let answers: Vec<&SingleShotResponse> =
            all.iter().filter_map(|one| one.answer.as_ref()).collect();
        let whole = answers.iter().filter(|answer| answer.whole).count() as u64;
        let quality: Vec<RetrievalQuality> =
            all.iter().filter_map(|one| one.context.quality).collect();
        let mean = |of: fn(&RetrievalQuality) -> f64| {
            let sum: f64 = quality.iter().map(of).sum();
            (!quality.is_empty()).then(|| round_to_four_decimals(sum / quality.len() as f64))
        };
        let mut edits = BTreeMap::new();
        for edit in answers.iter().flat_map(|answer| &answer.edits) {
            *edits.entry(edit.status.clone()).or_default() += 1;
        }
        let probes = answers.iter().filter_map(|answer| answer.probe);
        Some(Self {
            answers: answers.len() as u64,
            beyond_window: all.iter().filter(|one| one.beyond_window).count() as u64,
            whole,
            whole_rate: round_to_four_decimals(whole as f64 / trials.len().max(1) as f64),
            precision: mean(|quality| quality.precision),
            recall: mean(|quality| quality.recall),
            recall_all: mean(|quality| f64::from(u8::from(quality.recall_all))),
            edits,
            probe: probes.reduce(|a, b| ProbeScore {
                gold: a.gold + b.gold,
                names: a.names + b.names,
                signatures: a.signatures + b.signatures,
            }),
        })
    }
}
