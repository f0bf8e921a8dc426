//! Single-response trials: the files that were shown, the edits that were applied, and the score of
//! a probe (docs/single-shot.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    ArmReport, Report, TrialResult, build::round_to_four_decimals, table::format_table,
    text::percent,
};

/// Marks a prompt that does not fit the window in tables.
pub(crate) const BEYOND_WINDOW_MARK: &str = "x";

/// One trial, read from its `single-shot.json`. Fields that a report does not use are ignored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SingleShot {
    pub prompt_tokens: u64,
    /// Whether the prompt exceeded the model's window.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub beyond_window: bool,
    pub context: ShownFiles,
    pub answer: Option<SingleShotResponse>,
}

/// The files in the prompt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShownFiles {
    pub files: Vec<String>,
    pub quality: Option<RetrievalQuality>,
}

/// Precision and recall of the Python files that were shown, compared with those of the gold patch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RetrievalQuality {
    pub precision: f64,
    pub recall: f64,
    pub recall_all: bool,
}

/// How the response was applied.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SingleShotResponse {
    pub finish_reason: Option<String>,
    pub edits: Vec<EditStatus>,
    /// Whether some of the response was applied. `whole` is set if all of it was.
    pub applied: bool,
    pub whole: bool,
    pub probe: Option<ProbeScore>,
}

/// One edit of a natural response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EditStatus {
    pub file: String,
    pub status: String,
}

/// What a model named correctly without having seen it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeScore {
    pub gold: u64,
    pub names: u64,
    pub signatures: u64,
}

/// The single-response numbers of one arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SingleShotReport {
    /// Trials that got a response.
    pub answers: u64,
    /// Trials whose prompt did not fit the model's window. Tables mark them `x`.
    #[serde(default)]
    pub beyond_window: u64,
    /// Responses of which every edit was applied, and their share of the planned trials.
    pub whole: u64,
    pub whole_rate: f64,
    /// Means over the trials whose gold patch has Python files. Null if no files were shown.
    pub precision: Option<f64>,
    pub recall: Option<f64>,
    /// The share of these trials in which every file of the gold patch was shown.
    pub recall_all: Option<f64>,
    /// Number of natural edits by result.
    pub edits: BTreeMap<String, u64>,
    /// Sums over the trials of a probe. Null if there are none.
    pub probe: Option<ProbeScore>,
}

impl SingleShotReport {
    /// Returns `None` if there are no single-response trials.
    pub(crate) fn from_trials(trials: &[&TrialResult]) -> Option<Self> {
        let all: Vec<&SingleShot> =
            trials.iter().filter_map(|trial| trial.single.as_ref()).collect();
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

/// Formats FEA-Bench's tables: %Apply and %Resolved, and the files that were shown. Empty if there
/// are no single-response arms.
pub(crate) fn format_tables(report: &Report) -> String {
    let arms: Vec<(&ArmReport, &SingleShotReport)> =
        report.arms.iter().filter_map(|arm| Some((arm, arm.single_shot.as_ref()?))).collect();
    if arms.is_empty() {
        return String::new();
    }
    let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
    let headers =
        ["single-shot", "%Apply", "whole", "%Resolved", "precision", "recall", "recall\nall"];
    let rows = arms.iter().map(|(arm, single)| {
        // The paper's Table 2 marks a cell with this sign if no prompt fits.
        let fits = single.beyond_window < arm.trials;
        let rate = |rate: f64| if fits { percent(rate) } else { BEYOND_WINDOW_MARK.to_owned() };
        vec![
            arm.name.clone(),
            rate(arm.applied_rate),
            rate(single.whole_rate),
            rate(arm.resolved_rate),
            share(single.precision),
            share(single.recall),
            share(single.recall_all),
        ]
    });
    let mut out = format!("\n{}", format_table(&headers, rows, |column| column > 0));
    let probes: Vec<_> =
        arms.iter().filter_map(|(arm, single)| Some((arm, single.probe?))).collect();
    if !probes.is_empty() {
        let headers = [
            "given only the request",
            "definitions\nin the gold",
            "named in\nthe file",
            "signature",
        ];
        let rows = probes.iter().map(|(arm, probe)| {
            vec![
                arm.name.clone(),
                probe.gold.to_string(),
                probe.names.to_string(),
                probe.signatures.to_string(),
            ]
        });
        out.push('\n');
        out.push_str(&format_table(&headers, rows, |column| column > 0));
    }
    out
}
