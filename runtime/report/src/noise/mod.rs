//! Reports how limits and waits affected an arm's trials (`docs/concepts/noise.md`).

mod numbers;
mod tables;

pub use numbers::{NoiseReport, NoiseWaits};
pub(crate) use numbers::{limits_reached_in_grading, trial_noise};
pub(crate) use tables::{describe_grading_limits, describe_trial_limits};
pub use tables::{noise_rows, noise_text};
