//! Cleans up after sandboxes that were dropped without being closed, in separate threads.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// Counts a cleanup thread while it runs.
struct RunningGuard;

impl RunningGuard {
    fn new() -> Self {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_all();
    }
}

/// Runs `work` in its own thread, because `work` waits for processes to die and the async runtime
/// may be shutting down.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) {
    let running = RunningGuard::new();
    thread::spawn(move || {
        work();
        drop(running);
    });
}

/// Waits, for at most `patience`, until the control groups of dropped sandboxes are removed.
///
/// Call this after the async runtime has shut down and before the process exits: exiting would end
/// the threads that remove the groups.
pub fn wait_for_dropped_sandboxes(patience: Duration) {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    // If any groups are left, the next run removes them.
    drop(ENDED.wait_timeout_while(running, patience, |running| *running > 0));
}
