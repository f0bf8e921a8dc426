//! Cleans up after sandboxes that were dropped without being closed, in separate threads.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

static RUNNING_COUNT: Mutex<usize> = Mutex::new(0);
static CLEANUP_ENDED: Condvar = Condvar::new();

/// Counts a cleanup thread while it runs.
struct RunningGuard;

impl RunningGuard {
    fn new() -> Self {
        *RUNNING_COUNT.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        *RUNNING_COUNT.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        CLEANUP_ENDED.notify_all();
    }
}

/// Runs `cleanup` in its own thread, because `cleanup` waits for processes to die and the async
/// runtime may be shutting down.
pub(crate) fn spawn(cleanup: impl FnOnce() + Send + 'static) {
    let running = RunningGuard::new();
    thread::spawn(move || {
        cleanup();
        drop(running);
    });
}

/// Waits, for at most `timeout`, until the cgroups of dropped sandboxes are removed.
///
/// Call this after the async runtime has shut down and before the process exits: exiting would end
/// the threads that remove the groups.
pub fn wait_for_dropped_sandboxes(timeout: Duration) {
    let running = RUNNING_COUNT.lock().unwrap_or_else(PoisonError::into_inner);
    // If any groups are left, the next run removes them.
    drop(CLEANUP_ENDED.wait_timeout_while(running, timeout, |running| *running > 0));
}
