//! Rate limits of endpoints: `[endpoints]` of a run configuration, and `configs/tables/rates.toml`.

use std::time::Duration;

pub use proctor_types::EndpointRates;
use proctor_types::{Fault, FaultLayer, from_toml};
use serde::Deserialize;

/// How limits are enforced and learned. `configs/tables/rates.toml` explains each value.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatePolicy {
    pub window_seconds: f64,
    pub decrease: f64,
    pub increase: f64,
    pub longest_pause_seconds: f64,
}

impl RatePolicy {
    /// Returns the built-in policy.
    pub fn shipped() -> Result<Self, Fault> {
        Self::parse(include_str!("../../../configs/tables/rates.toml"))
            .map_err(|fault| fault.context("configs/tables/rates.toml"))
    }

    /// Reads TOML. Errors name the key.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let fault = |what: &str| Fault::new(FaultLayer::Model, what);
        let policy: Self = from_toml(text).map_err(|error| fault(&error))?;
        for seconds in [policy.window_seconds, policy.longest_pause_seconds] {
            if Duration::try_from_secs_f64(seconds).is_err() {
                return Err(fault(
                    "window_seconds, longest_pause_seconds: must be a number of seconds",
                ));
            }
        }
        if !(0.0..1.0).contains(&policy.decrease)
            || policy.increase.is_nan()
            || policy.increase <= 0.0
        {
            return Err(fault("decrease must be at least 0 and below 1, increase greater than 0"));
        }
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::RatePolicy;

    #[test]
    fn rate_policy_rejects_values_out_of_range() {
        let text = include_str!("../../../configs/tables/rates.toml");
        for (from, to) in [("decrease = 0.5", "decrease = 1.0"), ("60.0", "-1.0")] {
            assert!(RatePolicy::parse(&text.replace(from, to)).is_err(), "{to}");
        }
    }
}
