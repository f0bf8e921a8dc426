//! Derives a test's status from its phases.

use std::collections::BTreeMap;

use proctor_types::{Evidence, TestStatus};

use crate::{
    evidence::{self, new_evidence},
    records::{Record, Records, TestRecord},
};

/// Returns the status of every collected or reported test. A test without complete reports is
/// [`TestStatus::Missing`].
pub(crate) fn determine_statuses(
    records: &Records,
    evidence: &mut Vec<Evidence>,
) -> BTreeMap<String, TestStatus> {
    let mut phases: BTreeMap<&str, Vec<&TestRecord>> = BTreeMap::new();
    for record in &records.records {
        if let Record::Begin(begin) = record {
            for id in &begin.collected {
                phases.entry(id).or_default();
            }
        }
    }
    for test in records.test_records() {
        phases.entry(&test.id).or_default().push(test);
    }
    phases
        .into_iter()
        .map(|(id, phases)| (id.to_owned(), determine_phase_status(id, &phases, evidence)))
        .collect()
}

/// Outcomes that pytest-rerunfailures and pytest-retry report for a failed try if they then rerun
/// the test.
const RERUN_OUTCOMES: [&str; 2] = ["rerun", "retried"];

/// Derives a test's status from its phases.
pub(crate) fn determine_phase_status(
    id: &str,
    phases: &[&TestRecord],
    evidence: &mut Vec<Evidence>,
) -> TestStatus {
    // If a phase raised an exception but is reported as passed, the report is false.
    let falsified = |phase: &&&TestRecord| phase.outcome == "passed" && phase.raised == Some(true);
    for phase in phases.iter().filter(falsified) {
        evidence.push(new_evidence(
            evidence::REPORT_MISMATCH,
            format!("{id} {}: raised an exception, but was reported as passed", phase.when),
        ));
    }
    // The first failure is final, whatever is reported later.
    let failure = phases.iter().find(|phase| phase.outcome == "failed" || falsified(phase));
    if let Some(failure) = failure {
        let in_test = matches!(failure.when.as_str(), "call" | "subtest");
        return if in_test { TestStatus::Failed } else { TestStatus::Error };
    }
    if let Some(status) = rerun_status(phases) {
        return status;
    }
    for when in ["setup", "call", "teardown"] {
        let count = phases.iter().filter(|phase| phase.when == when).count();
        if count > 1 {
            evidence.push(new_evidence(
                evidence::DOUBLED_RECORD,
                format!("{id} {when}: {count} records"),
            ));
            return TestStatus::Missing;
        }
    }
    if let Some(phase) =
        phases.iter().find(|phase| phase.when != "subtest" && phase.raised.is_none())
    {
        let what = format!("{id} {}: was reported, but did not run", phase.when);
        evidence.push(new_evidence(evidence::REPORT_WITHOUT_RUN, what));
        return TestStatus::Missing;
    }
    try_status(phases)
}

/// Returns the last try's status for a test that a plugin ran several times; `None` if there was
/// only one try. The caller has already handled final failures.
fn rerun_status(phases: &[&TestRecord]) -> Option<TestStatus> {
    let repeated = phases.iter().any(|phase| RERUN_OUTCOMES.contains(&phase.outcome.as_str()));
    let setups = phases.iter().filter(|phase| phase.when == "setup").count();
    // The plugin `flaky` reports the setup and teardown of a failed try, but not its call.
    let runs = phases.iter().map(|phase| phase.runs).max().unwrap_or(0);
    if !(repeated || setups > 1 && setups <= runs) {
        return None;
    }
    let last = |when: &str| phases.iter().rev().find(|phase| phase.when == when).copied();
    let tries: Vec<&TestRecord> =
        ["setup", "call", "teardown"].into_iter().filter_map(last).collect();
    Some(match try_status(&tries) {
        TestStatus::Passed => TestStatus::Flaky,
        status => status,
    })
}

