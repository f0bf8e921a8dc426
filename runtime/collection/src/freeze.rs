//! Freezes a task's test ids by running its tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proctor_grade::{TestPlan, TestRun, find_leaks, run_tests};
use proctor_patch::gold_patch;
use proctor_sandbox_api::{Backend, PreparedEnvironment, describe_exit, wire::RawPath};
use proctor_setup::{
    ApplyError, LayerFindings, Preparation, Purpose, ReadySandbox, Sources, apply_patch,
    resolve_layer_spec,
};
use proctor_types::{
    Fault, FaultLayer, SandboxSpec, Task, TestStatus, count_with_noun, file_from_test_id,
};

use crate::{Draft, RecipeError};

/// Number of test runs without the gold patch, and number of runs with it. A test is flaky if its
/// results differ between runs with the same code.
pub(crate) const RUNS_PER_SIDE: usize = 2;

/// A test that is neither fail-to-pass nor pass-to-pass, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutTest {
    pub id: String,
    pub reason: &'static str,
}

/// A task with frozen test ids.
#[derive(Debug, Clone, PartialEq)]
pub struct FrozenTask {
    pub task: Task,
    /// Ids of tests whose results differ between runs of the same code.
    pub flaky_tests: Vec<String>,
    /// Tests that were excluded for reasons other than flakiness.
    pub left_out_tests: Vec<LeftOutTest>,
}

