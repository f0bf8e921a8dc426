//! Confidence intervals, paired tests and power calculations for results on shared tasks.
//! `docs/concepts/statistics.md` explains when each method is used and gives its source.
//!
//! The crate knows nothing about runs or trials: functions take and return numbers. Every
//! resampling is seeded from its own sorted data, so that two reports of one record are identical.

mod agreement;
mod bca;
mod bootstrap;
mod holm;
mod mcnemar;
mod normal;
mod pass_k;
mod power;
mod proportion;
mod rank;
mod ratio;
mod resampling;
mod rounding;
mod sign_flip;
mod variance;

pub use agreement::reconcile_with_test;
pub use bca::bca_interval;
pub use bootstrap::{
    PairedDifference, Scale, adjusted_interval, mean_interval, paired_bootstrap, paired_p_value,
};
pub use holm::holm_p_values;
pub use mcnemar::{
    adjusted_difference_interval, difference_interval, mcnemar_exact_p, mcnemar_mid_p,
};
pub use pass_k::{pass_at_k, pass_hat_k};
pub use power::{
    PowerTarget, detectable_difference, detectable_mean_difference, mcnemar_detectable_difference,
    mcnemar_power, mcnemar_tasks_needed, tasks_for_mean_difference,
};
pub use proportion::{clustered_wilson_interval, wilson_interval};
pub use rank::{RankAgreement, kendall_tau, rank_agreement};
pub use ratio::{Ratio, estimate_ratio};
pub use rounding::difference;
pub use variance::{VarianceComponents, variance_components};

/// Lower and upper end of an interval.
pub type Interval = [f64; 2];

/// The level of every interval that Proctor prints.
pub const CONFIDENCE_LEVEL: f64 = 0.95;
/// The two-sided significance level.
pub const ALPHA: f64 = 0.05;
/// The statistical power for which task counts are computed.
pub const POWER: f64 = 0.8;