fn try_status(phases: &[&TestRecord]) -> TestStatus {
    let phase = |when: &str| phases.iter().find(|phase| phase.when == when);
    let skipped = |phase: &TestRecord| {
        if phase.xfail { TestStatus::Xfailed } else { TestStatus::Skipped }
    };
    match (phase("setup"), phase("call"), phase("teardown")) {
        (Some(setup), None, _) if setup.outcome == "skipped" => skipped(setup),
        (Some(setup), Some(call), Some(teardown))
            if setup.outcome == "passed" && teardown.outcome == "passed" =>
        {
            match call.outcome.as_str() {
                "skipped" => skipped(call),
                "passed" if call.xfail => TestStatus::Xpassed,
                "passed" => TestStatus::Passed,
                _ => TestStatus::Missing,
            }
        }
        _ => TestStatus::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(when: &str, outcome: &str, raised: Option<bool>) -> TestRecord {
        TestRecord {
            id: "t".into(),
            when: when.into(),
            outcome: outcome.into(),
            xfail: false,
            raised,
            runs: 1,
        }
    }

    fn status_and_evidence_kinds(phases: &[TestRecord]) -> (TestStatus, Vec<String>) {
        let mut evidence = Vec::new();
        let status = determine_phase_status("t", &phases.iter().collect::<Vec<_>>(), &mut evidence);
        (status, evidence.into_iter().map(|evidence| evidence.kind).collect())
    }

    fn passing_phases() -> Vec<TestRecord> {
        ["setup", "call", "teardown"].map(|when| phase(when, "passed", Some(false))).into()
    }

    #[test]
    fn pass_requires_all_three_phases_once() {
        assert_eq!(status_and_evidence_kinds(&passing_phases()), (TestStatus::Passed, vec![]));
        for missing in 0..3 {
            let mut phases = passing_phases();
            phases.remove(missing);
            assert_eq!(status_and_evidence_kinds(&phases).0, TestStatus::Missing);
        }
        let mut doubled = passing_phases();
        doubled.extend(passing_phases());
        assert_eq!(
            status_and_evidence_kinds(&doubled),
            (TestStatus::Missing, vec!["doubled_record".into()])
        );
    }

    #[test]
    fn first_failure_is_final() {
        let mut phases =
            vec![phase("setup", "passed", Some(false)), phase("call", "failed", Some(true))];
        phases.extend(passing_phases());
        assert_eq!(status_and_evidence_kinds(&phases).0, TestStatus::Failed);
        let mut late = passing_phases();
        late[2].outcome = "failed".into();
        assert_eq!(status_and_evidence_kinds(&late).0, TestStatus::Error);
    }

    #[test]
    fn exception_reported_as_a_pass_is_a_failure_with_evidence() {
        let mut phases = passing_phases();
        phases[1].raised = Some(true);
        assert_eq!(
            status_and_evidence_kinds(&phases),
            (TestStatus::Failed, vec!["report_mismatch".into()])
        );
        phases[1].raised = None;
        assert_eq!(
            status_and_evidence_kinds(&phases),
            (TestStatus::Missing, vec!["report_without_run".into()])
        );
    }

    #[test]
    fn determine_statuses_distinguishes_skips_and_expected_failures() {
        let mut phases = passing_phases();
        phases[1].xfail = true;
        assert_eq!(status_and_evidence_kinds(&phases).0, TestStatus::Xpassed);
        phases[1].outcome = "skipped".into();
        assert_eq!(status_and_evidence_kinds(&phases).0, TestStatus::Xfailed);
        let skip =
            [phase("setup", "skipped", Some(true)), phase("teardown", "passed", Some(false))];
        assert_eq!(status_and_evidence_kinds(&skip).0, TestStatus::Skipped);
    }

    #[test]
    fn pass_on_a_rerun_is_flaky_without_evidence() {
        let failed = |when, outcome| phase(when, outcome, Some(true));
        let again = |mut first: Vec<TestRecord>| {
            first.extend(passing_phases());
            first
        };
        let setup = || phase("setup", "passed", Some(false));
        let teardown = || phase("teardown", "passed", Some(false));
        // pytest-rerunfailures repeats the setup and the call.
        let call = again(vec![setup(), failed("call", "rerun"), teardown()]);
        let fixture = again(vec![failed("setup", "rerun"), teardown()]);
        // pytest-retry reports a call that the recorder did not observe.
        let unseen = phase("call", "passed", None);
        let retried = vec![setup(), failed("call", "retried"), unseen, teardown()];
        // The plugin `flaky` does not report the rerun, but the recorder observed two calls.
        let mut silent = again(vec![setup(), teardown()]);
        silent.iter_mut().for_each(|phase| phase.runs = 2);
        for phases in [call, fixture, retried, silent] {
            assert_eq!(
                status_and_evidence_kinds(&phases),
                (TestStatus::Flaky, vec![]),
                "{phases:?}"
            );
        }
        let mut worse = vec![setup(), failed("call", "rerun"), teardown(), setup()];
        worse.extend([failed("call", "failed"), teardown()]);
        assert_eq!(status_and_evidence_kinds(&worse), (TestStatus::Failed, vec![]));
        // The last try was interrupted.
        let cut = [setup(), failed("call", "rerun")];
        assert_eq!(status_and_evidence_kinds(&cut), (TestStatus::Missing, vec![]));
    }
}
