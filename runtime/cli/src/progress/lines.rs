//! Formats an event as one log line.

use proctor_run::Progress;
use proctor_types::{BudgetKind, Ending, PATCH_REJECTED_KIND, count_with_noun};

use super::{
    board::{ProgressBoard, describe_wait},
    repeats::shorten_repeated,
    trial_name::trial_name,
};

/// Formats the event as text. `board` must already include the event.
pub(super) fn format_event(event: &Progress, board: &ProgressBoard) -> String {
    match event {
        Progress::StepEnded { trial, arm, step } => {
            format!("{}: step {step}", trial_name(trial, arm))
        }
        Progress::ActivityChanged { trial, arm, activity: doing } => {
            format!("{}: {doing}", trial_name(trial, arm))
        }
        Progress::EnvironmentBuilt { task, seconds } => {
            format!("{task}: environment built in {seconds:.1} s")
        }
        Progress::FileDamaged { trial, difference: what, reaction: then } => {
            format!("{trial}: {what}; {then}")
        }
        Progress::Started { trial, arm } => format!("{}: started", trial_name(trial, arm)),
        Progress::Resumed { trial, arm, step } => {
            format!("{}: resumed after step {step}", trial_name(trial, arm))
        }
        Progress::RunsElsewhere { trial, arm } => {
            format!("{}: running on another worker", trial_name(trial, arm))
        }
        Progress::EndedElsewhere { trial, arm } => {
            format!("{}: finished by another worker", trial_name(trial, arm))
        }
        Progress::TakenOver { trial, arm } => {
            format!(
                "{}: taken over by another worker, which considered this worker dead",
                trial_name(trial, arm)
            )
        }
        Progress::WorkerLost { trial, arm, worker } => {
            format!("{}: taken over from {worker}", trial_name(trial, arm))
        }
        Progress::NotResumed { trial, arm, reason: why } => {
            format!("{}: cannot be resumed, starting over: {why}", trial_name(trial, arm))
        }
        Progress::GradingRecorded { trial, arm } => {
            format!("{}: grading the recorded patch", trial_name(trial, arm))
        }
        Progress::NotStarted { trial, arm, scope, budget } => {
            let (command, key) = (board.continue_command(), limit_key(*budget));
            let hint = format!("raise it with `{command} --set budget.{scope}.{key}=...`");
            format!(
                "{}: not started: the {scope}'s {budget} limit is used up; {hint}",
                trial_name(trial, arm)
            )
        }
        Progress::WaitStarted { trial, arm, wait: waiting } => {
            format!("{}: {}", trial_name(trial, arm), describe_wait(waiting))
        }
        Progress::WaitEnded { trial, arm, seconds } => {
            format!("{}: waited {seconds:.0} s for the endpoint", trial_name(trial, arm))
        }
        Progress::TryFailed { trial, arm, fault, will_retry } => {
            let next = if *will_retry { "retrying" } else { "giving up" };
            let name = trial_name(trial, arm);
            format!("{name}: {}; {next}", shorten_repeated(&name, &fault.to_string()))
        }
        Progress::SandboxNotClosed { trial, arm, fault } => {
            let name = trial_name(trial, arm);
            let fault = shorten_repeated(&name, &fault.to_string());
            format!("{name}: its sandbox could not be closed; the next run removes it: {fault}")
        }
        Progress::Ended { trial, arm, outcome } => {
            let ending = outcome.ending.name();
            let steps = count_with_noun(outcome.spent.steps, "step");
            let why = match &outcome.ending {
                Ending::ModelRefused { why } => format!(": {why}"),
                Ending::ScaffoldExited { cause, why } => format!(" ({cause}): {why}"),
                _ => String::new(),
            };
            let waited = match outcome.waited_seconds {
                seconds if seconds >= 1.0 => format!(", waited {seconds:.0} s"),
                _ => String::new(),
            };
            format!("{}: {ending} after {steps}{waited}{why}", trial_name(trial, arm))
        }
        Progress::Graded { trial, arm, verdict } => {
            let (done, trials) = board.finished_and_total();
            let word = if verdict.resolved { "resolved" } else { "not resolved" };
            let rate = verdict.passed_rate * 100.0;
            let name = trial_name(trial, arm);
            let rejected = verdict.evidence.iter().find(|one| one.kind == PATCH_REJECTED_KIND);
            let why = rejected.map_or_else(String::new, |one| format!(": {}", one.what));
            format!("{name}: {word}, {rate:.0}% passed ({done}/{trials}){why}")
        }
        Progress::GradingFailed { trial, arm, fault } => {
            let name = trial_name(trial, arm);
            format!("{name}: no verdict: {}", shorten_repeated(&name, &fault.to_string()))
        }
    }
}

/// Returns a limit's key in the configuration.
fn limit_key(kind: BudgetKind) -> String {
    match kind {
        BudgetKind::Cost => "cost_usd".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{ArmId, BudgetScope, TaskId, TrialId};

    use super::*;

    #[test]
    fn not_started_names_the_command_that_raises_the_limit() {
        let trial = TrialId { task: TaskId::new("t"), arm: ArmId::new("a"), attempt: 1 };
        let command = "proctor submit RUN --engine slurm --workers N";
        let board = ProgressBoard::new(std::iter::empty()).with_continue_command(command.into());
        for (scope, budget, key) in [
            (BudgetScope::Run, BudgetKind::Cost, "budget.run.cost_usd=..."),
            (BudgetScope::Arm, BudgetKind::InputTokens, "budget.arm.input_tokens=..."),
        ] {
            let (trial, arm) = (trial.clone(), "noop".to_owned());
            let line = format_event(&Progress::NotStarted { trial, arm, scope, budget }, &board);
            assert!(line.ends_with(&format!("`{command} --set {key}`")), "{line}");
        }
    }
}
