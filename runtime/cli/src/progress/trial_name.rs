//! The name of a trial in progress output.

use proctor_types::TrialId;

/// Formats a trial's name for people: the task, the arm's name, and the attempt unless it is the first.
pub fn trial_name(trial: &TrialId, arm: &str) -> String {
    match trial.attempt {
        1 => format!("{} {arm}", trial.task),
        attempt => format!("{} {arm} #{attempt}", trial.task),
    }
}
