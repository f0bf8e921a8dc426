//! Extracts what a trial's two journals say about the trial's other files.

use std::{borrow::Cow, path::Path};

use proctor_types::{Envelope, Fault, TaskId, TrialId};
use serde::{Deserialize, Serialize};

use super::{
    corruption::{Corruption, Remedy},
    recorded::RecordedJson,
};
use crate::journal_reader::{JournalScan, LineNumbers, scan_lines};

/// Identifies a patch by its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchRef {
    /// The patch's BLAKE3 as hex digits.
    pub hash: String,
    pub bytes: u64,
}

/// The trial that a journal belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrialName {
    task: TaskId,
    arm: String,
    attempt: u32,
}

impl TrialName {
    pub(crate) fn matches(&self, id: &TrialId) -> bool {
        self.task == id.task && self.arm == id.arm.as_str() && self.attempt == id.attempt
    }
}

impl std::fmt::Display for TrialName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.task, self.arm.get(..12).unwrap_or(&self.arm), self.attempt)
    }
}

/// Facts from `trajectory.jsonl`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct JournalSummary {
    pub(crate) named: Option<TrialName>,
    pub(crate) patch: Option<PatchRef>,
    /// The outcome in the last event, if the trial has ended.
    pub(crate) outcome: Option<RecordedJson>,
    /// Size of the trial's pack, in bytes, when the trial ended. `None` if the last event does not
    /// contain it.
    #[serde(default)]
    pub(crate) packed: Option<u64>,
    /// The highest try number of any event, or 0 if there are no events.
    #[serde(default)]
    pub(crate) try_number: u32,
    /// Whether the last line is incomplete, for example because the process was killed.
    #[serde(skip)]
    pub(crate) torn: bool,
}

impl JournalSummary {
    /// Reads a whole journal and adds corrupt lines to `corruptions`. Always checks the lines'
    /// checksums and order. If `should_parse_fields` is set, also parses every field of each event,
    /// which takes most of the time.
    pub(crate) fn parse(
        path: &Path,
        bytes: &[u8],
        should_parse_fields: bool,
        corruptions: &mut Vec<Corruption>,
    ) -> Self {
        #[derive(Deserialize)]
        struct PatchCollectedLine {
            hash: String,
            bytes: u64,
        }
        #[derive(Deserialize)]
        struct TrialEndedLine {
            outcome: RecordedJson,
            #[serde(default)]
            packed: Option<u64>,
        }
        let (scan, taken) = scan_facts(path, bytes, |kind, line| {
            Ok(match kind {
                "trial_started" => LineFact::TrialName(serde_json::from_slice(line)?),
                "patch_collected" => {
                    let PatchCollectedLine { hash, bytes } = serde_json::from_slice(line)?;
                    LineFact::Patch(PatchRef { hash, bytes })
                }
                "trial_ended" => {
                    let TrialEndedLine { outcome, packed } = serde_json::from_slice(line)?;
                    LineFact::Outcome { outcome, packed }
                }
                _ => {
                    if should_parse_fields {
                        // An event that cannot be parsed also counts as corruption.
                        serde_json::from_slice::<Envelope>(line)?;
                    }
                    LineFact::Other
                }
            })
        });
        add_corruptions(&scan, path, &Remedy::RestoreFromCopy, corruptions);
        let mut facts = Self { try_number: scan.try_number, torn: scan.is_torn, ..Self::default() };
        for one in taken {
            (facts.outcome, facts.packed) = (None, None);
            match one {
                LineFact::TrialName(named) => facts.named = Some(named),
                LineFact::Patch(patch) => facts.patch = Some(patch),
                LineFact::Outcome { outcome, packed } => {
                    (facts.outcome, facts.packed) = (Some(outcome), packed);
                }
                _ => {}
            }
        }
        facts
    }
}

/// One line of `grade/journal.jsonl`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "GradedLine")]
pub(crate) struct GradingEntry {
    pub(crate) named: TrialName,
    pub(crate) patch: String,
    pub(crate) log: String,
    pub(crate) results: String,
    pub(crate) verdict: RecordedJson,
}

/// A line as written. The struct doesn't use `flatten`, because serde would then parse the verdict
/// twice.
#[derive(Deserialize)]
struct GradedLine {
    task: TaskId,
    arm: String,
    attempt: u32,
    patch: String,
    log: String,
    results: String,
    verdict: RecordedJson,
}

impl From<GradedLine> for GradingEntry {
    fn from(line: GradedLine) -> Self {
        let GradedLine { task, arm, attempt, patch, log, results, verdict } = line;
        Self { named: TrialName { task, arm, attempt }, patch, log, results, verdict }
    }
}

