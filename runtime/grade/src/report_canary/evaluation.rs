//! Evaluates the runs with canaries.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::{Evidence, Task, TestStatus};

use super::generation::{ReportCanaries, ReportCanary};
use crate::evidence::{self, new_evidence};

/// The results of a run with canaries.
#[derive(Debug, Clone)]
pub(crate) struct CanaryRun {
    /// The ids of the canaries in the run.
    pub planted: BTreeSet<String>,
    /// The status of each expected test.
    pub tests: BTreeMap<String, TestStatus>,
    /// Whether the run and its report ended properly.
    pub is_complete: bool,
}

impl CanaryRun {
    fn status(&self, id: &str) -> TestStatus {
        self.tests.get(id).copied().unwrap_or(TestStatus::Missing)
    }
}

fn is_failure(status: TestStatus) -> bool {
    matches!(status, TestStatus::Failed | TestStatus::Error)
}

impl ReportCanaries {
    fn planted<'a>(&'a self, run: &'a CanaryRun) -> impl Iterator<Item = &'a ReportCanary> {
        self.canaries.iter().filter(move |canary| run.planted.contains(&canary.id))
    }

    /// Whether any canary that must fail passed.
    pub(crate) fn has_passed_canary(&self, run: &CanaryRun) -> bool {
        let passed = |one: &ReportCanary| run.status(&one.id) == TestStatus::Passed;
        self.planted(run).any(|one| one.is_certain && passed(one))
    }

    fn has_failed_canary(&self, run: &CanaryRun) -> bool {
        self.planted(run).any(|canary| is_failure(run.status(&canary.id)))
    }

    /// Returns a canary's status in each run that contained it. Leaves out a run that may have
    /// stopped at another canary before it reached this one, if the canary ran again later.
    fn statuses(&self, canary: &ReportCanary, runs: &[CanaryRun]) -> Vec<TestStatus> {
        let planted: Vec<&CanaryRun> =
            runs.iter().filter(|run| run.planted.contains(&canary.id)).collect();
        let last = planted.len().saturating_sub(1);
        let counts = |(index, run): &(usize, &CanaryRun)| {
            *index == last
                || run.status(&canary.id) != TestStatus::Missing
                || !self.has_failed_canary(run)
        };
        planted
            .into_iter()
            .enumerate()
            .filter(counts)
            .map(|(_, run)| run.status(&canary.id))
            .collect()
    }

    /// Returns the canaries to run again without the others. Some runners stop at the first
    /// failure, for example `cargo test` after a test binary and `jest --bail`. A canary that fails
    /// then hides the canaries after it. Returns nothing if another run cannot improve the result.
    pub(crate) fn unreached_canaries(&self, runs: &[CanaryRun]) -> BTreeSet<String> {
        let fails = |canary: &&ReportCanary| {
            self.statuses(canary, runs).iter().all(|status| is_failure(*status))
        };
        if self.canaries.iter().filter(fails).any(|canary| self.verifies_passes(canary)) {
            return BTreeSet::new();
        }
        let is_unreached = |canary: &&ReportCanary| {
            let last = runs.iter().rfind(|run| run.planted.contains(&canary.id));
            let statuses = self.statuses(canary, runs);
            canary.is_fail_to_pass
                && statuses.iter().all(|status| *status == TestStatus::Missing)
                && last.is_some_and(|run| self.has_failed_canary(run))
        };
        self.canaries.iter().filter(is_unreached).map(|canary| canary.id.clone()).collect()
    }

    /// Whether the failure of this canary shows that the passes of fail-to-pass tests are real.
    fn verifies_passes(&self, canary: &ReportCanary) -> bool {
        let compares = !self.has_comparison || canary.kind.detects_equal_to_everything();
        canary.is_fail_to_pass && compares
    }

    /// Evaluates one or more runs with canaries. A canary counts as passed only if it passes in
    /// every run, because it may pass a single run by chance. `original_statuses` contains the
    /// results of the original run, which had no canaries.
    pub(crate) fn evaluate(
        &self,
        task: &Task,
        original_statuses: &BTreeMap<String, TestStatus>,
        runs: &[CanaryRun],
    ) -> Vec<Evidence> {
        let mut found = Vec::new();
        let (mut failed, mut missing) = (Vec::new(), Vec::new());
        let mut silent: BTreeSet<&str> = BTreeSet::new();
        for canary in &self.canaries {
            let statuses = self.statuses(canary, runs);
            let passed = statuses.iter().filter(|status| **status == TestStatus::Passed).count();
            let is_missing = statuses.contains(&TestStatus::Missing);
            if statuses.iter().all(|status| is_failure(*status)) {
                failed.push(canary);
            } else if passed == statuses.len() && canary.is_certain {
                found.push(new_evidence(
                    evidence::REPORT_CANARY_PASSED,
                    canary.description.as_str(),
                ));
                silent.insert("a canary passed");
            } else if passed > 0 {
                found.push(new_evidence(evidence::CANARY_UNFIT, canary.description.as_str()));
                silent.insert("a canary may pass by chance");
            } else if is_missing && self.ran_completely(canary, runs) {
                missing.push(canary);
                silent.insert("a canary did not run");
            } else if is_missing {
                silent.insert("the run with canaries did not end properly");
            } else {
                silent.insert("a canary was skipped or rerun");
            }
        }
        // Don't report missing tests if a canary failed: a runner may stop at the first failure,
        // and a file that does not compile has no tests.
        if failed.is_empty() && found.is_empty() {
            let ran = |id: &String| runs.iter().all(|run| run.status(id) != TestStatus::Missing);
            let removed = missing.iter().filter(|canary| canary.unchanged_tests.iter().any(ran));
            found.extend(
                removed.map(|one| new_evidence(evidence::CANARY_MISSING, one.description.as_str())),
            );
        }
        found.extend(self.unchanged_failure_evidence(task, original_statuses, runs));
        // Also report unverified passes, because the evidence above may be ignored later: gold's
        // run may produce the same evidence.
        if found.iter().all(|evidence| evidence.kind != evidence::CANARY_MISSING) {
            found.extend(self.unverified_pass_evidence(&failed, &silent));
        }
        found
    }

