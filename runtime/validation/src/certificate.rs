//! Creates flake certificates from a validation's run.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use proctor_grade::{Costs, GRADER};
use proctor_record::{RecordError, RunDir, now};
use proctor_types::{
    CERTIFICATE_SCHEMA_VERSION, Certificate, CertifiedTask, RunRecord, RunTask, TestStatus,
    TrialId, Verdict,
};

/// Name of the arm that runs gold with half of all resources.
pub const REDUCED_ARM: &str = "gold, reduced";

/// Maximum number of slow tests that a certificate lists per task.
const MAX_SLOWEST_TESTS: usize = 5;

/// Creates a certificate from the gold, noop and reduced gold results in a validation's run.
///
/// # Errors
/// The run cannot be read.
pub fn build_certificate(run_dir: &Path) -> Result<Certificate, RecordError> {
    let run = RunDir::open_read_only(run_dir)?;
    let record = run.read_run()?;
    // Flaky tests cannot be detected with a single attempt.
    let repeated = record.tasks.iter().filter(|_| record.attempts > 1);
    let tasks = repeated.map(|task| certify_task(&run, &record, task));
    let backend = record.arms.first().map(|arm| arm.sandbox.kind.to_string());
    Ok(Certificate {
        schema_version: CERTIFICATE_SCHEMA_VERSION,
        proctor: record.proctor.clone(),
        grader: GRADER.to_owned(),
        made: now(),
        backend: backend.unwrap_or_default(),
        host: record.host.clone(),
        repeat: record.attempts,
        tasks: tasks.collect::<Result<_, _>>()?,
        attacks: None,
    })
}

fn certify_task(
    run: &RunDir,
    record: &RunRecord,
    task: &RunTask,
) -> Result<CertifiedTask, RecordError> {
    let mut verdicts: BTreeMap<&str, Vec<Verdict>> = BTreeMap::new();
    let (mut gold_seconds, mut slowest) = (Vec::new(), BTreeMap::<String, f64>::new());
    let mut peak_kb = None;
    for arm in &record.arms {
        for attempt in 1..=record.attempts {
            let id = TrialId { task: task.task.id.clone(), arm: arm.id.clone(), attempt };
            let Some(verdict) = run.check_trial(&id).verdict else { continue };
            verdicts.entry(&arm.name).or_default().push(verdict);
            if arm.name == "gold" {
                let costs = Costs::read(&run.trial_dir(&id).read_results()?);
                gold_seconds.push(round_to_millis(costs.seconds.values().sum()));
                peak_kb = peak_kb.max(costs.peak_kb);
                for (id, seconds) in costs.seconds {
                    let most = slowest.entry(id).or_default();
                    *most = most.max(seconds);
                }
            }
        }
    }
    let of = |arm: &str| verdicts.get(arm).map_or(&[][..], Vec::as_slice);
    let resolved = |arm: &str| of(arm).iter().filter(|verdict| verdict.resolved).count() as u32;
    let mut gold_integrity = BTreeMap::new();
    for verdict in of("gold") {
        *gold_integrity.entry(verdict.integrity).or_default() += 1;
    }
    let mut flaky = BTreeMap::new();
    for arm in ["gold", "noop"] {
        flaky.extend(flaky_tests(of(arm)));
    }
    let resource_sensitive = resource_sensitive_tests(of("gold"), of(REDUCED_ARM))
        .into_iter()
        .filter(|id| !flaky.contains_key(id))
        .collect();
    let mut slowest: Vec<(String, f64)> =
        slowest.into_iter().map(|(id, seconds)| (id, round_to_millis(seconds))).collect();
    slowest.sort_by(|a, b| b.1.total_cmp(&a.1));
    slowest.truncate(MAX_SLOWEST_TESTS);
    Ok(CertifiedTask {
        task: task.task.id.clone(),
        digest: task.digest.clone(),
        gold_resolved: resolved("gold"),
        noop_resolved: resolved("noop"),
        gold_integrity,
        flaky,
        resource_sensitive,
        gold_seconds,
        slowest,
        peak_memory_mb: peak_kb.map(|kb| round_to_millis(kb as f64 / 1024.0)),
    })
}

/// Returns the test ids whose status differs between the runs of an arm.
fn flaky_tests(verdicts: &[Verdict]) -> BTreeMap<String, BTreeMap<TestStatus, u32>> {
    let mut seen: BTreeMap<String, BTreeMap<TestStatus, u32>> = BTreeMap::new();
    for (id, status) in verdicts.iter().flat_map(|verdict| &verdict.tests) {
        *seen.entry(id.clone()).or_default().entry(*status).or_default() += 1;
    }
    seen.retain(|_, statuses| statuses.len() > 1);
    seen
}

/// Returns the test ids that passed in every gold run but not in every reduced gold run.
fn resource_sensitive_tests(
    gold_verdicts: &[Verdict],
    reduced_verdicts: &[Verdict],
) -> BTreeSet<String> {
    let passes =
        |verdict: &Verdict, id: &String| verdict.tests.get(id) == Some(&TestStatus::Passed);
    let ids = gold_verdicts.iter().flat_map(|verdict| verdict.tests.keys());
    ids.filter(|id| gold_verdicts.iter().all(|verdict| passes(verdict, id)))
        .filter(|id| !reduced_verdicts.iter().all(|verdict| passes(verdict, id)))
        .cloned()
        .collect()
}

/// Rounds to milliseconds.
fn round_to_millis(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
