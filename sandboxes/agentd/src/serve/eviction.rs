//! Makes room in a sandbox that is full of processes.
//!
//! The agent's threads count as processes of the sandbox. A program that leaves many processes
//! behind must not prevent the agent from responding: the trial would end with a sandbox fault,
//! although nothing is wrong with the sandbox. So if there is no room for a thread or a command,
//! the agent kills the leftover processes of finished commands.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::processes::{kill_until_gone, leftover_processes};

/// How long the agent keeps freezing newly forked processes before it kills all that it has found.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long to wait for the reaper: dead processes occupy slots until it reaps them.
const REAP_DELAY: Duration = Duration::from_millis(50);

static IS_DISABLED: AtomicBool = AtomicBool::new(false);

/// Disables this defense, for a test.
pub fn disable_eviction() {
    IS_DISABLED.store(true, Ordering::Relaxed);
}

/// Kills all processes that belong to no running command. Returns whether there were any.
pub fn evict() -> bool {
    if IS_DISABLED.load(Ordering::Relaxed) {
        return false;
    }
    // Freeze the processes before killing them. Until one dies, the sandbox stays full and nothing
    // can fork.
    let begun = Instant::now();
    let mut stopped = HashSet::new();
    loop {
        let found: Vec<_> = leftover_processes()
            .into_iter()
            .filter(|process| stopped.insert(process.pid))
            .collect();
        if found.is_empty() || begun.elapsed() > FREEZE_TIMEOUT {
            break;
        }
        for pid in found.iter().filter_map(|process| Pid::from_raw(process.pid)) {
            let _ = kill_process(pid, Signal::STOP);
        }
    }
    let killed = kill_until_gone(leftover_processes);
    thread::sleep(REAP_DELAY);
    killed > 0
}
