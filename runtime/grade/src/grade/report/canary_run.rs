//! Runs the tests again with canaries.

use std::collections::{BTreeMap, BTreeSet};

use proctor_patch::CurrentFile;
use proctor_sandbox_api::{SandboxHandle, wire::EntryKind};
use proctor_types::{Evidence, Fault, FaultLayer};

use super::{BaseTree, ReportGrading, RunResults};
use crate::{
    evidence::CHANGED_DURING_RUN,
    exhaustion,
    path_rules::{GuardReason, PathRules},
    policy::Policy,
    pristine::PristineTree,
    report_canary::{self, CanaryRun, ReportCanaries},
    restore::replace_entry,
};

/// The result of a run with canaries, and its log.
struct CanaryRunResult {
    results: RunResults,
    log: Vec<u8>,
}

/// Number of runs in which a canary must pass to count as passed. In a single run, a test may pass
/// by chance.
const CANARY_RUNS: usize = 2;

/// Returns the canaries of the next run: the same ones if one of them passed, or those that the
/// runner did not reach. Returns nothing if no further run is needed. The runs end, because a run
/// with unreached canaries contains fewer canaries than the run before.
fn next_canaries(
    canaries: &ReportCanaries,
    planted: BTreeSet<String>,
    runs: &[CanaryRun],
) -> BTreeSet<String> {
    let repeats = runs.iter().filter(|run| run.planted == planted).count();
    let has_passed = runs.last().is_some_and(|run| canaries.has_passed_canary(run));
    if has_passed && repeats < CANARY_RUNS {
        return planted;
    }
    canaries.unreached_canaries(runs)
}

impl ReportGrading<'_> {
    /// Reruns the tests with canaries after a run that resolved the task. Returns the evidence.
    pub(super) async fn canary_evidence(
        &self,
        tree: &BaseTree<'_>,
        patch: &[u8],
        results: &RunResults,
        log: &mut Vec<u8>,
    ) -> Result<Vec<Evidence>, Fault> {
        let (task, apart) = (self.task, &self.options.quarantine);
        let RunResults { report, tests, .. } = results;
        let made = report_canary::create_report_canaries(
            task,
            tree.pristine,
            report,
            tests,
            (patch, apart),
        )?;
        let Some(canaries) = made else { return Ok(vec![self.unverified_report_evidence()]) };
        let (mut evidence, mut runs): (Vec<Evidence>, Vec<CanaryRun>) = Default::default();
        let mut planted = canaries.ids();
        while !planted.is_empty() {
            match self.run_with_files(tree, patch, &canaries.files_with(&planted)).await? {
                Ok(CanaryRunResult { results: second, log: run_log }) => {
                    log.extend_from_slice(
                        b"\n===== tests that ran again with mistakes and must fail =====\n",
                    );
                    for canary in canaries.canaries.iter().filter(|it| planted.contains(&it.id)) {
                        log.extend_from_slice(format!("{}\n", canary.description).as_bytes());
                    }
                    log.extend_from_slice(&run_log);
                    let changed = second.evidence.into_iter();
                    evidence.extend(changed.filter(|one| one.kind == CHANGED_DURING_RUN));
                    let (tests, is_complete) = (second.tests, second.is_complete);
                    runs.push(CanaryRun { planted: planted.clone(), tests, is_complete });
                }
                // The run made the sandbox unusable.
                Err(found) => {
                    evidence.push(found);
                    return Ok(evidence);
                }
            }
            planted = next_canaries(&canaries, planted, &runs);
        }
        evidence.extend(canaries.evaluate(task, tests, &runs));
        Ok(evidence)
    }

    /// Runs the test command with changed test files. If possible, uses a sandbox where no graded
    /// code has run. Returns evidence instead of results if the run made the sandbox unusable.
    async fn run_with_files(
        &self,
        tree: &BaseTree<'_>,
        patch: &[u8],
        files: &BTreeMap<String, CurrentFile>,
    ) -> Result<Result<CanaryRunResult, Evidence>, Fault> {
        let Some(fresh) = self.fresh_sandboxes else {
            return self.run_in_sandbox(self.handle, tree, files).await.map(Ok);
        };
        let mut sandbox = fresh.open().await?;
        let handle = sandbox.handle();
        let run = async {
            self.strip_sandbox(handle, tree).await?;
            if let Err(error) = self.apply_and_restore(handle, tree, patch).await? {
                let what = "the patch applies in one sandbox but not in another";
                return Err(Fault::new(
                    FaultLayer::Grade,
                    format!("{}: {what}: {error}", self.task.id),
                ));
            }
            self.run_in_sandbox(handle, tree, files).await
        };
        let run = match run.await {
            Ok(run) => Ok(Ok(run)),
            Err(fault) => exhaustion::exhaustion_evidence(handle, fault).await.map(Err),
        };
        // Keep the results even if closing fails: dropping the sandbox also shuts it down.
        let _ = sandbox.close().await;
        run
    }

    async fn run_in_sandbox(
        &self,
        handle: &SandboxHandle,
        tree: &BaseTree<'_>,
        files: &BTreeMap<String, CurrentFile>,
    ) -> Result<CanaryRunResult, Fault> {
        for (path, file) in files {
            replace_entry(handle, &self.task.workdir, path, Some(file)).await?;
        }
        let run = self.run(handle, tree).await?;
        let reading = self.parse_results(&run);
        let log = self.build_log(&run, &reading);
        Ok(CanaryRunResult { results: reading, log })
    }

    /// Returns the test files in which canaries can be made, in addition to the files that the task
    /// expects.
    pub(super) fn canary_files(
        &self,
        pristine: &PristineTree,
        paths: &PathRules<'_>,
    ) -> Result<BTreeSet<String>, Fault> {
        let policy = Policy::get()?;
        let rules = &policy.report.canaries;
        let is_readable = |(path, kind): &(&String, &EntryKind)| {
            let is_scratch =
                path.split('/').any(|part| policy.unwatched.iter().any(|one| one == part));
            **kind == EntryKind::File
                && !is_scratch
                && rules.language_for(path).is_some()
                && paths.guard_reason(path) == Some(GuardReason::Test)
        };
        let readable: BTreeSet<String> = pristine
            .entries
            .iter()
            .filter(is_readable)
            .map(|(path, _)| path.clone())
            .take(rules.files + 1)
            .collect();
        // Each file takes a separate read request, so use none of them if there are too many.
        Ok(if readable.len() > rules.files { BTreeSet::new() } else { readable })
    }

    /// Rewrites all test files, so that their modification times do not reveal which of them have a
    /// mistake.
    pub(super) async fn rewrite_tests(
        &self,
        handle: &SandboxHandle,
        tree: &BaseTree<'_>,
    ) -> Result<(), Fault> {
        let rules = &Policy::get()?.report.canaries;
        for (path, file) in &tree.pristine.files {
            if rules.language_for(path).is_some() && tree.paths.guard_reason(path).is_some() {
                replace_entry(handle, &self.task.workdir, path, Some(file)).await?;
            }
        }
        Ok(())
    }
}
