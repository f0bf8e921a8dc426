//! Evaluates the results of canaries.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::{Evidence, Task, TestStatus};

use super::{Canaries, Canary, generation::MistakeKind};
use crate::{
    TestRun,
    evidence::{self, new_evidence},
    paths::file_from_test_id,
    records::{CanaryRecord, Record, Records, TestRecord},
    statuses,
};

/// Prefix of the recorder's message when installing a canary fails for an unknown reason.
const INSTALL_FAILURE_PREFIX: &str = "failed: ";

/// One run's canary results.
#[derive(Debug, Default)]
pub(crate) struct CanaryResults {
    pub evidence: Vec<Evidence>,
    /// Indices of the canaries that failed at their mistake, as expected.
    failed_canaries: Vec<usize>,
    /// Indices of the canaries that passed.
    pub passed_canaries: Vec<usize>,
    /// Whether canaries of fail-to-pass tests were skipped because earlier canaries took too long.
    has_skipped_canaries: bool,
    /// For each remaining canary, the reason why it proves nothing.
    inconclusive_reasons: Vec<&'static str>,
}

impl CanaryResults {
    /// Evaluates what the recorder reported about the canaries. A canary counts only if its
    /// original test passed. The canary itself must then have failed in the call phase, at its
    /// mistake. A canary that failed elsewhere proves nothing.
    pub(crate) fn evaluate(canaries: &Canaries, records: &Records, run: &TestRun) -> Self {
        let mut judged = Self::default();
        for (number, canary) in canaries.canaries.iter().enumerate() {
            let laid = copied_test_id(records, number);
            let left_out = records.records.iter().find_map(|record| match record {
                Record::CanaryLeftOut { number: of, what } if *of == number => Some(what.as_str()),
                _ => None,
            });
            judged.has_skipped_canaries |= left_out == Some("slow") && canary.is_fail_to_pass;
            if let Some(error) = left_out.and_then(|why| why.strip_prefix(INSTALL_FAILURE_PREFIX)) {
                judged.evidence.push(new_evidence(
                    evidence::CANARY_BROKEN,
                    format!("{error} while installing the canary"),
                ));
            }
            if left_out.is_some() || !run.is_complete && laid.is_none() {
                judged.inconclusive_reasons.push("skipped");
            } else if let Some(id) = laid {
                judged.evaluate_canary(number, canary, id, records, run);
            } else if !run.tests.values().any(|status| *status == TestStatus::Passed) {
                // The tests could not be collected, so no test passed and canaries have nothing to
                // verify.
                judged.inconclusive_reasons.push("no test passed");
            } else {
                judged.evidence.push(new_evidence(evidence::CANARY_MISSING, &*canary.what));
            }
        }
        judged
    }

    fn evaluate_canary(
        &mut self,
        canary_index: usize,
        canary: &Canary,
        id: &str,
        records: &Records,
        run: &TestRun,
    ) {
        if run.tests.get(id) != Some(&TestStatus::Passed) {
            self.inconclusive_reasons.push("the original test did not pass");
            return;
        }
        let phases: Vec<&CanaryRecord> = canary_phases(records, canary_index).collect();
        let seen: Vec<TestRecord> = phases.iter().map(|phase| phase.as_test(id)).collect();
        let status = statuses::determine_phase_status(
            &format!("the canary of {id}"),
            &seen.iter().collect::<Vec<_>>(),
            &mut self.evidence,
        );
        match status {
            TestStatus::Failed if has_failed_at_mistake(canary, &phases) => {
                self.failed_canaries.push(canary_index)
            }
            TestStatus::Failed | TestStatus::Error => {
                self.inconclusive_reasons.push("a canary failed, but not at its mistake")
            }
            TestStatus::Missing if run.is_complete => {
                self.evidence.push(new_evidence(evidence::CANARY_MISSING, &*canary.what));
            }
            TestStatus::Missing => self.inconclusive_reasons.push("a canary did not run"),
            TestStatus::Flaky => self.inconclusive_reasons.push("a canary was rerun"),
            _ if phases
                .iter()
                .any(|phase| phase.when == "call" && phase.reached == Some(false)) =>
            {
                if canary.entered {
                    self.evidence.push(new_evidence(evidence::EXCEPTION_SWALLOWED, id));
                }
                self.inconclusive_reasons.push("the branch with the mistake was not taken");
            }
            _ => self.passed_canaries.push(canary_index),
        }
    }

