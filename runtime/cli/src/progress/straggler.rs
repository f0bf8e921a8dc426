//! Describes the trial that has been running longest.

use super::board::format_clock;

/// Only a trial that has run for at least this many seconds is described.
const MIN_STRAGGLER_SECONDS: f64 = 60.0;

/// A trial that has begun and has no verdict.
#[derive(Debug)]
pub struct OpenTrial {
    pub name: String,
    /// When the trial's try began, in seconds since the epoch. If the try was interrupted, the time
    /// of the interruption is added, so that it does not count as running time.
    pub start_time: f64,
    /// Maximum duration of the try in seconds, including setup and grading. `None` if the agent has
    /// no wall-time limit.
    pub max_seconds: Option<f64>,
}

/// Describes the longest-running trial and when its limits end it. `None` if it began less than a
/// minute ago.
pub fn describe_straggler(
    open_trials: impl Iterator<Item = OpenTrial>,
    now: f64,
) -> Option<String> {
    let oldest = open_trials.min_by(|one, other| one.start_time.total_cmp(&other.start_time))?;
    let ran = now - oldest.start_time;
    if ran < MIN_STRAGGLER_SECONDS {
        return None;
    }
    let end = match oldest.max_seconds.map(|limit| limit - ran) {
        None => "no wall time limit".to_owned(),
        Some(left) if left >= 0.0 => format!("ends in at most {}", format_clock(left)),
        Some(left) => format!("{} past its time limit", format_clock(-left)),
    };
    Some(format!("longest: {} for {}, {end}", oldest.name, format_clock(ran)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describe_straggler_names_the_oldest_trial_and_its_deadline() {
        let open = |name: &str, since, limit| OpenTrial {
            name: name.into(),
            start_time: since,
            max_seconds: limit,
        };
        let said = |limit| {
            describe_straggler(
                [open("a", 950.0, None), open("b", 400.0, limit)].into_iter(),
                1000.0,
            )
        };
        assert_eq!(said(Some(1200.0)).unwrap(), "longest: b for 10:00, ends in at most 10:00");
        assert_eq!(said(Some(540.0)).unwrap(), "longest: b for 10:00, 1:00 past its time limit");
        assert!(said(None).unwrap().contains("no wall time limit"));
        assert!(describe_straggler([open("a", 950.0, None)].into_iter(), 1000.0).is_none());
        assert!(describe_straggler(std::iter::empty(), 1000.0).is_none());
    }
}
