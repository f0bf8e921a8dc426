//! The helper's lifecycle: read the layout, create namespaces, start the first process, and watch
//! it.

use std::{
    fs,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use proctor_wire::{LayoutReport, MAX_LAYOUT_BYTES, SandboxLayout};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::fcntl_dupfd_cloexec,
    net::{AddressFamily, SocketType, socket},
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open,
        set_parent_process_death_signal, setsid, umask, waitpid,
    },
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin},
    system::sethostname,
    thread::UnshareFlags,
};

use super::{
    failure::{Failure, FailureContext},
    ids, limits, mounts,
};
use crate::{hardening, sys};

/// Reads the layout from standard input (a socket), creates the sandbox, and serves the channel on
/// that socket. Returns the exit status.
pub fn run() -> i32 {
    match launch() {
        Ok(code) => code,
        Err(error) => {
            // The runtime is gone or violated the layout protocol.
            let _ = writeln!(io::stderr(), "agentd sandbox: {error}");
            1
        }
    }
}

fn launch() -> io::Result<i32> {
    // Close descriptors that the runtime left open by mistake. The helper itself opens only
    // close-on-exec descriptors.
    sys::close_from(3)?;
    let mut socket = UnixStream::from(fcntl_dupfd_cloexec(stdin(), 3)?);
    let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    let plan = read_layout(&mut socket)?;
    // If memory runs out, the kernel should kill sandboxes before the machine's own programs, and
    // commands before the agent. Commands set their own score when they start.
    let _ = fs::write("/proc/self/oom_score_adj", "500");
    let note = match create_namespaces(&plan) {
        Ok(note) => note,
        Err(failure) => {
            send_report(&mut socket, &failure.into_report())?;
            return Ok(1);
        }
    };
    match sys::fork()? {
        Some(first) => watch(first, &socket),
        None => sys::exit(run_first_process(&plan, note, socket, &null)),
    }
}

/// Creates the namespaces for this process or its next child. Returns the result of
/// [`ids::enter_user_namespace`].
fn create_namespaces(layout: &SandboxLayout) -> Result<Option<String>, Failure> {
    limits::join_cgroups(&layout.cgroups)?;
    let note = ids::enter_user_namespace(layout.ids)?;
    let mut flags = UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    if !layout.network {
        flags |= UnshareFlags::NEWNET;
    }
    sys::unshare(flags)
        .context("create namespaces")
        .map_err(|failure| failure.with_hint(&ids::user_namespace_hint()))?;
    Ok(note)
}

/// Runs as the first process of the sandbox.
fn run_first_process(
    layout: &SandboxLayout,
    id_map_note: Option<String>,
    mut socket: UnixStream,
    null: &fs::File,
) -> i32 {
    let report = match prepare_sandbox(layout, null) {
        Ok(mut notes) => {
            notes.extend(id_map_note);
            LayoutReport::Ready { notes }
        }
        Err(failure) => failure.into_report(),
    };
    let ready = matches!(report, LayoutReport::Ready { .. });
    if send_report(&mut socket, &report).is_err() || !ready {
        return 1;
    }
    match socket.try_clone() {
        Ok(reader) => {
            let (reader, writer) = (OwnedFd::from(reader), OwnedFd::from(socket));
            crate::serve::serve(reader, writer, &layout.without)
        }
        Err(_) => 1,
    }
}

fn prepare_sandbox(layout: &SandboxLayout, null: &fs::File) -> Result<Vec<String>, Failure> {
    setsid().context("start a session")?;
    umask(rustix::fs::Mode::from_raw_mode(0o022));
    sethostname(layout.hostname.as_bytes()).context("set the sandbox's host name")?;
    if !layout.network {
        bring_up_loopback().context("bring up the loopback interface")?;
    }
    mounts::build_root(layout)?;
    let lower = limits::set_resource_limits(layout)?;
    let mut notes = hardening::apply(&layout.without).map_err(Failure::from_operation)?;
    notes.extend(lower);
    // This process must die with the helper process outside the sandbox. Set this last, because a
    // change of credentials would reset it.
    set_parent_process_death_signal(Some(Signal::KILL)).context("set the parent-death signal")?;
    dup2_stdout(null).context("close standard output")?;
    dup2_stderr(null).context("close standard error")?;
    Ok(notes)
}

fn bring_up_loopback() -> io::Result<()> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    sys::set_loopback_up(any.as_fd())
}

/// Waits for the first process, and kills it when the runtime closes its end of the channel. The
/// kernel reports the hang-up even if the channel's buffers are full. The helper reads nothing from
/// the channel. When the first process exits, the helper exits too, and the runtime reads the end
/// of the stream.
///
/// Two alternatives were rejected. A separate pipe per sandbox would cost the runtime a descriptor.
/// `PR_SET_PDEATHSIG` fires when the *thread* that forked exits, and the runtime's threads are
/// short-lived.
fn watch(first_process: Pid, channel: &UnixStream) -> io::Result<i32> {
    let handle = pidfd_open(first_process, PidfdFlags::empty())?;
    // Request no events, because poll always reports a hang-up.
    let mut fds = [PollFd::new(&handle, PollFlags::IN), PollFd::new(channel, PollFlags::empty())];
    loop {
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if !fds[1].revents().is_empty() {
            kill_process(first_process, Signal::KILL)?;
        }
        if !fds.iter().all(|fd| fd.revents().is_empty()) {
            break;
        }
    }
    let status = waitpid(Some(first_process), WaitOptions::empty())?;
    Ok(status.and_then(|(_, status)| status.exit_status()).unwrap_or(1))
}

fn read_layout(socket: &mut UnixStream) -> io::Result<SandboxLayout> {
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_LAYOUT_BYTES {
        return Err(io::Error::other(format!("a layout of {length} bytes exceeds the limit")));
    }
    let mut bytes = vec![0; length];
    socket.read_exact(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn send_report(socket: &mut UnixStream, report: &LayoutReport) -> io::Result<()> {
    let body = serde_json::to_vec(report)?;
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&body);
    socket.write_all(&bytes)
}
