//! Reaps all child processes. No other part of the agent waits for processes.
//!
//! As process 1, or otherwise as a subreaper, the agent inherits every orphan in the sandbox. So
//! one thread waits for all children and passes the commands' exit statuses to their listeners.
//! Waiting for a single child elsewhere would race with that thread.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

/// How often an agent without children checks for orphans that it did not start, such as processes
/// that a container engine started in the sandbox.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How a command ended.
#[derive(Debug, Clone, Copy)]
pub struct ExitState {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub ended_at: Instant,
}

type ExitListener = Box<dyn FnOnce(ExitState) + Send>;

#[derive(Default)]
pub struct Reaper {
    state: Mutex<ReaperState>,
    process_spawned: Condvar,
}

#[derive(Default)]
struct ReaperState {
    listeners: HashMap<i32, ExitListener>,
    is_closed: bool,
}

impl Reaper {
    pub fn start() -> io::Result<Arc<Self>> {
        let reaper = Arc::new(Self::default());
        let own = Arc::clone(&reaper);
        thread::Builder::new().stack_size(128 << 10).spawn(move || own.reap())?;
        Ok(reaper)
    }

    /// Starts a process with `spawn` and calls `listener` once the process has ended. Holds the
    /// lock in between, so that a process that ends immediately is not reaped before its listener
    /// is registered. Under the lock, the standard library can also wait for a child whose `exec`
    /// failed.
    pub fn spawn_with_listener(
        &self,
        spawn: impl FnOnce() -> io::Result<i32>,
        listener: impl FnOnce(ExitState) + Send + 'static,
    ) -> io::Result<i32> {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let pid = spawn()?;
        waiting.listeners.insert(pid, Box::new(listener));
        drop(waiting);
        self.process_spawned.notify_all();
        Ok(pid)
    }

    /// Prevents further processes from being started, so that the final kill leaves none behind.
    pub fn close(&self) {
        self.lock().is_closed = true;
    }

    fn lock(&self) -> MutexGuard<'_, ReaperState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reap(&self) {
        loop {
            let Some(pid) = wait_for_dead_child() else {
                let waiting = self.lock();
                if waiting.listeners.is_empty() {
                    let _ = self.process_spawned.wait_timeout(waiting, IDLE_POLL_INTERVAL);
                }
                continue;
            };
            // Collect the status only under the lock; see `spawn_with_listener`.
            let mut waiting = self.lock();
            let Ok(Some((_, status))) = waitpid(Some(pid), WaitOptions::NOHANG) else { continue };
            let listener = waiting.listeners.remove(&pid.as_raw_nonzero().get());
            drop(waiting);
            if let Some(listener) = listener {
                listener(exit_state(status));
            }
        }
    }
}

fn exit_state(status: WaitStatus) -> ExitState {
    ExitState {
        code: status.exit_status(),
        signal: status.terminating_signal(),
        ended_at: Instant::now(),
    }
}

/// Waits until a child is dead, but does not reap it. Returns `None` if there are no children.
#[expect(unsafe_code, reason = "rustix does not return the process id of a waitid")]
fn wait_for_dead_child() -> Option<Pid> {
    loop {
        // SAFETY: `info` is a plain C structure, valid when zeroed, and outlives the call.
        let (done, pid) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let done = libc::waitid(libc::P_ALL, 0, &raw mut info, libc::WEXITED | libc::WNOWAIT);
            (done, info.si_pid())
        };
        if done == 0 {
            return Pid::from_raw(pid);
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return None;
        }
    }
}
