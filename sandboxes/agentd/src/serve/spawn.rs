//! Starts a process that inherits only its standard descriptors from the agent.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    process::{Command, Stdio},
};

use proctor_wire::RawPath;
use rustix::{
    fs::{Mode, OFlags},
    process::{Resource, Rlimit},
    thread::{Gid, Uid},
};

use super::{processes::Mark, users::Identity};
use crate::hardening::ProcessCapabilities;

/// The descriptor number of the results pipe in a command.
const RESULTS_FD: i32 = 3;

/// Signals that the agent may have inherited as ignored. Commands get their default actions back.
const RESET_SIGNALS: [i32; 10] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGPIPE,
    libc::SIGTERM,
    libc::SIGCHLD,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGXFSZ,
];

/// What is needed to start a process.
pub struct Launch<'a> {
    /// The program to execute, which may differ from the first argument.
    pub program: &'a RawPath,
    pub argv: &'a [RawPath],
    pub env: &'a BTreeMap<String, RawPath>,
    /// An open directory, so that a missing directory is not mistaken for a missing program.
    pub cwd: OwnedFd,
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub results_pipe: Option<OwnedFd>,
    pub identity: Option<Identity>,
    /// Initial capabilities; `None` means the agent's.
    pub capabilities: Option<ProcessCapabilities>,
    pub mark: Mark,
}

/// Ensures that commands inherit no other descriptor of the agent, and that descriptor 3 is in use.
/// The child puts the results pipe at 3, so the standard library's own pipe must not get that
/// number.
#[expect(unsafe_code, reason = "rustix has no close_range")]
pub fn guard_descriptors() {
    // SAFETY: system calls that access no memory. The flag closes nothing in this process.
    // Descriptor 3 is left open on purpose if the duplicate gets that number.
    unsafe {
        close_on_exec_from(3);
        if libc::fcntl(RESULTS_FD, libc::F_GETFD) < 0 {
            let held = libc::fcntl(2, libc::F_DUPFD_CLOEXEC, RESULTS_FD);
            if held > RESULTS_FD {
                libc::close(held);
            }
        }
    }
}

#[expect(unsafe_code, reason = "rustix has no close_range")]
unsafe fn close_on_exec_from(first_descriptor: u32) {
    // Kernels before 5.11 reject the flag. The agent's own descriptors are close-on-exec anyway.
    unsafe {
        libc::syscall(libc::SYS_close_range, first_descriptor, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
}

/// If memory runs out, makes the kernel kill a command before the agent and before anything on the
/// host. If the sandbox does not allow this setting, the kernel chooses by size, and the agent is
/// small.
fn prefer_oom_kill() {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(c"/proc/self/oom_score_adj", flags, Mode::empty()) {
        let _ = rustix::io::write(&file, b"1000");
    }
}

/// Prepares a command that leads a new session and process group. If it cannot be started, the
/// caller may try again.
#[expect(unsafe_code, reason = "the child is set up between fork and exec")]
pub fn prepare_command(launch: Launch<'_>) -> io::Result<Command> {
    let Launch {
        program,
        argv,
        env,
        cwd,
        stdin,
        stdout,
        stderr,
        results_pipe: results,
        identity,
        capabilities: powers,
        mark,
    } = launch;
    let mut command = Command::new(OsStr::from_bytes(program.as_bytes()));
    command.args(argv.iter().skip(1).map(|arg| OsStr::from_bytes(arg.as_bytes())));
    command.env_clear();
    command.envs(env.iter().map(|(key, value)| (key, OsStr::from_bytes(value.as_bytes()))));
    command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
    let limit = mark.limit();
    let groups: Vec<Gid> =
        identity.iter().flat_map(|i| &i.groups).map(|&group| Gid::from_raw(group)).collect();
    let prepare = move || {
        rustix::process::setsid()?;
        let first = match &results {
            Some(pipe) => {
                // SAFETY: both descriptors belong to this child; 3 is only the agent's placeholder.
                if unsafe { libc::dup2(pipe.as_raw_fd(), RESULTS_FD) } < 0 {
                    return Err(io::Error::last_os_error());
                }
                RESULTS_FD + 1
            }
            None => RESULTS_FD,
        };
        // SAFETY: a system call that accesses no memory; the default action is always valid.
        unsafe {
            close_on_exec_from(first as u32);
            for signal in RESET_SIGNALS {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
        // Without this limit, which the sandbox may deny, only a process's ancestry shows which
        // command it belongs to.
        let mark = Rlimit { current: Some(limit), maximum: Some(limit) };
        let _ = rustix::process::setrlimit(Resource::Rttime, mark);
        prefer_oom_kill();
        if let Some(identity) = &identity {
            let (user, group) = (Uid::from_raw(identity.user), Gid::from_raw(identity.group));
            rustix::thread::set_thread_groups(&groups)?;
            rustix::thread::set_thread_res_gid(group, group, group)?;
            rustix::thread::set_thread_res_uid(user, user, user)?;
        }
        if let Some(powers) = powers {
            powers.apply()?;
        }
        rustix::process::fchdir(&cwd)?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls only; it allocates nothing.
    unsafe { command.pre_exec(prepare) };
    Ok(command)
}