/// Why a trial's last grading failed.
#[derive(Debug, Clone, PartialEq)]
pub struct GradingFailure {
    pub fault: Fault,
    /// Name of the file in `grade/` with the output of the failed grading.
    pub log_file: Option<String>,
}

/// A `grading_failed` line. Like [`GradedLine`], without `flatten`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct FailedGradingEntry {
    task: TaskId,
    arm: String,
    attempt: u32,
    fault: Fault,
    #[serde(default)]
    log_file: Option<String>,
}

impl FailedGradingEntry {
    /// Returns the failure if the line belongs to this trial.
    pub(crate) fn into_failure_of(self, id: &TrialId) -> Option<GradingFailure> {
        let Self { task, arm, attempt, fault, log_file } = self;
        let named = TrialName { task, arm, attempt };
        named.matches(id).then_some(GradingFailure { fault, log_file })
    }
}

/// Facts from `grade/journal.jsonl`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GradingSummary {
    /// The grading in the last event, or `None` if that event withdraws the verdict or is a failed
    /// grading.
    pub(crate) last_grading: Option<GradingEntry>,
    /// The failed grading in the last event.
    pub(crate) last_failure: Option<FailedGradingEntry>,
    /// Whether the journal has no events.
    pub(crate) is_empty: bool,
    pub(crate) is_torn: bool,
}

impl GradingSummary {
    pub(crate) fn parse(path: &Path, bytes: &[u8], corruptions: &mut Vec<Corruption>) -> Self {
        let (scan, taken) = scan_facts(path, bytes, |kind, line| {
            Ok(match kind {
                "trial_graded" => LineFact::GradingEntry(serde_json::from_slice(line)?),
                "verdict_withdrawn" => LineFact::VerdictWithdrawn,
                "grading_failed" => LineFact::FailedGrading(serde_json::from_slice(line)?),
                _ => LineFact::Other,
            })
        });
        add_corruptions(&scan, path, &Remedy::Regrade, corruptions);
        let is_empty = taken.is_empty();
        let last = taken.into_iter().last().filter(|_| scan.first_lost_line().is_none());
        let (last_grading, last_failure) = match last {
            Some(LineFact::GradingEntry(graded)) => (Some(*graded), None),
            Some(LineFact::FailedGrading(failed)) => (None, Some(*failed)),
            _ => (None, None),
        };
        Self { last_grading, last_failure, is_empty, is_torn: scan.is_torn }
    }
}

/// What a line says about the trial's other files.
#[derive(Debug, Clone, PartialEq)]
enum LineFact {
    TrialName(TrialName),
    Patch(PatchRef),
    /// The outcome's text as written, because fields that were added by a later version of Proctor
    /// must be kept.
    Outcome {
        outcome: RecordedJson,
        packed: Option<u64>,
    },
    GradingEntry(Box<GradingEntry>),
    VerdictWithdrawn,
    FailedGrading(Box<FailedGradingEntry>),
    Other,
}

/// The fields that lines of every kind have.
#[derive(Deserialize)]
struct LineHead<'a> {
    seq: u64,
    #[serde(rename = "try", default)]
    try_number: u32,
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

/// Checks every line, and passes each line's kind and content to `parse_fact`, in order.
fn scan_facts(
    path: &Path,
    bytes: &[u8],
    parse_fact: impl Fn(&str, &[u8]) -> Result<LineFact, serde_json::Error>,
) -> (JournalScan, Vec<LineFact>) {
    let mut taken = Vec::new();
    let scan = scan_lines(
        path,
        bytes,
        |line| {
            let head: LineHead<'_> = serde_json::from_slice(line)?;
            Ok((
                LineNumbers { seq: head.seq, try_number: head.try_number },
                parse_fact(&head.kind, line)?,
            ))
        },
        |one| {
            // Keep only the last of several unimportant lines, because in a long journal only a few
            // lines matter.
            if matches!(taken.last(), Some(LineFact::Other)) {
                taken.pop();
            }
            taken.push(one);
        },
    );
    (scan, taken)
}

/// Adds a journal's bad lines to `corruptions`. `lost_line_remedy` is the remedy for a line whose
/// event is lost.
fn add_corruptions(
    scan: &JournalScan,
    path: &Path,
    lost_line_remedy: &Remedy,
    corruptions: &mut Vec<Corruption>,
) {
    corruptions.extend(scan.bad_lines.iter().map(|bad| Corruption {
        path: path.to_owned(),
        line: Some(bad.line),
        reason: bad.reason.clone(),
        remedy: if bad.is_repeated { Remedy::LostEvidence } else { lost_line_remedy.clone() },
    }));
}
