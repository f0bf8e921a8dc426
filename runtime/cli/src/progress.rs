//! Live progress on stderr: one line for each thing that happened.

use std::{
    collections::BTreeSet,
    io::{IsTerminal, Write},
    time::Instant,
};

use proctor_core::Progress;
use proctor_gateway::Waiting;
use proctor_report::wrapped;
use proctor_types::{Ending, PATCH_REJECTED, TrialId, plural};
use tokio::sync::mpsc::UnboundedReceiver;

/// Prints progress until the run lets go of its sender. Steps are shown on a terminal only, where
/// they overwrite each other; a log gets one line an event. `done` trials had their verdict before.
pub async fn watch(
    mut events: UnboundedReceiver<Progress>,
    mut done: BTreeSet<TrialId>,
    trials: usize,
) {
    let begun = Instant::now();
    let terminal = std::io::stderr().is_terminal();
    while let Some(event) = events.recv().await {
        if let Progress::Stepped { trial, arm, step } = &event {
            if terminal {
                eprint!("\r\x1b[K{}: step {step}", name(trial, arm));
                let _ = std::io::stderr().flush();
            }
            continue;
        }
        let text = told(event, &mut done, trials);
        let clear = if terminal { "\r\x1b[K" } else { "" };
        let line = format!("[{:7.2} s] {text}", begun.elapsed().as_secs_f64());
        eprintln!("{clear}{}", wrapped(&line));
    }
}

/// An event in one line. A trial that is graded once more is done once: no counter passes its total.
fn told(event: Progress, done: &mut BTreeSet<TrialId>, trials: usize) -> String {
    match event {
        Progress::Stepped { trial, arm, step } => format!("{}: step {step}", name(&trial, &arm)),
        Progress::EnvironmentBuilt { task, seconds } => {
            format!("{task}: environment built in {seconds:.1} s")
        }
        Progress::Damaged { trial, what, then } => format!("{trial}: {what}; {then}"),
        Progress::Started { trial, arm } => format!("{}: started", name(&trial, &arm)),
        Progress::Resumed { trial, arm, step } => {
            format!("{}: goes on after step {step}", name(&trial, &arm))
        }
        Progress::Elsewhere { trial, arm } => {
            format!("{}: another runtime works on it", name(&trial, &arm))
        }
        Progress::NotResumed { trial, arm, why } => {
            format!("{}: cannot go on where it was, and begins anew: {why}", name(&trial, &arm))
        }
        Progress::GradingRecorded { trial, arm } => {
            format!("{}: grading the recorded patch", name(&trial, &arm))
        }
        Progress::NotStarted { trial, arm, scope, budget } => {
            let hint = format!("`proctor resume RUN --set budget.{scope}...` raises it");
            format!(
                "{}: not started: the {scope}'s {budget} limit is spent; {hint}",
                name(&trial, &arm)
            )
        }
        Progress::Waiting { trial, arm, waiting } => {
            let why = match waiting {
                Waiting::Queued(so_far) => format!(
                    "waits for its turn (a rate limit, or a limit that trials share), {:.0} s by now",
                    so_far.as_secs_f64()
                ),
                Waiting::Silent { model, so_far } => format!(
                    "the model {model} has not sent a byte for {:.0} s",
                    so_far.as_secs_f64()
                ),
                Waiting::BackOff { attempt, attempts, why, pause } => format!(
                    "attempt {attempt} of {attempts}: {why}; waiting {:.0} s",
                    pause.as_secs_f64()
                ),
            };
            format!("{}: {why}", name(&trial, &arm))
        }
        Progress::Waited { trial, arm, seconds } => {
            format!("{}: waited {seconds:.0} s for the endpoint", name(&trial, &arm))
        }
        Progress::TryFailed { trial, arm, fault, will_retry } => {
            let next = if will_retry { "trying again" } else { "giving up" };
            format!("{}: {fault}; {next}", name(&trial, &arm))
        }
        Progress::NotClosed { trial, arm, fault } => {
            let name = name(&trial, &arm);
            format!("{name}: its sandbox could not be closed; the next run removes it: {fault}")
        }
        Progress::Ended { trial, arm, outcome } => {
            let ending = outcome.ending.name();
            let steps = plural(outcome.spent.steps, "step");
            let why = match &outcome.ending {
                Ending::ModelRefused { why } => format!(": {why}"),
                Ending::ScaffoldExited { cause, why } => format!(" ({cause}): {why}"),
                _ => String::new(),
            };
            let waited = match outcome.waited_seconds {
                seconds if seconds >= 1.0 => format!(", {seconds:.0} s of waits"),
                _ => String::new(),
            };
            format!("{}: {ending} after {steps}{waited}{why}", name(&trial, &arm))
        }
        Progress::Graded { trial, arm, verdict } => {
            done.insert(trial.clone());
            let word = if verdict.resolved { "resolved" } else { "not resolved" };
            let rate = verdict.passed_rate * 100.0;
            let name = name(&trial, &arm);
            let rejected = verdict.evidence.iter().find(|one| one.kind == PATCH_REJECTED);
            let why = rejected.map_or_else(String::new, |one| format!(": {}", one.what));
            format!("{name}: {word}, {rate:.0} % passed ({}/{trials}){why}", done.len())
        }
        Progress::GradingFailed { trial, arm, fault } => {
            format!("{}: no verdict: {fault}", name(&trial, &arm))
        }
    }
}

/// A trial as people know it: the task, the arm's name, and which attempt where there were more.
fn name(trial: &TrialId, arm: &str) -> String {
    match trial.attempt {
        1 => format!("{} {arm}", trial.task),
        attempt => format!("{} {arm} #{attempt}", trial.task),
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{ArmId, TaskId};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trial_that_is_graded_again_is_done_once() {
        let trial = |attempt| TrialId { task: TaskId::new("t"), arm: ArmId::new("a"), attempt };
        let graded = |attempt| Progress::Graded {
            trial: trial(attempt),
            arm: "noop".into(),
            verdict: serde_json::from_value(json!({
                "schema_version": 1, "task": "t", "resolved": true, "passed_rate": 1.0,
                "fail_to_pass": {"passed": ["f"], "failed": []},
                "pass_to_pass": {"passed": [], "failed": []}, "tests": {"f": "passed"},
                "policies": {}, "integrity": "clean", "evidence": []
            }))
            .unwrap(),
        };
        // The first had its verdict before this process began.
        let mut done = BTreeSet::from([trial(1)]);
        let mut last = |attempt| told(graded(attempt), &mut done, 2);
        assert!(last(1).ends_with("(1/2)"));
        assert!(last(2).ends_with("(2/2)"));
        assert!(last(2).ends_with("(2/2)"));
    }
}