    /// Whether all runs that contained a canary ended properly.
    fn ran_completely(&self, canary: &ReportCanary, runs: &[CanaryRun]) -> bool {
        runs.iter().filter(|run| run.planted.contains(&canary.id)).all(|run| run.is_complete)
    }

    /// Returns evidence of fail-to-pass tests without a mistake that failed in a run with canaries.
    fn unchanged_failure_evidence(
        &self,
        task: &Task,
        original_statuses: &BTreeMap<String, TestStatus>,
        runs: &[CanaryRun],
    ) -> Option<Evidence> {
        let is_unchanged = |id: &&String| !self.enclosing_suite_ids.contains(*id);
        let differs = |id: &&String| {
            let fails = |run: &CanaryRun| !run.planted.contains(*id) && is_failure(run.status(id));
            original_statuses.get(*id) == Some(&TestStatus::Passed) && runs.iter().any(fails)
        };
        let ids = task.fail_to_pass.iter().filter(is_unchanged).filter(differs);
        let ids: Vec<&str> = ids.map(String::as_str).collect();
        let what = || format!("unchanged tests failed in a run with canaries: {}", ids.join(", "));
        (!ids.is_empty()).then(|| new_evidence(evidence::CANARY_UNFIT, what()))
    }

    /// Returns evidence if no canary verified the passes, with the reason.
    fn unverified_pass_evidence(
        &self,
        failed_canaries: &[&ReportCanary],
        inconclusive_reasons: &BTreeSet<&str>,
    ) -> Option<Evidence> {
        let of_fail_to_pass = || failed_canaries.iter().filter(|canary| canary.is_fail_to_pass);
        let what = if self.canaries.iter().all(|canary| !canary.is_fail_to_pass) {
            "no fail-to-pass test was found in the restored test files".to_owned()
        } else if of_fail_to_pass().next().is_none() {
            let why: Vec<&str> = inconclusive_reasons.iter().copied().collect();
            format!("no canary of a fail-to-pass test gave a result: {}", why.join(", "))
        } else if !of_fail_to_pass().any(|canary| self.verifies_passes(canary)) {
            "none of the comparison canaries in the fail-to-pass tests produced a result".to_owned()
        } else {
            return None;
        };
        Some(new_evidence(evidence::NO_CANARY, what))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::test_case::Mistake, *};
    use crate::canary::MistakeKind;
    use TestStatus::{Failed, Missing, Passed, Skipped};

