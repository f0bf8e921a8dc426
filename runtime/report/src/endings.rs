//! Describes in words how a trial ended and why it failed.

use proctor_types::{
    Budget, BudgetKind, BudgetScope, Ending, ExitCause, FailureReason, count_with_noun,
};

use crate::format::format_dollars;

/// Describes an ending in one sentence without a full stop: `Reached its limit of 8 steps`. `budget`
/// has the limits of the trial's arm.
pub fn ending_sentence(ending: &Ending, budget: Option<&Budget>) -> String {
    let text = match ending {
        Ending::Submitted => "Submitted its work",
        Ending::Budget { budget: kind, scope } => {
            let own = budget.and_then(|budget| limit_amount(*kind, budget));
            return match (scope, own) {
                (BudgetScope::Trial, Some(limit)) => format!("Reached its limit of {limit}"),
                (BudgetScope::Trial, None) => format!("Reached its limit on {}", limit_name(*kind)),
                (BudgetScope::Arm, _) => {
                    format!("Stopped by the arm's limit on {}", limit_name(*kind))
                }
                (BudgetScope::Run, _) => {
                    format!("Stopped by the run's limit on {}", limit_name(*kind))
                }
            };
        }
        Ending::ModelRefused { .. } => "The model refused",
        Ending::ScaffoldExited { cause, .. } => match cause {
            ExitCause::Crashed => "The scaffold crashed",
            ExitCause::Idle => "The scaffold was idle for too long",
            ExitCause::Approval => "The agent waited for an approval",
            ExitCause::EmptyTurn => "The model responded with nothing",
            ExitCause::Loop => "The agent was stuck in a loop",
            ExitCause::Finished => "The scaffold ended without a submission",
        },
        Ending::InfrastructureFault { fault } => {
            return format!("Ended by a fault of this layer: {}", fault.layer);
        }
        Ending::Cancelled => "Was cancelled",
    };
    text.to_owned()
}

/// Describes the name of an ending, as in `outcome`, without an arm's limits: `reached its limit:
/// input tokens`.
pub fn ending_words(name: &str) -> String {
    let words = name.replace('_', " ");
    for (prefix, text) in [
        ("infrastructure fault ", "ended by a fault: "),
        ("budget arm ", "stopped by the arm's limit: "),
        ("budget run ", "stopped by the run's limit: "),
        ("budget ", "reached its limit: "),
    ] {
        if let Some(rest) = words.strip_prefix(prefix) {
            return format!("{text}{rest}");
        }
    }
    words
}

/// Describes a failure reason as the predicate of a trial: `failed an assertion`.
pub fn reason_words(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::NeverEdited => "changed nothing",
        FailureReason::EditedNeverRan => "ran nothing after its last edit",
        FailureReason::ImportOrNameError => "had import or name errors",
        FailureReason::TypeOrAttributeError => "had type or attribute errors",
        FailureReason::Assertion => "failed an assertion",
        FailureReason::TimeOut => "timed out in the tests",
        FailureReason::BrokePassToPass => "broke passing tests",
        FailureReason::GaveUp => "gave up",
        FailureReason::OutOfBudget => "reached a limit",
        FailureReason::Refused => "got a refusal",
        FailureReason::FormatErrors => "sent unreadable tool calls",
        FailureReason::Infrastructure => "have no verdict",
    }
}

/// Describes the failure reason of several trials: `ran nothing after their last edit`.
pub(crate) fn reason_words_for(reason: FailureReason, count: u64) -> String {
    let words = reason_words(reason);
    if count == 1 { words.to_owned() } else { words.replace(" its ", " their ") }
}

/// Formats the arm's own limit of this kind: `8 steps`, `$2.50`. `None` if the arm has no such limit.
fn limit_amount(kind: BudgetKind, budget: &Budget) -> Option<String> {
    let count = |limit: Option<u64>, noun: &str| limit.map(|limit| count_with_noun(limit, noun));
    let seconds = |limit: Option<f64>, what: &str| limit.map(|limit| format!("{limit} s{what}"));
    match kind {
        BudgetKind::Steps => count(budget.steps, "step"),
        BudgetKind::MainSteps => {
            budget.main_steps.map(|limit| format!("{limit} steps of the agent itself"))
        }
        BudgetKind::InputTokens => count(budget.input_tokens, "input token"),
        BudgetKind::OutputTokens => count(budget.output_tokens, "output token"),
        BudgetKind::TotalTokens => count(budget.total_tokens, "token"),
        BudgetKind::UncachedInputTokens => {
            count(budget.uncached_input_tokens, "uncached input token")
        }
        BudgetKind::Cost => budget.cost_usd.map(format_dollars),
        BudgetKind::Wall => seconds(budget.wall_seconds, ""),
        BudgetKind::Working => seconds(budget.working_seconds, " of working time"),
        BudgetKind::Tools => seconds(budget.tool_seconds, " in tools"),
    }
}

fn limit_name(kind: BudgetKind) -> &'static str {
    match kind {
        BudgetKind::Steps => "steps",
        BudgetKind::MainSteps => "steps of the agent itself",
        BudgetKind::InputTokens => "input tokens",
        BudgetKind::OutputTokens => "output tokens",
        BudgetKind::TotalTokens => "tokens",
        BudgetKind::UncachedInputTokens => "uncached input tokens",
        BudgetKind::Cost => "cost",
        BudgetKind::Wall => "time",
        BudgetKind::Working => "working time",
        BudgetKind::Tools => "time in tools",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_sentences() {
        let budget = Budget { steps: Some(8), wall_seconds: Some(900.0), ..Budget::default() };
        let at = |budget, scope| Ending::Budget { budget, scope };
        for (ending, sentence) in [
            (Ending::Submitted, "Submitted its work"),
            (at(BudgetKind::Steps, BudgetScope::Trial), "Reached its limit of 8 steps"),
            (at(BudgetKind::Wall, BudgetScope::Trial), "Reached its limit of 900 s"),
            (at(BudgetKind::Cost, BudgetScope::Trial), "Reached its limit on cost"),
            (at(BudgetKind::Steps, BudgetScope::Run), "Stopped by the run's limit on steps"),
        ] {
            assert_eq!(ending_sentence(&ending, Some(&budget)), sentence);
        }
        let edited = FailureReason::EditedNeverRan;
        assert_eq!(reason_words_for(edited, 1), "ran nothing after its last edit");
        assert_eq!(reason_words_for(edited, 2), "ran nothing after their last edit");
        let one = Budget { steps: Some(1), ..Budget::default() };
        let steps = at(BudgetKind::Steps, BudgetScope::Trial);
        assert_eq!(ending_sentence(&steps, Some(&one)), "Reached its limit of 1 step");
        for (name, words) in [
            ("budget_input_tokens", "reached its limit: input tokens"),
            ("budget_run_cost", "stopped by the run's limit: cost"),
            ("infrastructure_fault_model", "ended by a fault: model"),
            ("scaffold_exited", "scaffold exited"),
        ] {
            assert_eq!(ending_words(name), words);
        }
    }
}