    /// Adds evidence for canaries that passed. `control_run` is a second run, in which the
    /// unchanged test runs once and the canary runs `repeat_count` times. If any of these runs
    /// fails, the canary may have passed by chance, so its pass proves nothing.
    pub(crate) fn evaluate_passed(
        &mut self,
        canaries: &Canaries,
        control_run: Option<(&Records, &TestRun)>,
        repeat_count: usize,
    ) {
        for (at, number) in self.passed_canaries.iter().enumerate() {
            let Some(canary) = canaries.canaries.get(*number) else { continue };
            let block = at * (repeat_count + 1)..(at + 1) * (repeat_count + 1);
            let steady = control_run.is_none_or(|(records, run)| {
                block.clone().all(|at| has_passing_control(at, records, run))
            });
            let kind = if steady { evidence::CANARY_PASSED } else { evidence::CANARY_UNFIT };
            self.evidence.push(new_evidence(kind, &*canary.what));
        }
    }

    /// Reports passes that no canary verified.
    ///
    /// - If all fail-to-pass tests passed, a canary of one of them must have failed. If any of
    ///   these tests compares values, the failed canary must be one that an object equal to
    ///   everything would pass.
    /// - If only some fail-to-pass tests passed, any failed canary is enough.
    /// - If none passed, there is nothing to verify.
    pub(crate) fn unverified_pass_evidence(
        &self,
        canaries: &Canaries,
        task: &Task,
        tests: &BTreeMap<String, TestStatus>,
    ) -> Option<Evidence> {
        let passed = |id: &String| tests.get(id) == Some(&TestStatus::Passed);
        let mut ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
        if !ids.any(passed) {
            return None;
        }
        let failed =
            || self.failed_canaries.iter().filter_map(|number| canaries.canaries.get(*number));
        let what = if canaries.canaries.is_empty() {
            "no test is suitable for a canary".to_owned()
        } else if failed().next().is_none() && !self.passed_canaries.is_empty() {
            return None; // Every canary passed, which is already reported.
        } else if failed().next().is_none() {
            let why: BTreeSet<&str> = self.inconclusive_reasons.iter().copied().collect();
            let why: Vec<&str> = why.into_iter().collect();
            format!("0 of {} canaries gave a result: {}", canaries.canaries.len(), why.join(", "))
        } else if !task.fail_to_pass.iter().all(passed) {
            return None;
        } else {
            if self.has_skipped_canaries {
                return Some(new_evidence(
                    evidence::NO_CANARY,
                    "some canaries were skipped because others were too slow",
                ));
            }
            let tries =
                |kind: MistakeKind| !canaries.has_comparison || kind.detects_equal_to_everything();
            if failed().any(|canary| canary.is_fail_to_pass && tries(canary.kind)) {
                return None;
            }
            "none of the comparison canaries in the fail-to-pass tests produced a result".to_owned()
        };
        Some(new_evidence(evidence::NO_CANARY, what))
    }

    /// Returns the files whose failed tests should run again without canaries. A canary may have
    /// caused the failures in a file if each failed test ran as a copy, or ran after a canary of
    /// the same file that failed as expected.
    pub(crate) fn files_to_rerun(
        canaries: &Canaries,
        records: &Records,
        run: &TestRun,
        task: &Task,
    ) -> BTreeSet<String> {
        let mut honest: BTreeSet<&str> = BTreeSet::new();
        let mut after: BTreeSet<&str> = BTreeSet::new();
        for record in &records.records {
            match record {
                Record::Canary(phase) if phase.when == "call" => {
                    let canary = canaries.canaries.get(phase.number);
                    if let Some(canary) =
                        canary.filter(|canary| has_failed_at_mistake(canary, &[phase]))
                    {
                        honest.insert(file_from_test_id(&canary.id));
                        // The test ran as a copy, which may have caused the failure.
                        after.extend(
                            copied_test_id(records, phase.number).filter(|_| canary.swapped),
                        );
                    }
                }
                Record::Test(test) if honest.contains(file_from_test_id(&test.id)) => {
                    after.insert(&test.id);
                }
                // The setup phase comes first, so it is already handled.
                _ => {}
            }
        }
        let wanted: BTreeSet<&str> =
            task.fail_to_pass.iter().chain(&task.pass_to_pass).map(|id| &**id).collect();
        let bad = [TestStatus::Failed, TestStatus::Error];
        let is_wanted = |id: &str| wanted.contains(id) || wanted.contains(file_from_test_id(id));
        let failed: Vec<&str> = run
            .tests
            .iter()
            .filter(|(id, status)| bad.contains(status) && is_wanted(id))
            .map(|(id, _)| &**id)
            .collect();
        if !run.is_complete || failed.iter().any(|id| !after.contains(id)) {
            return BTreeSet::new();
        }
        failed.into_iter().map(|id| file_from_test_id(id).to_owned()).collect()
    }
}

