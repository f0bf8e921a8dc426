//! Live progress on stderr: one line for each thing that happened.

use std::{
    io::{IsTerminal, Write},
    time::Instant,
};

use proctor_core::Progress;
use tokio::sync::mpsc::UnboundedReceiver;

/// Prints progress until the run lets go of its sender. Steps are shown on a terminal only, where
/// they overwrite each other; a log gets one line an event.
pub async fn watch(mut events: UnboundedReceiver<Progress>, trials: usize) {
    let begun = Instant::now();
    let terminal = std::io::stderr().is_terminal();
    let mut done = 0;
    while let Some(event) = events.recv().await {
        let text = match event {
            Progress::Stepped { trial, arm, step } => {
                if terminal {
                    eprint!("\r\x1b[K{} {arm}: step {step}", trial.task);
                    let _ = std::io::stderr().flush();
                }
                continue;
            }
            Progress::EnvironmentBuilt { task, seconds } => {
                format!("{task}: environment built in {seconds:.1} s")
            }
            Progress::Started { trial, arm } => format!("{} {arm}: started", trial.task),
            Progress::TryFailed { trial, arm, fault, will_retry } => {
                let next = if will_retry { "trying again" } else { "giving up" };
                format!("{} {arm}: {fault}; {next}", trial.task)
            }
            Progress::Ended { trial, arm, outcome } => {
                let (name, steps) = (outcome.ending.name(), outcome.spent.steps);
                format!("{} {arm}: {name} after {steps} steps", trial.task)
            }
            Progress::Graded { trial, arm, verdict } => {
                done += 1;
                let word = if verdict.resolved { "resolved" } else { "not resolved" };
                let rate = verdict.passed_rate * 100.0;
                format!("{} {arm}: {word}, {rate:.0} % passed ({done}/{trials})", trial.task)
            }
            Progress::GradingFailed { trial, arm, fault } => {
                format!("{} {arm}: no verdict: {fault}", trial.task)
            }
        };
        let clear = if terminal { "\r\x1b[K" } else { "" };
        eprintln!("{clear}[{:7.2} s] {text}", begun.elapsed().as_secs_f64());
    }
}
