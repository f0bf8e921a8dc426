//! Computes the verdict of a third policy, `wide`: whether all of the repository's tests that pass
//! with the gold patch also pass with the graded patch.

use proctor_grade::{GradeOptions, GradingResult, procedure::is_official_only};
use proctor_types::{Fault, PolicyVerdict, Task, count_with_noun};

use crate::{GradingSandbox, RunContext, frozen_tests::with_whole_suite, gold_patch::gold_patch};

/// Name of the policy in a verdict.
const WIDE_POLICY: &str = "wide";
/// Maximum number of failed tests to list in a reason.
const MAX_LISTED_TESTS: usize = 5;

/// Adds a `wide` verdict: the result of all tests that passed with the gold patch. A task gets no
/// `wide` verdict in these cases:
/// - only its benchmark runs its tests,
/// - its results come from a report,
/// - it starts from scratch,
/// - it has no gold patch,
/// - its test run crashes or times out.
///
/// # Errors
/// Returns a sandbox or grading fault.
pub(crate) async fn add_wide(
    context: &RunContext,
    grading_sandbox: &GradingSandbox<'_>,
    task: &Task,
    (patch, options): (&[u8], &GradeOptions),
    grading_result: &mut GradingResult,
) -> Result<(), Fault> {
    let has_suite = !is_official_only(task) && task.command_test_results().is_none();
    if !has_suite || task.from_scratch.is_some() || gold_patch(task).is_err() {
        return Ok(());
    }
    let _share = grading_sandbox.reserve_capacity().await?;
    let frozen = context.frozen_tests.find_passing_suite(grading_sandbox, task, options).await?;
    if frozen.is_empty() {
        return Ok(());
    }
    let widened = with_whole_suite(task, options, frozen);
    let options = GradeOptions { frozen_ids: None, ..options.clone() };
    let wide = grading_sandbox.grade_strict(&widened, patch, &options).await?;
    grading_result.log.extend_from_slice(b"\n===== the whole suite =====\n");
    grading_result.log.extend_from_slice(&wide.log);
    grading_result.verdict.policies.insert(WIDE_POLICY.to_owned(), wide_verdict(&widened, &wide));
    Ok(())
}

fn wide_verdict(task: &Task, wide_result: &GradingResult) -> PolicyVerdict {
    let strict = wide_result.verdict.policies.get("strict");
    let failed: Vec<&str> = [&wide_result.verdict.fail_to_pass, &wide_result.verdict.pass_to_pass]
        .into_iter()
        .flat_map(|group| group.failed.iter().map(String::as_str))
        .collect();
    let all = count_with_noun(task.fail_to_pass.len() + task.pass_to_pass.len(), "test");
    let why = match (strict, failed.as_slice()) {
        (_, [_, ..]) => {
            let more = failed.len().saturating_sub(MAX_LISTED_TESTS);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let named = failed[..failed.len().min(MAX_LISTED_TESTS)].join(", ");
            format!("of {all} that pass with gold, these fail: {named}{more}")
        }
        // All tests passed, but other evidence prevents the task from counting as resolved.
        (Some(strict), []) if !strict.resolved => strict.why.clone(),
        _ => format!("of {all} that pass with gold, none fail"),
    };
    let resolved = strict.is_some_and(|strict| strict.resolved);
    PolicyVerdict { name: None, version: None, resolved, why }
}
