//! Writes a submission directory for SWE-bench's experiments repository: each trial's files,
//! `metadata.yaml` and `README.md`.
//!
//! The repository's checker recomputes the verdict from `patch.diff` and `test_output.txt`, and
//! deletes unknown files.

use proctor_types::{Arm, PATCH_REJECTED_KIND, Verdict};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::Trial;

const README_TEMPLATE: &str = include_str!("../../../configs/submission.md");
/// The heading after the official procedure's log, if grading ran the whole test suite.
const WHOLE_SUITE_HEADING: &[u8] = b"\n===== the whole suite =====\n";

/// The submission for one arm and attempt.
#[derive(Debug, Clone, Copy)]
pub struct Submission<'a> {
    pub arm: &'a Arm,
    pub attempt: u32,
    /// Number of attempts per task in the run.
    pub attempts: u32,
    pub trial_count: usize,
    pub resolved_count: usize,
    /// The version of Proctor that ran the trials.
    pub proctor_version: &'a str,
}

/// Formats a time (in seconds since the Unix epoch) as `YYYYMMDD`, for use in directory names.
pub fn format_compact_date(seconds: u64) -> String {
    let at =
        i64::try_from(seconds).ok().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok());
    let date = at.unwrap_or(OffsetDateTime::UNIX_EPOCH).date();
    format!("{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day())
}

/// Returns a trial's `report.json`, in the format of the benchmark's harness. Returns `None` if the
/// trial has no verdict.
pub fn harness_report(trial: &Trial<'_>) -> Option<Value> {
    let verdict = trial.verdict?;
    let rejected = verdict.evidence.iter().any(|one| one.kind == PATCH_REJECTED_KIND);
    let none = json!({ "success": [], "failure": [] });
    let report = json!({
        "patch_is_None": false,
        "patch_exists": !trial.patch.is_empty(),
        "patch_successfully_applied": !trial.patch.is_empty() && !rejected,
        "resolved": is_resolved(verdict),
        "tests_status": {
            "FAIL_TO_PASS": { "success": verdict.fail_to_pass.passed, "failure": verdict.fail_to_pass.failed },
            "PASS_TO_PASS": { "success": verdict.pass_to_pass.passed, "failure": verdict.pass_to_pass.failed },
            "FAIL_TO_FAIL": none,
            "PASS_TO_FAIL": none,
        },
    });
    Some(json!({ trial.task.id.as_str(): report }))
}

/// Returns whether the task counts as resolved. If the trial was graded by the benchmark's own
/// rules, their verdict decides, because submissions are scored by these rules.
pub fn is_resolved(verdict: &Verdict) -> bool {
    verdict.policies.get("official").map_or(verdict.resolved, |official| official.resolved)
}

/// Returns the part of a grading log that the benchmark's own procedure printed, including the
/// procedure's markers. Returns `None` if the procedure was not run.
pub fn test_output<'a>(log: &'a [u8], verdict: &Verdict) -> Option<&'a [u8]> {
    let official = verdict.policies.get("official")?;
    let (name, version) = (official.name.as_deref()?, official.version.as_deref()?);
    let heading = format!("\n===== official: {name} {version} =====\n");
    let from = find_bytes(log, heading.as_bytes())? + heading.len();
    let log = &log[from..];
    // Search from the end, because tests may also print the next heading. The grader printed the
    // last occurrence.
    let to = match verdict.policies.contains_key("wide") {
        true => log
            .windows(WHOLE_SUITE_HEADING.len())
            .rposition(|at| at == WHOLE_SUITE_HEADING)
            .unwrap_or(log.len()),
        false => log.len(),
    };
    Some(&log[..to])
}

fn find_bytes(log: &[u8], text: &[u8]) -> Option<usize> {
    log.windows(text.len()).position(|at| at == text)
}

impl Submission<'_> {
    /// Renders `metadata.yaml`. Fields whose values only the submitter knows are left empty.
    pub fn metadata(&self) -> String {
        let model = self.arm.model.as_ref().map_or("", |model| model.name.as_str());
        // Every JSON string is also valid YAML.
        let text = |text: &str| Value::from(text).to_string();
        let model = text(model);
        format!(
            "info:\n  name: {}\n  site: \"\"\n  report: \"\"\n  logo: []\n  authors: \"\"\n\
             tags:\n  checked: false\n  model: [{model}]\n  model_display: {model}\n  model_org: \"\"\n  \
             agent: {}\n  agent_org: \"\"\n  org: []\n  os_model: false\n  os_system: false\n  \
             system:\n    attempts: \"1\"\n",
            text(&self.arm.name),
            text(&self.arm.scaffold),
        )
    }

    /// Renders `README.md`, with the questions that the submitter has to answer.
    pub fn readme(&self) -> String {
        let arm = self.arm;
        let model = arm.model.as_ref().map_or("none", |model| model.name.as_str());
        let budget = serde_json::to_value(&arm.budget).unwrap_or_default();
        let limits =
            budget.as_object().into_iter().flatten().filter(|(_, limit)| limit.is_number());
        let limits: Vec<_> = limits.map(|(name, limit)| format!("{name} {limit}")).collect();
        let limits = if limits.is_empty() { "none".to_owned() } else { limits.join(", ") };
        let network = serde_json::to_value(&arm.network).unwrap_or_default();
        let values = [
            ("{name}", arm.name.clone()),
            ("{scaffold}", arm.scaffold.clone()),
            ("{model}", model.to_owned()),
            ("{attempt}", self.attempt.to_string()),
            ("{attempts}", self.attempts.to_string()),
            ("{trials}", self.trial_count.to_string()),
            ("{resolved}", self.resolved_count.to_string()),
            ("{limits}", limits),
            ("{network}", network["mode"].as_str().unwrap_or_default().to_owned()),
            ("{proctor}", self.proctor_version.to_owned()),
        ];
        values
            .iter()
            .fold(README_TEMPLATE.to_owned(), |page, (mark, value)| page.replace(mark, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(policies: Value) -> Verdict {
        let group = json!({ "passed": [], "failed": [] });
        let verdict = json!({
            "schema_version": 1, "task": "t", "resolved": false, "passed_rate": 0.0, "fail_to_pass": group,
            "pass_to_pass": group, "tests": {}, "policies": policies, "integrity": "clean", "evidence": [],
        });
        serde_json::from_value(verdict).unwrap()
    }

    #[test]
    fn test_output_contains_only_the_official_procedure() {
        let official =
            json!({ "name": "swe-bench", "version": "5.0.2", "resolved": true, "why": "" });
        let strict = json!({ "resolved": false, "why": "" });
        let log = b"strict's\n===== official: swe-bench 5.0.2 =====\n>>>>> Start\nok\n===== the whole suite =====\nmore";
        let both = verdict(json!({ "official": official, "strict": strict, "wide": strict }));
        assert_eq!(test_output(log, &both).unwrap(), b">>>>> Start\nok");
        let plain = verdict(json!({ "official": official, "strict": strict }));
        assert!(test_output(log, &plain).unwrap().ends_with(b"more"));
        assert!(is_resolved(&plain));
        let other = verdict(json!({ "strict": strict }));
        assert!(test_output(log, &other).is_none() && !is_resolved(&other));
    }

    #[test]
    fn compact_date_has_eight_digits() {
        assert_eq!(format_compact_date(1_764_000_000), "20251124");
    }
}
