//! Cleans up after sandboxes that were dropped instead of closed, in separate threads.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// Counts a cleanup thread as long as it runs.
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

/// Runs `work` on its own thread, because it waits for processes to die and the async runtime may
/// be shutting down.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) {
    let running = RunningGuard::new();
    thread::spawn(move || {
        work();
        drop(running);
    });
}

/// Waits until the control groups of dropped sandboxes are removed, for at most `patience`.
///
/// Call it after the async runtime is shut down and before the process exits, because exiting also
/// ends the threads that remove the groups.
pub fn wait_for_dropped_sandboxes(patience: Duration) {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    // The next run removes any groups that are still left.
    drop(ENDED.wait_timeout_while(running, patience, |running| *running > 0));
}
