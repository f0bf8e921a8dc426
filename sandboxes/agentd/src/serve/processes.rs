//! Finds the processes in the sandbox, assigns them to commands, and kills them.
//!
//! A process can leave its group, its session and its parent, so none of them reliably shows which
//! command it belongs to. The agent therefore marks every command with a hard resource limit that
//! no program uses: `RLIMIT_RTTIME`, lowered by the command's number. The limit is inherited
//! through fork and exec, cannot be raised without a capability, and can be read from `/proc`.
//!
//! Two alternatives were rejected: an environment variable, because a command's environment is
//! exactly what the host requested; and a cgroup, because its files are often not writable.

use std::{
    collections::{BTreeMap, HashSet},
    fs, io, process,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{
    Pid, Resource, Signal, getpid, getrlimit, kill_process, kill_process_group,
    test_kill_process_group,
};

use super::proc_file;

/// How long the agent tries to kill processes before it gives up.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The base of the marks if the sandbox has no `RLIMIT_RTTIME`, in microseconds (35 years).
const DEFAULT_MARK_BASE: u64 = 1 << 50;

/// The flag of a kernel thread in `/proc/<pid>/stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;

static RTTIME_LIMIT: OnceLock<u64> = OnceLock::new();
static ISSUED_MARK_COUNT: AtomicU64 = AtomicU64::new(0);
static RUNNING_COMMANDS: Mutex<BTreeMap<i32, Mark>> = Mutex::new(BTreeMap::new());

/// The number of a command in this sandbox. It determines the resource limit that marks the
/// command's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u64);

impl Mark {
    pub fn next() -> Self {
        Self(ISSUED_MARK_COUNT.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub fn limit(self) -> u64 {
        own_limit().saturating_sub(self.0)
    }
}

/// Returns the running commands, keyed by main process. If the sandbox has no `/proc`, the agent
/// can kill only these.
pub fn running_commands() -> MutexGuard<'static, BTreeMap<i32, Mark>> {
    RUNNING_COMMANDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a command with `spawn` and registers it as running, under one lock.
pub fn spawn_registered(mark: Mark, spawn: impl FnOnce() -> io::Result<i32>) -> io::Result<i32> {
    let mut running = running_commands();
    let main = spawn()?;
    running.insert(main, mark);
    Ok(main)
}

/// Stores the agent's own limit. All marks are below it.
pub fn remember_own_limit() {
    own_limit();
}

fn own_limit() -> u64 {
    *RTTIME_LIMIT.get_or_init(|| {
        getrlimit(Resource::Rttime).maximum.map_or(DEFAULT_MARK_BASE, |l| l.min(DEFAULT_MARK_BASE))
    })
}

#[derive(Debug, Clone, Copy)]
pub struct Process {
    pub pid: i32,
    parent: i32,
    group: i32,
    session: i32,
}

/// Returns every live process in the sandbox except the agent: all visible processes if the agent
/// is process 1, otherwise its descendants.
pub fn sandbox_processes() -> Vec<Process> {
    let own = process::id() as i32;
    let all = visible_processes();
    if own == 1 {
        return all.into_iter().filter(|p| p.pid != own).collect();
    }
    let family = with_descendants(&all, HashSet::from([own]));
    all.into_iter().filter(|p| p.pid != own && family.contains(&p.pid)).collect()
}

/// Kills every process in the sandbox and waits until they are gone. Returns their number.
pub fn kill_everything() -> u32 {
    kill_until_gone(|| {
        let all = sandbox_processes();
        for group in running_commands().keys().filter_map(|&group| Pid::from_raw(group)) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        // Kill all of them with one call, so that no forked process escapes between listing and
        // killing.
        if getpid().is_init() {
            kill_whole_namespace();
        }
        all
    })
}

/// Kills every process of a command, including those that left its group or session.
pub fn kill_command(main_pid: i32, mark: Mark) -> u32 {
    kill_until_gone(|| {
        if let Some(pid) = Pid::from_raw(main_pid) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        command_processes(main_pid, mark)
    })
}

/// Kills the remaining processes of a command's process group. Returns the number of killed
/// processes.
pub fn kill_group(main_pid: i32) -> u32 {
    let Some(pid) = Pid::from_raw(main_pid) else { return 0 };
    // In the usual case this takes one call and no scan of /proc. The leader is already reaped, so
    // its id could theoretically be reused, but ids cycle through at least 32,768.
    if test_kill_process_group(pid).is_err() {
        return 0;
    }
    kill_until_gone(|| {
        // Count before killing, because killed processes soon disappear.
        let members = visible_processes().into_iter().filter(|p| p.group == main_pid).collect();
        let _ = kill_process_group(pid, Signal::KILL);
        members
    })
}

pub(super) fn kill_until_gone(mut list_alive: impl FnMut() -> Vec<Process>) -> u32 {
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    let mut seen = HashSet::new();
    loop {
        let found = list_alive();
        if found.is_empty() {
            break;
        }
        for process in &found {
            seen.insert(process.pid);
            if let Some(pid) = Pid::from_raw(process.pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        if start.elapsed() > KILL_TIMEOUT {
            break;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    seen.len() as u32
}

#[expect(unsafe_code, reason = "rustix has no kill of every process")]
fn kill_whole_namespace() {
    // SAFETY: a system call that accesses no memory. Only called as process 1 of a PID namespace,
    // where -1 means every process except the caller.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Returns the live processes that belong to no running command.
pub(super) fn leftover_processes() -> Vec<Process> {
    // Keep the lock during the scan, so that a command that is just starting is not mistaken for a
    // leftover.
    let running = running_commands();
    let all = sandbox_processes();
    let theirs = |p: &Process| {
        running.iter().any(|(&main, mark)| {
            p.pid == main
                || p.group == main
                || p.session == main
                || read_mark(p.pid) == Some(mark.limit())
        })
    };
    let members = all.iter().filter(|p| theirs(p)).map(|p| p.pid).collect();
    let family = with_descendants(&all, members);
    all.into_iter().filter(|p| !family.contains(&p.pid)).collect()
}

fn command_processes(main_pid: i32, mark: Mark) -> Vec<Process> {
    let all = sandbox_processes();
    let issued = ISSUED_MARK_COUNT.load(Ordering::Relaxed);
    let known = own_limit().saturating_sub(issued)..=own_limit();
    let theirs = |p: &Process| {
        // No command has this mark, so the process changed its limit to hide.
        p.pid == main_pid
            || p.group == main_pid
            || p.session == main_pid
            || read_mark(p.pid)
                .is_some_and(|l| l == mark.limit() || l < DEFAULT_MARK_BASE && !known.contains(&l))
    };
    let members = all.iter().filter(|p| theirs(p)).map(|p| p.pid).collect();
    let family = with_descendants(&all, members);
    all.into_iter().filter(|p| family.contains(&p.pid)).collect()
}

/// Returns `members` and all their descendants.
fn with_descendants(processes: &[Process], mut members: HashSet<i32>) -> HashSet<i32> {
    loop {
        let before = members.len();
        for process in processes {
            if members.contains(&process.parent) {
                members.insert(process.pid);
            }
        }
        if members.len() == before {
            return members;
        }
    }
}

/// Returns the live processes in `/proc`; empty if the sandbox has no `/proc`.
fn visible_processes() -> Vec<Process> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    folder
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(read_stat)
        .collect()
}

fn read_stat(pid: i32) -> Option<Process> {
    let stat = proc_file::read(&format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain any characters, including parentheses.
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let text = str::from_utf8(&stat[end + 1..]).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let state = fields.next()?;
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    // Skip the terminal and its group; the flags are next.
    let flags: u64 = fields.nth(2)?.parse().ok()?;
    let alive = !matches!(state, "Z" | "X" | "x") && flags & KERNEL_THREAD == 0;
    alive.then_some(Process { pid, parent, group, session })
}

fn read_mark(pid: i32) -> Option<u64> {
    let limits = String::from_utf8(proc_file::read(&format!("/proc/{pid}/limits")).ok()?).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}
