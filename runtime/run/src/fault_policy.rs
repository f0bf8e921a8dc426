//! How a fault affects its trial and the rest of the plan, as configured in `configs/tables/faults.toml`.

use std::{collections::BTreeMap, time::Duration};

use proctor_types::{Fault, FaultCause, FaultLayer, from_toml};
use serde::Deserialize;

const SHIPPED_TOML: &str = include_str!("../../../configs/tables/faults.toml");

/// Factor that multiplies the wait after each failed try.
const WAIT_GROWTH_FACTOR: f64 = 4.0;

/// The table of `configs/tables/faults.toml`.
#[derive(Debug, Clone)]
pub struct FaultPolicy {
    retry_limits: RetryLimits,
    back_end_patience: BackEndPatience,
    rules: BTreeMap<(FaultLayer, FaultCause), FaultRule>,
}

/// Kinds of scopes. All trials in a scope are halted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScopeKind {
    Task,
    Builds,
    BackEnd,
    Run,
}

/// A scope in which a fault counts toward a halt, and the number of faults that halts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HaltThreshold {
    pub(crate) scope: ScopeKind,
    /// Number of consecutive trials, or of tasks for `builds`.
    pub(crate) after: usize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultTable {
    tries: RetryLimits,
    back_end: BackEndPatience,
    fault: Vec<FaultRule>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryLimits {
    most: u32,
    first_wait_seconds: f64,
    longest_wait_seconds: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackEndPatience {
    patience_seconds: f64,
    look_seconds: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultRule {
    layer: FaultLayer,
    cause: FaultCause,
    retry: bool,
    #[serde(default)]
    goes_on: bool,
    #[serde(default)]
    counts: Vec<HaltThreshold>,
}

impl FaultPolicy {
    /// Returns the built-in table.
    ///
    /// # Errors
    /// Fails if the table is invalid. The fault names the invalid row or key.
    pub fn shipped() -> Result<Self, Fault> {
        Self::parse(SHIPPED_TOML).map_err(|what| {
            Fault::new(FaultLayer::Setup, what).context("configs/tables/faults.toml")
        })
    }

    /// Overrides the waits, so that tests need not wait for minutes.
    #[must_use]
    pub fn with_waits(mut self, retry_wait: Duration, back_end_wait: Duration) -> Self {
        self.retry_limits.first_wait_seconds = retry_wait.as_secs_f64();
        self.back_end_patience.patience_seconds = back_end_wait.as_secs_f64();
        self
    }

    fn parse(text: &str) -> Result<Self, String> {
        let FaultTable { tries, back_end, fault } = from_toml(text)?;
        let times = [
            ("tries.first_wait_seconds", tries.first_wait_seconds),
            ("tries.longest_wait_seconds", tries.longest_wait_seconds),
            ("back_end.patience_seconds", back_end.patience_seconds),
            ("back_end.look_seconds", back_end.look_seconds),
        ];
        for (key, seconds) in times {
            if Duration::try_from_secs_f64(seconds).is_err() {
                return Err(format!("{key}: not a time in seconds"));
            }
        }
        let mut rows = BTreeMap::new();
        for row in fault {
            let (layer, cause) = (row.layer, row.cause);
            if row.counts.iter().any(|counts| counts.after == 0) {
                return Err(format!("{layer}, {cause}: `after` must be at least 1"));
            }
            if rows.insert((layer, cause), row).is_some() {
                return Err(format!("{layer}, {cause}: duplicate row"));
            }
        }
        for layer in [
            FaultLayer::Environment,
            FaultLayer::Sandbox,
            FaultLayer::Setup,
            FaultLayer::Model,
            FaultLayer::Record,
            FaultLayer::Grade,
        ] {
            if !rows.contains_key(&(layer, FaultCause::Other)) {
                return Err(format!("{layer}: no row for the cause `other`"));
            }
        }
        Ok(Self { retry_limits: tries, back_end_patience: back_end, rules: rows })
    }

    fn find_rule(&self, fault: &Fault) -> Option<&FaultRule> {
        let of = |cause| self.rules.get(&(fault.layer, cause));
        of(fault.cause).or_else(|| of(FaultCause::Other))
    }

    /// Whether another try might succeed after this fault.
    pub fn is_retryable(&self, fault: &Fault) -> bool {
        self.find_rule(fault).is_some_and(|row| row.retry)
    }

    /// Whether a trial gets another try. `tries` is the number of its tries in this invocation so
    /// far, and `fault` ended the last one.
    pub fn should_retry(&self, fault: &Fault, tries: u32) -> bool {
        self.is_retryable(fault) && tries < self.retry_limits.most
    }

    /// Whether a try that ended with this fault can be resumed from its last recorded step,
    /// provided that the scaffold supports resuming.
    pub(crate) fn is_resumable(&self, fault: &Fault) -> bool {
        self.find_rule(fault).is_some_and(|row| row.goes_on)
    }

    pub(crate) fn halt_thresholds(&self, fault: &Fault) -> &[HaltThreshold] {
        self.find_rule(fault).map_or(&[], |row| &row.counts)
    }

    /// Returns how long to wait after try number `tries`. The wait is randomized, so that trials
    /// that failed together do not retry together.
    pub(crate) fn retry_delay(&self, tries: u32) -> Duration {
        let doubled = WAIT_GROWTH_FACTOR.powi(tries.saturating_sub(1).min(30).cast_signed());
        let most = (self.retry_limits.first_wait_seconds * doubled)
            .min(self.retry_limits.longest_wait_seconds);
        Duration::from_secs_f64(most * (0.5 + 0.5 * fastrand::f64()))
    }

    /// Returns how long to wait for an unavailable back end, and the interval between checks.
    pub(crate) fn back_end_waits(&self) -> (Duration, Duration) {
        let seconds = Duration::from_secs_f64;
        (
            seconds(self.back_end_patience.patience_seconds),
            seconds(self.back_end_patience.look_seconds),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(layer: FaultLayer, cause: FaultCause) -> Fault {
        Fault::new(layer, "it").cause(cause)
    }

    #[test]
    fn only_transient_faults_are_retried_up_to_the_limit() {
        let policy = FaultPolicy::shipped().unwrap();
        assert!(policy.should_retry(&fault(FaultLayer::Sandbox, FaultCause::Gone), 1));
        assert!(!policy.should_retry(&fault(FaultLayer::Sandbox, FaultCause::Gone), 3));
        let never = [
            (FaultLayer::Sandbox, FaultCause::Refused),
            (FaultLayer::Sandbox, FaultCause::Cancelled),
            (FaultLayer::Setup, FaultCause::Leak),
            (FaultLayer::Environment, FaultCause::Missing),
            (FaultLayer::Model, FaultCause::Refused),
            (FaultLayer::Grade, FaultCause::Missing),
            (FaultLayer::Record, FaultCause::NoSpace),
        ];
        for (layer, cause) in never {
            assert!(!policy.should_retry(&fault(layer, cause), 1), "{layer} {cause}");
        }
        // If a layer and cause have no row, the layer's `other` row applies.
        assert!(policy.is_retryable(&fault(FaultLayer::Grade, FaultCause::Outage)));
    }

    #[test]
    fn external_faults_keep_recorded_steps() {
        let policy = FaultPolicy::shipped().unwrap();
        for (layer, cause) in [
            (FaultLayer::Model, FaultCause::Outage),
            (FaultLayer::Model, FaultCause::Refused),
            (FaultLayer::Model, FaultCause::Rejected),
            (FaultLayer::Sandbox, FaultCause::Gone),
            (FaultLayer::Record, FaultCause::NoSpace),
        ] {
            assert!(policy.is_resumable(&fault(layer, cause)), "{layer} {cause}");
        }
        // The try's record may be the cause of the fault, so the try cannot be resumed.
        for layer in [FaultLayer::Record, FaultLayer::Model] {
            assert!(!policy.is_resumable(&fault(layer, FaultCause::Invalid)), "{layer}");
        }
    }

    #[test]
    fn retry_delay_grows_up_to_the_maximum() {
        let policy = FaultPolicy::shipped().unwrap();
        for (done, most) in [(1, 1.0), (2, 4.0), (3, 16.0), (9, 30.0)] {
            let wait = policy.retry_delay(done).as_secs_f64();
            assert!((most / 2.0..=most).contains(&wait), "{done}: {wait}");
        }
    }

    #[test]
    fn fault_table_with_a_gap_or_duplicate_is_rejected() {
        let second = "[[fault]]\nlayer = \"grade\"\ncause = \"other\"\nretry = true\n";
        let error = FaultPolicy::parse(&format!("{SHIPPED_TOML}\n{second}")).unwrap_err();
        assert!(error.contains("grade, other: duplicate row"), "{error}");
        let error =
            FaultPolicy::parse(&SHIPPED_TOML.replace("after = 3", "after = 0")).unwrap_err();
        assert!(error.contains("at least 1"), "{error}");
        let start = SHIPPED_TOML.find("# --- grade").unwrap();
        let error = FaultPolicy::parse(&SHIPPED_TOML[..start]).unwrap_err();
        assert!(error.contains("grade: no row"), "{error}");
    }
}