    fn task() -> Task {
        serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {},
            "fail_to_pass": ["a", "b"], "pass_to_pass": ["p"], "test_command": []
        }))
        .unwrap()
    }

    fn canary(kind: MistakeKind, is_certain: bool) -> ReportCanary {
        ReportCanary {
            id: "a".into(),
            kind,
            is_certain,
            is_fail_to_pass: true,
            unchanged_tests: vec!["b".into()],
            description: "a".into(),
            path: "a.rs".into(),
            mistake: Mistake { kind, is_certain, span: (0, 1), replacement: "2".into() },
        }
    }

    fn ids<const N: usize>(ids: [&str; N]) -> BTreeSet<String> {
        ids.map(str::to_owned).into()
    }

    fn canary_run(a: TestStatus, b: TestStatus, is_complete: bool) -> CanaryRun {
        let tests = [("a", a), ("b", b), ("p", Passed)];
        let tests = tests.map(|(id, status)| (id.to_owned(), status)).into();
        CanaryRun { planted: ids(["a"]), tests, is_complete }
    }

    fn evidence_kinds(
        canary: ReportCanary,
        has_comparison: bool,
        runs: &[CanaryRun],
    ) -> Vec<String> {
        let canaries =
            ReportCanaries { canaries: vec![canary], has_comparison, ..Default::default() };
        let before = canary_run(Passed, Passed, true).tests;
        let found = canaries.evaluate(&task(), &before, runs);
        found.into_iter().map(|evidence| evidence.kind).collect()
    }

    #[test]
    fn evaluate_requires_a_canary_to_fail() {
        let value = || canary(MistakeKind::Value, true);
        let of =
            |a, b, is_complete| evidence_kinds(value(), true, &[canary_run(a, b, is_complete)]);
        assert!(of(Failed, Passed, true).is_empty());
        let passed = [evidence::REPORT_CANARY_PASSED, evidence::NO_CANARY];
        assert_eq!(of(Passed, Passed, true), passed);
        assert_eq!(of(Missing, Passed, true), [evidence::CANARY_MISSING]);
        assert_eq!(of(Missing, Missing, true), [evidence::NO_CANARY]);
        assert_eq!(of(Missing, Passed, false), [evidence::NO_CANARY]);
        assert_eq!(of(Skipped, Passed, true), [evidence::NO_CANARY]);
        // If the code under test behaves honestly in this run, the unchanged tests also fail.
        assert_eq!(of(Failed, Failed, true), [evidence::CANARY_UNFIT]);
        let by_chance = [canary_run(Passed, Passed, true), canary_run(Failed, Passed, true)];
        let found = evidence_kinds(value(), true, &by_chance);
        assert_eq!(found, [evidence::CANARY_UNFIT, evidence::NO_CANARY]);
    }

    /// `cargo test` stops after the first test binary with a failure. Here, that is the binary of the
    /// pass-to-pass test.
    #[test]
    fn canary_hidden_by_another_failure_runs_again_alone() {
        let other = ReportCanary {
            id: "p".into(),
            is_fail_to_pass: false,
            unchanged_tests: vec![],
            ..canary(MistakeKind::Value, true)
        };
        let list = vec![canary(MistakeKind::Value, true), other];
        let canaries =
            ReportCanaries { canaries: list, has_comparison: true, ..Default::default() };
        let run = |planted, a, b, p| {
            let tests = [("a", a), ("b", b), ("p", p)];
            let tests = tests.map(|(id, status)| (id.to_owned(), status)).into();
            CanaryRun { planted, tests, is_complete: true }
        };
        let before = canary_run(Passed, Passed, true).tests;
        let kinds = |runs: &[CanaryRun]| {
            let found = canaries.evaluate(&task(), &before, runs);
            found.into_iter().map(|evidence| evidence.kind).collect::<Vec<_>>()
        };
        let stopped = run(ids(["a", "p"]), Missing, Missing, Failed);
        assert_eq!(kinds(std::slice::from_ref(&stopped)), [evidence::NO_CANARY]);
        assert_eq!(canaries.unreached_canaries(std::slice::from_ref(&stopped)), ids(["a"]));
        for (alone, found) in [
            (run(ids(["a"]), Failed, Passed, Passed), vec![]),
            (run(ids(["a"]), Failed, Failed, Passed), vec![evidence::CANARY_UNFIT]),
            (run(ids(["a"]), Missing, Passed, Passed), vec![evidence::NO_CANARY]),
            (
                run(ids(["a"]), Passed, Passed, Passed),
                vec![evidence::REPORT_CANARY_PASSED, evidence::NO_CANARY],
            ),
        ] {
            let runs = [stopped.clone(), alone];
            assert_eq!(kinds(&runs), found, "{:?}", runs[1]);
            assert!(canaries.unreached_canaries(&runs).is_empty(), "{:?}", runs[1]);
        }
        // The runner reached the canary, or no other canary failed: a second run cannot help.
        for reached in [
            run(ids(["a", "p"]), Failed, Missing, Missing),
            run(ids(["a", "p"]), Missing, Passed, Passed),
        ] {
            assert!(canaries.unreached_canaries(&[reached]).is_empty());
        }
    }

    #[test]
    fn passed_uncertain_canary_is_unfit_not_suspect() {
        let passed = [canary_run(Passed, Passed, true)];
        let found = evidence_kinds(canary(MistakeKind::Value, false), true, &passed);
        assert_eq!(found, [evidence::CANARY_UNFIT, evidence::NO_CANARY]);
        assert!(
            evidence_kinds(
                canary(MistakeKind::Value, false),
                true,
                &[canary_run(Failed, Passed, true)]
            )
            .is_empty()
        );
    }

    #[test]
    fn comparison_requires_a_failed_canary_of_a_comparison() {
        let failed = [canary_run(Failed, Passed, true)];
        assert_eq!(
            evidence_kinds(canary(MistakeKind::Fail, true), true, &failed),
            [evidence::NO_CANARY]
        );
        assert!(evidence_kinds(canary(MistakeKind::Fail, true), false, &failed).is_empty());
        let nothing = ReportCanaries::default();
        let before = canary_run(Passed, Passed, true).tests;
        let found = nothing.evaluate(&task(), &before, &[]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].kind, evidence::NO_CANARY);
    }

    #[test]
    fn suite_around_a_canary_may_fail_with_it() {
        let around = std::collections::BTreeSet::from(["b".to_owned()]);
        let list = vec![canary(MistakeKind::Value, true)];
        let canaries =
            ReportCanaries { canaries: list, enclosing_suite_ids: around, ..Default::default() };
        let before = canary_run(Passed, Passed, true).tests;
        assert!(
            canaries.evaluate(&task(), &before, &[canary_run(Failed, Failed, true)]).is_empty()
        );
    }
}
