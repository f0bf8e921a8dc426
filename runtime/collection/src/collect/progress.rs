//! Tracks a collection's progress and estimates the remaining time. The estimate is only displayed
//! and never written to a file.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Counts finished items. The estimate ignores cached items, because they take no time.
#[derive(Debug)]
pub(crate) struct Progress {
    total: usize,
    uncached_total: usize,
    counts: Mutex<ProgressCounts>,
}

#[derive(Debug, Default)]
struct ProgressCounts {
    finished: usize,
    uncached_finished: usize,
    started_at: Option<Instant>,
}

impl Progress {
    /// Starts tracking `total` items, of which `uncached_total` are not cached.
    pub(crate) fn new(total: usize, uncached_total: usize) -> Self {
        Self { total, uncached_total, counts: Mutex::default() }
    }

    /// Records the start of an item that is not cached.
    pub(crate) fn begin(&self) {
        let mut so_far = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        so_far.started_at.get_or_insert_with(Instant::now);
    }

    /// Records a finished item and returns a message: `3 of 10 done, about 4 min left`.
    pub(crate) fn end(&self, is_uncached: bool) -> String {
        let mut so_far = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        so_far.finished += 1;
        so_far.uncached_finished += usize::from(is_uncached);
        let elapsed = so_far.started_at.map(|begun| begun.elapsed()).unwrap_or_default();
        let remaining = estimate_remaining(
            elapsed,
            so_far.uncached_finished,
            self.uncached_total.saturating_sub(so_far.uncached_finished),
        );
        let left = remaining
            .map(|left| format!(", about {} left", format_duration(left)))
            .unwrap_or_default();
        format!("{} of {} done{left}", so_far.finished, self.total)
    }
}

/// Estimates the remaining time. Returns `None` if no item is finished yet, or if all are.
fn estimate_remaining(elapsed: Duration, finished: usize, remaining: usize) -> Option<Duration> {
    let each = elapsed.checked_div(u32::try_from(finished).ok()?)?;
    (remaining > 0).then(|| each.saturating_mul(u32::try_from(remaining).unwrap_or(u32::MAX)))
}

/// Formats a duration. It is rounded, because it is only an estimate.
fn format_duration(time: Duration) -> String {
    let minutes = (time.as_secs_f64() / 60.0).round() as u64;
    match (minutes / 60, minutes % 60) {
        (0, 0..=1) => format!("{} s", time.as_secs().div_ceil(10).max(1) * 10),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_items_do_not_affect_the_estimate() {
        let seconds = Duration::from_secs;
        assert_eq!(estimate_remaining(seconds(0), 0, 9), None, "no item is finished yet");
        assert_eq!(estimate_remaining(seconds(60), 2, 3), Some(seconds(90)));
        assert_eq!(estimate_remaining(seconds(60), 5, 0), None, "all items are finished");
        let progress = Progress::new(3, 2);
        assert_eq!(progress.end(false), "1 of 3 done");
        progress.begin();
        assert_eq!(progress.end(true), "2 of 3 done, about 10 s left");
        assert_eq!(progress.end(true), "3 of 3 done");
        let said = [3, 71, 200, 3700, 86_400].map(|it| format_duration(seconds(it)));
        assert_eq!(said, ["10 s", "80 s", "3 min", "1 h 2 min", "24 h 0 min"]);
    }
}
