//! Says why a trial did not resolve its task. If a limit ended a trial whose tests failed, the test
//! failure comes first: a patch was graded, and the limit alone doesn't say what is wrong with it.

use proctor_forensics::reason_for_exceptions;
use proctor_report::{TrialResult, reason_words};
use proctor_types::{BudgetKind, Ending, FailureReason, Verdict};

use crate::html::StepRow;

/// Describes why a trial did not resolve its task, such as `assertion` or `failed an assertion (at
/// the step limit; last edit in step 2)`. `reason` is the reason in the report. `steps` is empty if
/// the trial's journal has not been read. Empty if there is no reason.
pub fn failure_label(
    result: &TrialResult,
    reason: Option<FailureReason>,
    steps: &[StepRow],
) -> String {
    let Some(reason) = reason else { return String::new() };
    let plain = || reason.name().replace('_', " ");
    if reason != FailureReason::OutOfBudget {
        return plain();
    }
    let (Some(outcome), Some(verdict)) = (&result.outcome, &result.verdict) else {
        return plain();
    };
    let Ending::Budget { budget, .. } = &outcome.ending else { return plain() };
    let Some(failure) = tested_failure(verdict, result.patch_bytes) else { return plain() };
    let limit = limit_words(*budget);
    let last_edit = steps.iter().rev().find(|row| row.changed > 0);
    let last_edit =
        last_edit.map_or_else(String::new, |row| format!("; last edit in step {}", row.number));
    format!("{failure} (at the {limit} limit{last_edit})")
}

/// Says what the tests show about a patch. `None` if they show nothing.
fn tested_failure(verdict: &Verdict, patch_bytes: Option<u64>) -> Option<&'static str> {
    if patch_bytes? == 0 {
        return Some(reason_words(FailureReason::NeverEdited));
    }
    if verdict.broke_pass_to_pass() {
        return Some(reason_words(FailureReason::BrokePassToPass));
    }
    let failed = verdict.fail_to_pass.failed.len() + verdict.pass_to_pass.failed.len();
    if failed == 0 {
        return None;
    }
    // If the built-in table can't be read, the label says less, and grading reports the error.
    let shown = reason_for_exceptions(&verdict.exceptions).ok().flatten();
    Some(shown.map_or("failed tests", reason_words))
}

fn limit_words(kind: BudgetKind) -> &'static str {
    match kind {
        BudgetKind::Steps | BudgetKind::MainSteps => "step",
        BudgetKind::InputTokens | BudgetKind::UncachedInputTokens => "input token",
        BudgetKind::OutputTokens => "output token",
        BudgetKind::TotalTokens => "token",
        BudgetKind::Cost => "cost",
        BudgetKind::Wall => "time",
        BudgetKind::Working => "working time",
        BudgetKind::Tools => "tool time",
    }
}

#[cfg(test)]
mod tests {
    use proctor_record::RunDir;
    use proctor_report::read_trial_result;
    use proctor_types::{BudgetScope, Outcome};

    use super::*;
    use crate::{
        planned_trials,
        test_run::{finish_trial, write_plan},
    };

    /// Returns the result of a trial that reached its step limit and does not resolve its task.
    fn limited_result() -> TrialResult {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let plan = write_plan(&path, &["a"], 1, 1);
        finish_trial(&path, &plan.tasks[0], &plan.arms[0], false);
        let run = RunDir::open_read_only(&path).unwrap();
        let mut result = read_trial_result(&run, &planned_trials(&plan)[0]);
        let ending = Ending::Budget { budget: BudgetKind::Steps, scope: BudgetScope::Trial };
        result.outcome = Some(Outcome::from_ending(1, ending));
        result
    }

    #[test]
    fn failed_tests_come_before_the_limit() {
        let rows = [(1, 1), (2, 1), (3, 0)].map(|(number, changed)| StepRow {
            number,
            changed,
            ..StepRow::default()
        });
        let limit = Some(FailureReason::OutOfBudget);
        for (exceptions, patch_bytes, reason, steps, expected) in [
            (
                vec![("AssertionError", 2), ("NameError", 1)],
                Some(24),
                limit,
                &rows[..],
                "failed an assertion (at the step limit; last edit in step 2)",
            ),
            (
                vec![("NameError", 2)],
                Some(24),
                limit,
                &rows[..0],
                "had import or name errors (at the step limit)",
            ),
            (vec![], Some(24), limit, &rows[..0], "failed tests (at the step limit)"),
            (
                vec![("NameError", 2)],
                Some(0),
                limit,
                &rows[..0],
                "changed nothing (at the step limit)",
            ),
            (vec![("NameError", 2)], None, limit, &rows[..0], "out of budget"),
            (vec![], Some(24), Some(FailureReason::GaveUp), &rows[..0], "gave up"),
            (vec![], Some(24), None, &rows[..0], ""),
        ] {
            let mut result = limited_result();
            result.patch_bytes = patch_bytes;
            let verdict = result.verdict.as_mut().unwrap();
            verdict.exceptions =
                exceptions.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            assert_eq!(failure_label(&result, reason, steps), expected, "{exceptions:?}");
        }
    }

    #[test]
    fn trial_without_a_verdict_has_no_test_failure() {
        let result = TrialResult { verdict: None, ..limited_result() };
        assert_eq!(failure_label(&result, Some(FailureReason::OutOfBudget), &[]), "out of budget");
    }
}