/// Runs the draft's tests twice with only the mask applied, and twice with the gold patch applied
/// on top. Each run has a fresh sandbox. Tests with consistent results are kept. A fail-to-pass
/// test passes in both runs with the gold patch and in neither of the other runs. A pass-to-pass
/// test passes in all four runs.
///
/// The files that contain a fail-to-pass test are hidden. The pass-to-pass tests in these files
/// still count, because grading restores the files.
///
/// # Errors
/// Fails if the sandbox or grading has a fault, if a test run is incomplete, or if no test fails
/// without the gold patch.
pub async fn freeze(
    draft: Draft,
    backend: &dyn Backend,
    sources: &Sources,
    on_progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<FrozenTask, RecipeError> {
    let spec = resolve_layer_spec(&draft.task, sources, std::path::Path::new(".")).await?;
    on_progress("building the environment");
    let environment = backend.prepare(&spec).await?;
    // Scan for leaks in the same way as grading does, so that tests are frozen in the same kind of
    // sandbox. A test that needs hidden files then fails in both.
    let findings = find_leaks(backend, &environment, &draft.task, &SandboxSpec::default()).await?;
    freeze_in_environment((backend, &environment, &findings), draft, on_progress).await
}

/// Like [`freeze`], but in an environment that was already scanned for leaks.
///
/// # Errors
/// See [`freeze`].
pub(crate) async fn freeze_in_environment(
    environment_parts: (&dyn Backend, &PreparedEnvironment, &LayerFindings),
    draft: Draft,
    on_progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<FrozenTask, RecipeError> {
    let Draft {
        mut task,
        carving,
        test_files,
        left_out_ids: leave_out,
        test_ids: ids,
        feature_test_file: feature,
    } = draft;
    let mask = task.mask.clone().unwrap_or_default().into_bytes();
    let gold = gold_patch(&task)
        .map_err(|error| {
            Fault::new(FaultLayer::Setup, format!("cannot reverse the mask: {error}"))
        })?
        .unwrap_or_default();
    let plan = TestPlan {
        command: task.test_command.clone(),
        workdir: task.workdir.clone(),
        files: test_files,
        ids,
        env: task.env.clone(),
        time_limit: Duration::from_secs_f64(task.timeouts.grade_seconds),
        user: task.user.clone(),
    };
    let (mut masked, mut restored) = (Vec::new(), Vec::new());
    for round in 1..=RUNS_PER_SIDE {
        on_progress(&format!(
            "running the tests without and with the gold patch, round {round} of {RUNS_PER_SIDE}"
        ));
        let without = run_patched_tests(environment_parts, &task, &plan, &[&mask]).await?;
        masked.push(complete_statuses(without, "masked")?);
        let with = run_patched_tests(environment_parts, &task, &plan, &[&mask, &gold]).await?;
        restored.push(complete_statuses(with, "gold")?);
    }
    let mut sorted = classify_tests(&masked, &restored, &leave_out);
    // Drop failing tests in other files, because the statement does not cover them. Their files are
    // still hidden, because they show how the feature is used.
    let broken = sorted.exclude_other_features(feature.as_deref());
    if sorted.fail_to_pass.is_empty() {
        let carved: Vec<&str> = carving.objects.iter().map(|object| object.path.as_str()).collect();
        let result_counts = format!(
            "{} passed on both sides; excluded: {}; flaky: {}",
            count_with_noun(sorted.pass_to_pass.len(), "test"),
            sorted.left_out_tests.len(),
            sorted.flaky_tests.len()
        );
        return Err(RecipeError::NothingFails { carved: carved.join(", "), seen: result_counts });
    }
    let files: BTreeSet<String> = sorted
        .fail_to_pass
        .iter()
        .chain(&broken)
        .map(|id| file_from_test_id(id).to_owned())
        .collect();
    task.hidden.extend(files);
    task.hidden.sort();
    task.hidden.dedup();
    task.fail_to_pass = sorted.fail_to_pass;
    task.pass_to_pass = sorted.pass_to_pass;
    Ok(FrozenTask { task, flaky_tests: sorted.flaky_tests, left_out_tests: sorted.left_out_tests })
}

/// Runs the tests once with the mask applied, in a fresh sandbox. This is a preview before the ids
/// are frozen, so the environment has not been scanned for leaks.
pub(crate) async fn run_masked_tests(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    task: &Task,
    plan: &TestPlan,
) -> Result<TestRun, RecipeError> {
    let mask = task.mask.clone().unwrap_or_default().into_bytes();
    run_patched_tests((backend, environment, &LayerFindings::default()), task, plan, &[&mask]).await
}

/// Applies the patches in order in a fresh sandbox, then runs the tests once.
pub(crate) async fn run_patched_tests(
    (backend, environment, findings): (&dyn Backend, &PreparedEnvironment, &LayerFindings),
    task: &Task,
    plan: &TestPlan,
    patches: &[&[u8]],
) -> Result<TestRun, RecipeError> {
    let preparation = Preparation {
        backend,
        environment,
        task,
        findings,
        limits: &SandboxSpec::default(),
        mounts: &[],
        label: format!("freezing {}", task.id),
    };
    let workdir = RawPath::from(task.workdir.as_str());
    let ReadySandbox { mut sandbox, hidden_copies: hidden } =
        preparation.open(Purpose::Testing).await?;
    let work = async {
        let handle = sandbox.handle();
        for patch in patches {
            let applied = apply_patch(handle, &workdir, patch, task.user.as_deref()).await;
            applied.map_err(|error| match error {
                ApplyError::Patch(error) => {
                    Fault::new(FaultLayer::Setup, format!("cannot apply the task's patch: {error}"))
                }
                ApplyError::Sandbox(error) => error.to_fault("applying the task's patch"),
            })?;
        }
        run_tests(handle, plan, &hidden).await
    };
    let test_run = work.await;
    let closed = sandbox.close().await;
    let ran = test_run?;
    closed?;
    Ok(ran)
}

/// Returns the tests' statuses by id, or an error if the run is incomplete.
pub(crate) fn complete_statuses(
    run: TestRun,
    run_name: &'static str,
) -> Result<Statuses, RecipeError> {
    if run.is_complete {
        return Ok(run.tests);
    }
    let log = String::from_utf8_lossy(&run.log);
    let tail: Vec<&str> = log.lines().rev().take(5).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    let reason = format!("{}; last lines: {}", describe_exit(&run.exit), tail.join(" | "));
    Err(RecipeError::Incomplete { run: run_name, why: reason })
}

pub(crate) type Statuses = BTreeMap<String, TestStatus>;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassifiedTests {
    pub(crate) fail_to_pass: Vec<String>,
    pub(crate) pass_to_pass: Vec<String>,
    pub(crate) flaky_tests: Vec<String>,
    pub(crate) left_out_tests: Vec<LeftOutTest>,
}

impl ClassifiedTests {
    /// Removes and returns the fail-to-pass ids that are outside the feature's own test file.
    fn exclude_other_features(&mut self, feature_test_file: Option<&str>) -> Vec<String> {
        let Some(feature) = feature_test_file else { return Vec::new() };
        let ids = std::mem::take(&mut self.fail_to_pass);
        let (own, other): (Vec<String>, Vec<String>) =
            ids.into_iter().partition(|id| file_from_test_id(id) == feature);
        self.fail_to_pass = own;
        let reason = "it fails without the feature, but is in another feature's file";
        self.left_out_tests.extend(other.iter().map(|id| LeftOutTest { id: id.clone(), reason }));
        other
    }
}

pub(crate) fn classify_tests(
    masked_runs: &[Statuses],
    gold_runs: &[Statuses],
    left_out_ids: &[String],
) -> ClassifiedTests {
    let mut out = ClassifiedTests::default();
    let ids: BTreeSet<&String> =
        masked_runs.iter().chain(gold_runs).flat_map(BTreeMap::keys).collect();
    for id in ids {
        let skip = |why| LeftOutTest { id: id.clone(), reason: why };
        if left_out_ids.contains(id) {
            out.left_out_tests.push(skip("the recipe excludes it"));
            continue;
        }
        // Ids with control characters cannot be passed on pytest's command line.
        if !id.contains("::") || id.chars().any(char::is_control) {
            out.left_out_tests.push(skip("pytest cannot select it by its id"));
            continue;
        }
        match (consistent_result(id, masked_runs), consistent_result(id, gold_runs)) {
            (Some(false), Some(true)) => out.fail_to_pass.push(id.clone()),
            (Some(true), Some(true)) => out.pass_to_pass.push(id.clone()),
            (None, _) | (_, None) => out.flaky_tests.push(id.clone()),
            (_, Some(false)) => {
                out.left_out_tests.push(skip("it does not pass with the gold patch"))
            }
        }
    }
    out
}

/// Whether a test passes in all of the given runs. Returns `None` if the runs disagree. Failures,
/// errors and missing ids all count as not passing, because a masked import may turn one into
/// another.
fn consistent_result(id: &str, runs: &[Statuses]) -> Option<bool> {
    let mut passes = runs.iter().map(|run| run.get(id) == Some(&TestStatus::Passed));
    let first = passes.next()?;
    passes.all(|pass| pass == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use TestStatus::{Error, Failed, Passed, Skipped};

    use super::*;

    fn statuses(list: &[(&str, TestStatus)]) -> Statuses {
        list.iter().map(|(id, status)| ((*id).to_owned(), *status)).collect()
    }

    #[test]
    fn classify_tests_keeps_only_tests_with_consistent_results() {
        let masked = [
            statuses(&[("t::a", Failed), ("t::b", Passed), ("t::c", Failed), ("t::s", Skipped)]),
            statuses(&[("t::a", Error), ("t::b", Passed), ("t::c", Passed), ("t::s", Skipped)]),
        ];
        let restored = [
            statuses(&[
                ("t::a", Passed),
                ("t::b", Passed),
                ("t::c", Passed),
                ("t::d", Passed),
                ("t::e", Passed),
                ("t::s", Skipped),
                ("t::z\n", Passed),
            ]),
            statuses(&[
                ("t::a", Passed),
                ("t::b", Passed),
                ("t::c", Passed),
                ("t::d", Passed),
                ("t::s", Skipped),
            ]),
        ];
        let sorted = classify_tests(&masked, &restored, &["t::d".into()]);
        assert_eq!(sorted.fail_to_pass, ["t::a"]);
        assert_eq!(sorted.pass_to_pass, ["t::b"]);
        assert_eq!(sorted.flaky_tests, ["t::c", "t::e"]);
        let left: Vec<&str> = sorted.left_out_tests.iter().map(|left| left.id.as_str()).collect();
        assert_eq!(left, ["t::d", "t::s", "t::z\n"]);
    }
}
