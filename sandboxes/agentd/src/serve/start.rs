//! The agent's lifecycle: harden, exchange hellos, read frames, and kill everything at the end.

use std::{os::fd::OwnedFd, sync::Arc};

use proctor_wire::{Defense, Frame, HELLO_BYTES, WireError, check_hello, hello};
use rustix::{
    io::Errno,
    process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior},
};

use super::{eviction, outbox::Outbox, processes, reaper::Reaper, server::Server, spawn};
use crate::hardening;

/// The stream ended, or the host requested a shutdown.
const EXIT_OK: i32 = 0;
/// The host violated the protocol.
const EXIT_PROTOCOL_ERROR: i32 = 76;
/// The agent could not start.
const EXIT_START_FAILED: i32 = 70;

/// Serves on standard input and output until the stream ends. Returns the exit status. If
/// `disabled_defenses` is `Some`, first applies the hardening without the listed defenses (usually
/// none).
///
/// Setup commands, which are trusted, and tests use an agent without hardening over a pair of
/// pipes.
pub fn serve_stdio(disabled_defenses: Option<&Vec<Defense>>) -> i32 {
    let without = disabled_defenses.map_or(&[][..], |without| without);
    let harden = || match disabled_defenses {
        Some(without) => hardening::apply(without).map(drop),
        // Even without hardening, prevent programs in the sandbox from tracing the agent or opening
        // its descriptors through /proc.
        None => set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(|error| ("make the agent non-dumpable", error.into())),
    };
    if let Err((step, error)) = harden() {
        eprintln!("agentd: cannot start: {step}: {error}");
        return EXIT_START_FAILED;
    }
    let pair = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 4).and_then(|reader| {
        Ok((reader, rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 4)?))
    });
    match pair {
        Ok((reader, writer)) => serve(reader, writer, without),
        Err(error) => {
            eprintln!("agentd: cannot use standard input and output: {error}");
            EXIT_START_FAILED
        }
    }
}

/// Serves on a pair of descriptors, which may be duplicates of one socket, until the stream ends.
/// Then kills everything in the sandbox. Returns the exit status: 0 at the end of the stream, 76 if
/// the host violated the protocol, 70 if the agent could not start.
pub fn serve(reader: OwnedFd, writer: OwnedFd, disabled_defenses: &[Defense]) -> i32 {
    if disabled_defenses.contains(&Defense::Eviction) {
        eviction::disable_eviction();
    }
    let server = match start_server(writer) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("agentd: cannot start: {error}");
            return EXIT_START_FAILED;
        }
    };
    let ended = read_frames(&reader, &server);
    server.end_sandbox();
    match ended {
        Ok(()) => {
            server.outbox.flush();
            EXIT_OK
        }
        Err(error) => {
            eprintln!("agentd: {error}");
            EXIT_PROTOCOL_ERROR
        }
    }
}

fn start_server(writer: OwnedFd) -> std::io::Result<Arc<Server>> {
    // The agent adopts orphans, so that no process in the sandbox escapes it.
    set_child_subreaper(Some(getpid()))?;
    spawn::guard_descriptors();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    // If another directory were the working directory, commands could not remove it and a sweep
    // could not unmount it.
    let _ = rustix::process::chdir("/");
    processes::remember_own_limit();
    let outbox = Outbox::start(writer)?;
    outbox.send_bytes(&hello());
    let reaper = Reaper::start()?;
    Ok(Arc::new(Server::new(outbox, reaper)))
}

/// Reads frames until the end of the stream or a shutdown request (`Ok`), or until the host
/// violates the protocol.
fn read_frames(reader: &OwnedFd, server: &Arc<Server>) -> Result<(), WireError> {
    let mut buffer = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    let mut greeted = false;
    loop {
        let read = match rustix::io::read(reader, &mut chunk[..]) {
            // A broken stream counts as ended.
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(_) => return Ok(()),
        };
        buffer.extend_from_slice(&chunk[..read]);
        let mut taken = 0;
        if !greeted {
            let Some(theirs) = buffer.first_chunk::<HELLO_BYTES>() else { continue };
            check_hello(theirs)?;
            greeted = true;
            taken = HELLO_BYTES;
        }
        while let Some((frame, length)) = Frame::decode(&buffer[taken..])? {
            taken += length;
            if server.handle_frame(&frame)?.is_break() {
                return Ok(());
            }
        }
        buffer.drain(..taken);
    }
}