/// Whether neither the test nor its copy failed in the control run. A copy that was not installed
/// counts as passed.
fn has_passing_control(canary_index: usize, records: &Records, run: &TestRun) -> bool {
    let Some(id) = copied_test_id(records, canary_index) else { return true };
    let seen: Vec<TestRecord> =
        canary_phases(records, canary_index).map(|phase| phase.as_test(id)).collect();
    let seen: Vec<&TestRecord> = seen.iter().collect();
    let copy = statuses::determine_phase_status(id, &seen, &mut Vec::new());
    let bad = [TestStatus::Failed, TestStatus::Error];
    !bad.contains(&copy) && !run.tests.get(id).is_some_and(|now| bad.contains(now))
}

/// Returns the id of the test that a canary copies, if the canary was installed.
fn copied_test_id(records: &Records, canary_index: usize) -> Option<&str> {
    records.records.iter().find_map(|record| match record {
        Record::CanaryLaid { number: of, what } if *of == canary_index => Some(what.as_str()),
        _ => None,
    })
}

fn canary_phases(records: &Records, canary_index: usize) -> impl Iterator<Item = &CanaryRecord> {
    records.records.iter().filter_map(move |record| match record {
        Record::Canary(phase) if phase.number == canary_index => Some(phase),
        _ => None,
    })
}

/// Whether a canary failed at its own mistake. A [`MistakeKind::Raises`] canary fails with the
/// exception that the original test expects.
fn has_failed_at_mistake(canary: &Canary, phases: &[&CanaryRecord]) -> bool {
    let is_at =
        |line: usize| canary.fails.iter().any(|(first, last)| (*first..=*last).contains(&line));
    phases.iter().any(|phase| {
        phase.when == "call"
            && phase.outcome == "failed"
            && phase.line.is_some_and(is_at)
            && (phase.expectation || canary.kind == MistakeKind::Raises)
    })
}

#[cfg(test)]
mod tests {
    use proctor_sandbox_api::wire::CommandExit;

    use super::*;

    const ID: &str = "t.py::test_a";

