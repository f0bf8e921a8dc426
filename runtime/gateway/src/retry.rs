//! Decides whether a request is retried, and how long to wait before that. The values are in
//! `configs/tables/retry.toml`.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};
use proctor_types::{Fault, FaultLayer, from_toml};
use serde::Deserialize;

/// Times are in seconds. `configs/tables/retry.toml` explains each value.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    pub attempts: u32,
    pub connect_attempts: u32,
    pub first_seconds: f64,
    pub longest_seconds: f64,
    pub total_seconds: f64,
    pub attempt_seconds: f64,
    pub idle_seconds: f64,
    pub notice_seconds: f64,
    pub silent_attempts: u32,
    pub empty_attempts: u32,
    pub rejected_attempts: u32,
    pub cut_streams: u32,
    pub connect_seconds: f64,
    pub silent_share: f64,
    pub silent_seconds: f64,
    pub silent_factor: f64,
    pub alike_trials: usize,
}

impl RetryPolicy {
    /// Returns the built-in policy.
    pub fn shipped() -> Result<Self, Fault> {
        Self::parse(include_str!("../../../configs/tables/retry.toml"))
            .map_err(|fault| fault.context("configs/tables/retry.toml"))
    }

    /// Reads TOML. Errors name the key.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let fault = |what: String| Fault::new(FaultLayer::Model, what);
        let policy: Self = from_toml(text).map_err(fault)?;
        let times = [
            ("first_seconds", policy.first_seconds),
            ("longest_seconds", policy.longest_seconds),
            ("total_seconds", policy.total_seconds),
            ("attempt_seconds", policy.attempt_seconds),
            ("idle_seconds", policy.idle_seconds),
            ("notice_seconds", policy.notice_seconds),
            ("silent_seconds", policy.silent_seconds),
            ("connect_seconds", policy.connect_seconds),
        ];
        for (key, seconds) in times {
            if Duration::try_from_secs_f64(seconds).is_err() {
                return Err(fault(format!("{key}: must be a number of seconds")));
            }
        }
        if policy.notice_seconds <= 0.0 {
            return Err(fault("notice_seconds: must be more than 0".into()));
        }
        let attempts = [
            policy.attempts,
            policy.connect_attempts,
            policy.silent_attempts,
            policy.empty_attempts,
            policy.rejected_attempts,
            policy.cut_streams,
        ];
        if attempts.contains(&0) {
            let what = "attempts, connect_attempts, silent_attempts, empty_attempts, rejected_attempts, cut_streams: \
                        must be at least 1";
            return Err(fault(what.into()));
        }
        if policy.silent_factor.is_nan() || policy.silent_factor < 1.0 {
            return Err(fault("silent_factor: must be at least 1".into()));
        }
        if !(policy.silent_share > 0.0 && policy.silent_share <= 1.0) || policy.alike_trials == 0 {
            let what =
                "silent_share must be more than 0 and at most 1, and alike_trials at least 1";
            return Err(fault(what.into()));
        }
        Ok(policy)
    }

    /// Returns the wait after the `failed_attempts`-th attempt (counted from 1).
    ///
    /// If the endpoint requests a wait, up to 10% is added to it, so that trials that were
    /// rejected together do not retry together. A requested wait of less than a second does not
    /// shorten our own wait, because some endpoints always send 0.
    pub(crate) fn pause(&self, failed_attempts: u32, retry_after: Option<Duration>) -> Duration {
        if let Some(retry_after) =
            retry_after.filter(|retry_after| *retry_after >= Duration::from_secs(1))
        {
            return retry_after.mul_f64(1.0 + 0.1 * fastrand::f64());
        }
        let doubled =
            self.first_seconds * 2f64.powi(failed_attempts.saturating_sub(1).min(30) as i32);
        let most = doubled.min(self.longest_seconds);
        seconds(most * (0.5 + 0.5 * fastrand::f64())).max(retry_after.unwrap_or_default())
    }
}

/// Converts seconds to a duration. Invalid values become zero.
pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Returns the wait that the endpoint requests: `retry-after-ms`, or `Retry-After` in seconds or as
/// a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(ms / 1e3).ok();
    }
    let text = text(header::RETRY_AFTER.as_str())?;
    if let Ok(number) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(number).ok();
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use http::HeaderMap;

    use super::{RetryPolicy, retry_after};

    #[test]
    fn pause_doubles_up_to_the_maximum_and_outlasts_a_minute() {
        let policy = RetryPolicy::shipped().expect("a valid policy");
        for _ in 0..50 {
            for (failed, most) in [(1, 1.0), (2, 2.0), (5, 16.0), (30, 60.0)] {
                let pause = policy.pause(failed, None).as_secs_f64();
                assert!((most / 2.0..=most).contains(&pause), "{failed}: {pause}");
            }
        }
        let least: f64 = (1..policy.attempts).map(|n| policy.pause(n, None).as_secs_f64()).sum();
        assert!(least > 120.0, "a window of a minute must pass: {least}");
    }

    #[test]
    fn pause_follows_retry_after_unless_it_is_zero() {
        let policy = RetryPolicy::shipped().expect("a valid policy");
        let pause = policy.pause(1, Some(Duration::from_secs(90))).as_secs_f64();
        assert!((90.0..=99.0).contains(&pause), "{pause}");
        assert!(policy.pause(3, Some(Duration::ZERO)) >= Duration::from_secs(2));
        assert!(policy.pause(1, Some(Duration::from_millis(900))) >= Duration::from_millis(900));
    }

    #[test]
    fn retry_after_accepts_three_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let date = httpdate::fmt_http_date(now + Duration::from_secs(30));
        let cases = [
            ("retry-after", "7", Some(Duration::from_secs(7))),
            ("retry-after", date.as_str(), Some(Duration::from_secs(30))),
            ("retry-after-ms", "1500", Some(Duration::from_millis(1500))),
            ("retry-after", "soon", None),
            ("retry-after", "-3", None),
        ];
        for (name, value, wanted) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().expect("a header"));
            assert_eq!(retry_after(&headers, now), wanted, "{name}: {value}");
        }
    }

    #[test]
    fn retry_policy_rejects_zero_attempts() {
        let text = include_str!("../../../configs/tables/retry.toml")
            .replace("attempts = 12", "attempts = 0");
        let fault = RetryPolicy::parse(&text).expect_err("zero attempts");
        assert!(fault.what.contains("attempts"), "{fault}");
    }
}
