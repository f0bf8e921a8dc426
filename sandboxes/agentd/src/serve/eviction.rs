//! A sandbox that is full.
//!
//! The agent's threads count as processes of the sandbox. A program that leaves a swarm behind must not
//! be able to keep the agent from answering: the trial would end as a fault of the sandbox, and it is
//! none. So where there is no place for a thread or a command, what finished commands left goes.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::processes::{kill_until_gone, left_behind};

/// How long a swarm is chased before it is killed as far as it is known.
const FREEZE_LIMIT: Duration = Duration::from_secs(3);

/// What the reaper may take to bury the dead: until then they hold their places.
const BURIAL: Duration = Duration::from_millis(50);

static NEVER: AtomicBool = AtomicBool::new(false);

/// Leaves this defence out, for a test.
pub fn never_evict() {
    NEVER.store(true, Ordering::Relaxed);
}

/// Kills what belongs to no running command. Whether anything was there to be killed.
pub fn evict() -> bool {
    if NEVER.load(Ordering::Relaxed) {
        return false;
    }
    // Stopped before killed: as long as nobody dies the sandbox stays full, and nobody can fork.
    let begun = Instant::now();
    let mut stopped = HashSet::new();
    loop {
        let found: Vec<_> =
            left_behind().into_iter().filter(|process| stopped.insert(process.pid)).collect();
        if found.is_empty() || begun.elapsed() > FREEZE_LIMIT {
            break;
        }
        for pid in found.iter().filter_map(|process| Pid::from_raw(process.pid)) {
            let _ = kill_process(pid, Signal::STOP);
        }
    }
    let killed = kill_until_gone(left_behind);
    thread::sleep(BURIAL);
    killed > 0
}