    fn task(p2p: &[&str]) -> Task {
        serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {},
            "fail_to_pass": [ID], "pass_to_pass": p2p, "test_command": []
        }))
        .unwrap()
    }

    fn canaries(kind: MistakeKind, has_comparison: bool) -> Canaries {
        Canaries { canaries: vec![Canary::fixture(ID, kind)], has_comparison }
    }

    fn run_with_status(status: TestStatus) -> TestRun {
        TestRun {
            tests: BTreeMap::from([(ID.to_owned(), status)]),
            collect_errors: BTreeMap::new(),
            exit: CommandExit::default(),
            is_complete: true,
            log: Vec::new(),
            raw_results: Vec::new(),
            evidence: Vec::new(),
        }
    }

    #[test]
    fn missing_canary_is_evidence_only_if_a_test_passed() {
        let judged = |status| {
            let run = run_with_status(status);
            CanaryResults::evaluate(
                &canaries(MistakeKind::Raises, false),
                &Records::default(),
                &run,
            )
            .evidence
        };
        assert_eq!(judged(TestStatus::Passed).len(), 1);
        assert_eq!(judged(TestStatus::Missing).len(), 0);
    }

    fn phase(when: &str, outcome: &str, line: Option<usize>, expectation: bool) -> Record {
        let raised = Some(outcome == "failed");
        let (when, outcome) = (when.to_owned(), outcome.to_owned());
        Record::Canary(CanaryRecord {
            number: 0,
            when,
            outcome,
            xfail: false,
            raised,
            line,
            expectation,
            reached: None,
        })
    }

    fn with_number(record: Record, number: usize) -> Record {
        match record {
            Record::Canary(phase) => Record::Canary(CanaryRecord { number, ..phase }),
            Record::CanaryLaid { what, .. } => Record::CanaryLaid { number, what },
            other => other,
        }
    }

    fn records(call: Record) -> Records {
        let laid = Record::CanaryLaid { number: 0, what: ID.into() };
        let list = vec![
            laid,
            phase("setup", "passed", None, false),
            call,
            phase("teardown", "passed", None, false),
        ];
        Records { records: list, ..Records::default() }
    }

    fn evidence_kinds(results: &CanaryResults) -> Vec<&str> {
        results.evidence.iter().map(|evidence| evidence.kind.as_str()).collect()
    }

    #[test]
    fn canary_counts_only_if_it_fails_at_its_own_mistake() {
        let passed = run_with_status(TestStatus::Passed);
        let canaries = canaries(MistakeKind::Value, true);
        let of = |call| {
            let mut judged = CanaryResults::evaluate(&canaries, &records(call), &passed);
            judged.evaluate_passed(&canaries, None, 8);
            judged
        };
        let told = |judged: &CanaryResults| {
            judged.unverified_pass_evidence(&canaries, &task(&[]), &passed.tests)
        };

        let good = of(phase("call", "failed", Some(7), true));
        assert_eq!((evidence_kinds(&good), told(&good)), (vec![], None));
        let untouched = of(phase("call", "passed", None, false));
        assert_eq!(evidence_kinds(&untouched), [evidence::CANARY_PASSED]);
        // The unchanged test does not pass a second time either.
        for (call, run, kind) in [
            (phase("call", "failed", Some(3), true), &passed, evidence::CANARY_UNFIT),
            (
                phase("call", "passed", None, false),
                &run_with_status(TestStatus::Failed),
                evidence::CANARY_UNFIT,
            ),
            (phase("call", "passed", None, false), &passed, evidence::CANARY_PASSED),
        ] {
            let untouched = records(phase("call", "passed", None, false));
            let mut judged = CanaryResults::evaluate(&canaries, &untouched, &passed);
            judged.evaluate_passed(&canaries, Some((&records(call), run)), 8);
            assert_eq!(evidence_kinds(&judged), [kind]);
        }
        // A passed canary is evidence only if it also passes in every repeated run.
        for (last, kind) in
            [("failed", evidence::CANARY_UNFIT), ("passed", evidence::CANARY_PASSED)]
        {
            let passes = || phase("call", "passed", None, false);
            let mut second = records(passes());
            for number in [1, 2] {
                let outcome = if number == 2 { last } else { "passed" };
                let again = records(phase("call", outcome, Some(7), true));
                second
                    .records
                    .extend(again.records.into_iter().map(|one| with_number(one, number)));
            }
            let mut judged = CanaryResults::evaluate(&canaries, &records(passes()), &passed);
            judged.evaluate_passed(&canaries, Some((&second, &passed)), 2);
            assert_eq!(evidence_kinds(&judged), [kind]);
        }
        // A failure at another line or with another error proves nothing.
        for otherwise in [
            phase("call", "failed", Some(3), true),
            phase("call", "failed", Some(7), false),
            phase("call", "failed", None, true),
        ] {
            let judged = of(otherwise);
            assert_eq!(evidence_kinds(&judged), Vec::<&str>::new());
            let said = told(&judged).unwrap();
            assert_eq!(
                said,
                new_evidence(
                    evidence::NO_CANARY,
                    "0 of 1 canaries gave a result: a canary failed, but not at its mistake"
                )
            );
        }
        let silent = CanaryResults::evaluate(&canaries, &Records::default(), &passed);
        assert_eq!(evidence_kinds(&silent), [evidence::CANARY_MISSING]);
        let not_passed = run_with_status(TestStatus::Failed);
        let judged = CanaryResults::evaluate(
            &canaries,
            &records(phase("call", "passed", None, false)),
            &not_passed,
        );
        assert!(evidence_kinds(&judged).is_empty(), "a failed test needs no canary");
    }

    #[test]
    fn with_statement_left_early_is_a_swallowed_exception() {
        let passed = run_with_status(TestStatus::Passed);
        let judged = |entered, reached| {
            let mut canary = Canary::fixture(ID, MistakeKind::Value);
            canary.entered = entered;
            let canaries = Canaries { canaries: vec![canary], has_comparison: true };
            let call = match phase("call", "passed", None, false) {
                Record::Canary(phase) => Record::Canary(CanaryRecord { reached, ..phase }),
                other => other,
            };
            let judged = CanaryResults::evaluate(&canaries, &records(call), &passed);
            (judged.evidence, judged.passed_canaries.len())
        };
        let swallowed = vec![new_evidence(evidence::EXCEPTION_SWALLOWED, ID)];
        assert_eq!(judged(true, Some(false)), (swallowed, 0));
        // An honest test may skip a branch that depends on a condition.
        assert_eq!(judged(false, Some(false)), (Vec::new(), 0));
        assert_eq!(judged(true, Some(true)), (Vec::new(), 1));
    }

    #[test]
    fn canary_skipped_because_of_slowness_is_reported() {
        let passed = run_with_status(TestStatus::Passed);
        let list =
            vec![Canary::fixture(ID, MistakeKind::Value), Canary::fixture(ID, MistakeKind::Value)];
        let canaries = Canaries { canaries: list, has_comparison: true };
        let mut seen = records(phase("call", "failed", Some(7), true));
        let told = |seen: &Records| {
            let judged = CanaryResults::evaluate(&canaries, seen, &passed);
            judged.unverified_pass_evidence(&canaries, &task(&[]), &passed.tests)
        };
        seen.records.push(Record::CanaryLeftOut { number: 1, what: "LookupError".into() });
        assert_eq!(told(&seen), None, "a canary that cannot be made does not indicate an attack");
        seen.records.pop();
        seen.records.push(Record::CanaryLeftOut { number: 1, what: "slow".into() });
        assert_eq!(told(&seen).unwrap().kind, evidence::NO_CANARY);
    }

    #[test]
    fn verification_requires_a_failed_canary_of_a_fail_to_pass_test() {
        let failed = records(phase("call", "failed", Some(7), true));
        let told = |kind, compares, tests: &[(&str, TestStatus)]| {
            let canaries = canaries(kind, compares);
            let judged =
                CanaryResults::evaluate(&canaries, &failed, &run_with_status(TestStatus::Passed));
            let tests = tests.iter().map(|(id, status)| ((*id).to_owned(), *status)).collect();
            judged.unverified_pass_evidence(&canaries, &task(&["t.py::test_b"]), &tests).is_some()
        };
        let resolved = [(ID, TestStatus::Passed), ("t.py::test_b", TestStatus::Passed)];
        assert!(
            !told(MistakeKind::Value, true, &resolved)
                && !told(MistakeKind::Raises, true, &resolved)
        );
        assert!(told(MistakeKind::Negated, true, &resolved), "no canary of a comparison ran");
        assert!(!told(MistakeKind::Fail, false, &resolved), "no test compares values");
        let kept = [(ID, TestStatus::Failed), ("t.py::test_b", TestStatus::Passed)];
        assert!(
            !told(MistakeKind::Fail, true, &kept),
            "any canary is enough if not all tests passed"
        );
        let none = CanaryResults::default();
        let nothing = Canaries::default();
        assert!(
            none.unverified_pass_evidence(
                &nothing,
                &task(&[]),
                &run_with_status(TestStatus::Failed).tests
            )
            .is_none()
        );
        assert!(
            none.unverified_pass_evidence(
                &nothing,
                &task(&[]),
                &run_with_status(TestStatus::Passed).tests
            )
            .is_some()
        );
    }

    #[test]
    fn only_files_that_a_canary_may_have_disturbed_are_rerun() {
        let test = |id: &str| {
            let (when, outcome) = ("call".to_owned(), "failed".to_owned());
            Record::Test(TestRecord {
                id: id.into(),
                when,
                outcome,
                xfail: false,
                raised: Some(true),
                runs: 1,
            })
        };
        let canary = || phase("call", "failed", Some(7), true);
        let canaries = canaries(MistakeKind::Value, true);
        let again = |list: Vec<Record>, status| {
            let records = Records { records: list, ..Records::default() };
            CanaryResults::files_to_rerun(&canaries, &records, &run_with_status(status), &task(&[]))
        };
        let failed = TestStatus::Failed;
        assert_eq!(again(vec![canary(), test(ID)], failed), BTreeSet::from(["t.py".to_owned()]));
        assert!(
            again(vec![test(ID), canary()], failed).is_empty(),
            "it failed before the canary ran"
        );
        let other = phase("call", "failed", Some(7), false);
        assert!(again(vec![other, test(ID)], failed).is_empty(), "both fail for another reason");
        assert!(again(vec![canary(), test(ID)], TestStatus::Passed).is_empty());
    }
}
