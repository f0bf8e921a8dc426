//! Runs one command from its start to its reply, on one thread with one `poll` loop.

use std::{
    io,
    os::fd::OwnedFd,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use proctor_wire::{CommandExit, RawPath, Refusal, RefusalKind, Reply, RunRequest, channel};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Access, AtFlags, Mode, OFlags, accessat},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};

use super::{
    eviction,
    processes::{self, Mark},
    reaper::ExitState,
    refusal::{describe_errno, from_errno, new_refusal},
    server::Server,
    spawn::{Launch, prepare_command},
    stream::{CHUNK_BYTES, Input, Stream},
    users::{self, Identity},
};
use crate::hardening;

/// How long a killed command may take to die before the agent gives up.
const DEATH_TIMEOUT: Duration = Duration::from_secs(10);

/// Exit codes that a shell returns for a program that cannot be executed and for one that does not
/// exist.
const EXIT_NOT_EXECUTABLE: i32 = 126;
const EXIT_NOT_FOUND: i32 = 127;

/// An output pipe of the command.
struct OutputPipe {
    channel: u8,
    pipe: Option<OwnedFd>,
    /// Set when the command exits: the number of bytes still in the pipe. Only these are read,
    /// because a daemon that keeps the pipe open may write forever, and its output is not the
    /// command's.
    bytes_left: Option<u64>,
}

/// The command's input pipe.
struct InputPipe {
    pipe: Option<OwnedFd>,
    pending: Vec<u8>,
}

struct RunningCommand<'a> {
    server: &'a Server,
    stream: &'a Stream,
    output_pipes: Vec<OutputPipe>,
    input_pipe: InputPipe,
    buffer: Vec<u8>,
}

pub fn run(server: &Server, stream: &Arc<Stream>, request: RunRequest) -> Result<Reply, Refusal> {
    let first = validate_request(&request)?;
    let cwd = open_cwd(&request)?;
    let identity = request.user.as_deref().map(users::find).transpose()?;
    let identity =
        identity.or_else(Identity::default_for_commands).filter(|i| !i.is_current_user());
    let plumbing = |error: Errno| from_errno(error, "creating a pipe");
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(plumbing);
    let (stdin, stdin_writer) = pipe()?;
    let (stdout_reader, stdout) = pipe()?;
    let (stderr_reader, stderr) = match request.merged {
        true => (
            None,
            stdout
                .try_clone()
                .map_err(|error| plumbing(Errno::from_io_error(&error).unwrap_or(Errno::MFILE)))?,
        ),
        false => pipe().map(|(reader, writer)| (Some(reader), writer))?,
    };
    let (results_reader, results) = match request.results {
        true => pipe().map(|(reader, writer)| (Some(reader), Some(writer)))?,
        false => (None, None),
    };
    let readers = stderr_reader.iter().chain(&results_reader);
    for pipe in [&stdin_writer, &stdout_reader].into_iter().chain(readers) {
        rustix::io::ioctl_fionbio(pipe, true).map_err(plumbing)?;
    }

    let mark = Mark::next();
    let started = Instant::now();
    let ended = Arc::new(Mutex::new(None));
    let (argv, env, powers) = (&request.argv, &request.env, hardening::command_capabilities());
    let program = resolve_program(first, &request, &cwd);
    let command = prepare_command(Launch {
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
    });
    let spawned = command.and_then(|command| start(server, stream, command, mark, &ended));
    let main = match spawned {
        Ok(main) => main,
        Err(error) => return report_start_failure(server, stream, program, &error, started),
    };

    let outlet = |channel, pipe| OutputPipe { channel, pipe, bytes_left: None };
    let mut running = RunningCommand {
        server,
        stream,
        output_pipes: vec![
            outlet(channel::STDOUT, Some(stdout_reader)),
            outlet(channel::STDERR, stderr_reader),
            outlet(channel::RESULTS, results_reader),
        ],
        // Without input, close the write end immediately. The command then needs no /dev/null.
        input_pipe: InputPipe { pipe: request.stdin.then_some(stdin_writer), pending: Vec::new() },
        buffer: vec![0; CHUNK_BYTES],
    };
    let limit = request.time_limit_ms.map(Duration::from_millis);
    let deadline = limit.and_then(|limit| started.checked_add(limit));
    let mut exited = CommandExit::default();
    let mut status: Option<ExitState> = None;
    let mut killed: Option<Instant> = None;
    loop {
        stream.clear_wake_event();
        let now = Instant::now();
        if status.is_none() {
            status = ended.lock().unwrap_or_else(PoisonError::into_inner).take();
            if status.is_some() {
                processes::running_commands().remove(&main);
                exited.left_behind = match request.reap_all {
                    true => processes::kill_everything(),
                    false => processes::kill_group(main),
                };
                running.close_input();
                running.keep_buffered_output();
            } else if killed.is_none() {
                exited.cancelled = stream.is_cancelled();
                exited.timed_out = !exited.cancelled && deadline.is_some_and(|at| at <= now);
                if exited.cancelled || exited.timed_out {
                    processes::kill_command(main, mark);
                    killed = Some(now);
                }
            } else if killed.is_some_and(|at| at.elapsed() > DEATH_TIMEOUT) {
                break;
            }
        }
        // After a cancel, the host no longer waits for output.
        if status.is_some() && (running.is_drained() || stream.is_cancelled()) {
            break;
        }
        let until = match (status, killed) {
            (Some(_), _) => None,
            (None, Some(at)) => at.checked_add(DEATH_TIMEOUT),
            (None, None) => deadline,
        };
        running.transfer_data(until)?;
    }
    processes::running_commands().remove(&main);
    exited.code = status.and_then(|s| s.code);
    exited.signal = status.and_then(|s| s.signal);
    let took = status.map_or_else(Instant::now, |s| s.ended_at).duration_since(started);
    exited.took_us = took.as_micros() as u64;
    Ok(Reply::Exited(exited))
}

/// Starts the command. If the sandbox is full, first kills the leftover processes of finished
/// commands.
fn start(
    server: &Server,
    stream: &Arc<Stream>,
    mut command: Command,
    mark: Mark,
    exit_state: &Arc<Mutex<Option<ExitState>>>,
) -> io::Result<i32> {
    loop {
        let (ended, stream) = (Arc::clone(exit_state), Arc::clone(stream));
        let listener = move |status: ExitState| {
            *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
            stream.wake();
        };
        let spawn = || processes::spawn_registered(mark, || Ok(command.spawn()?.id() as i32));
        match server.reaper.spawn_with_listener(spawn, listener) {
            Err(error)
                if Errno::from_io_error(&error) == Some(Errno::AGAIN) && eviction::evict() => {}
            other => return other,
        }
    }
}

/// Validates the request and returns the requested program.
fn validate_request(request: &RunRequest) -> Result<&RawPath, Refusal> {
    let bad = |what: &str| Err(new_refusal(RefusalKind::BadRequest, what));
    let Some(first) = request.argv.first().filter(|program| !program.as_bytes().is_empty()) else {
        return bad("no program to run");
    };
    let nul = |bytes: &[u8]| bytes.contains(&0);
    if request.argv.iter().any(|arg| nul(arg.as_bytes())) {
        return bad("an argument contains a NUL byte");
    }
    let bad_key = |key: &str| key.is_empty() || key.contains('=') || nul(key.as_bytes());
    if request.env.iter().any(|(key, value)| bad_key(key) || nul(value.as_bytes())) {
        return bad("invalid environment variable");
    }
    Ok(first)
}

/// Returns the program to execute. Searches `PATH` only if the request has a fallback. Otherwise
/// `exec` searches `PATH`.
fn resolve_program<'a>(
    requested_program: &'a RawPath,
    request: &'a RunRequest,
    cwd: &OwnedFd,
) -> &'a RawPath {
    let Some(fallback) = &request.fallback else { return requested_program };
    let exists = |path: &[u8]| accessat(cwd, path, Access::EXEC_OK, AtFlags::empty()).is_ok();
    let name = requested_program.as_bytes();
    let is_there = match (name.contains(&b'/'), request.env.get("PATH")) {
        (false, Some(path)) => path
            .as_bytes()
            .split(|&byte| byte == b':')
            .any(|folder| exists(&[folder, b"/", name].concat())),
        _ => exists(name),
    };
    if is_there { requested_program } else { fallback }
}

fn open_cwd(request: &RunRequest) -> Result<OwnedFd, Refusal> {
    let path = if request.cwd.as_bytes().is_empty() { b"/" } else { request.cwd.as_bytes() };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| from_errno(error, format!("working directory {}", request.cwd)))
}

/// Reports that a command cannot be executed, with the exit code that a shell would return. Returns
/// a refusal only if the sandbox cannot start any process.
fn report_start_failure(
    server: &Server,
    stream: &Stream,
    program: &RawPath,
    error: &io::Error,
    start_time: Instant,
) -> Result<Reply, Refusal> {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::INVAL);
    if matches!(errno, Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) {
        return Err(from_errno(errno, "starting a process"));
    }
    let line = format!("agentd: {program}: {}\n", describe_errno(errno));
    stream.send_all(&server.outbox, channel::STDERR, line.as_bytes())?;
    let code = if errno == Errno::NOENT { EXIT_NOT_FOUND } else { EXIT_NOT_EXECUTABLE };
    let took_us = start_time.elapsed().as_micros() as u64;
    Ok(Reply::Exited(CommandExit { code: Some(code), took_us, ..CommandExit::default() }))
}

impl RunningCommand<'_> {
    fn is_drained(&self) -> bool {
        self.output_pipes.iter().all(|outlet| outlet.pipe.is_none())
    }

    fn close_input(&mut self) {
        self.input_pipe = InputPipe { pipe: None, pending: Vec::new() };
    }

    fn keep_buffered_output(&mut self) {
        for index in 0..self.output_pipes.len() {
            let Some(pipe) = &self.output_pipes[index].pipe else { continue };
            let waiting = rustix::io::ioctl_fionread(pipe).unwrap_or(0);
            self.output_pipes[index].bytes_left = Some(waiting);
            if waiting == 0 {
                self.close_output(index);
            }
        }
    }

    fn close_output(&mut self, index: usize) {
        self.output_pipes[index].pipe = None;
        self.stream.send_end(&self.server.outbox, self.output_pipes[index].channel);
    }

    /// Waits for the command or the host, at most until `deadline`, and transfers available data.
    fn transfer_data(&mut self, deadline: Option<Instant>) -> Result<(), Refusal> {
        self.fetch_input();
        let credit = self.stream.credit();
        let mut fds = vec![PollFd::from_borrowed_fd(self.stream.wake_fd(), PollFlags::IN)];
        let mut readers = Vec::new();
        for (index, outlet) in self.output_pipes.iter().enumerate() {
            if let (Some(pipe), true) = (&outlet.pipe, credit > 0) {
                fds.push(PollFd::new(pipe, PollFlags::IN));
                readers.push(index);
            }
        }
        if let (Some(pipe), false) = (&self.input_pipe.pipe, self.input_pipe.pending.is_empty()) {
            fds.push(PollFd::new(pipe, PollFlags::OUT));
        }
        let timeout = deadline.map(|at| {
            // Round up, so that the wait doesn't end before the deadline.
            let left = at.saturating_duration_since(Instant::now()) + Duration::from_micros(100);
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(from_errno(error, "waiting for a command")),
        }
        let ready: Vec<bool> = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
        for (index, ready) in readers.iter().zip(&ready) {
            if *ready {
                self.read_output(*index);
            }
        }
        if ready.len() > readers.len() && ready[readers.len()] {
            self.write_input();
        }
        Ok(())
    }

    fn read_output(&mut self, index: usize) {
        let outlet = &mut self.output_pipes[index];
        let Some(pipe) = &outlet.pipe else { return };
        let most =
            self.stream.credit().min(outlet.bytes_left.unwrap_or(u64::MAX)).min(CHUNK_BYTES as u64);
        if most == 0 {
            return;
        }
        match rustix::io::read(pipe, &mut self.buffer[..most as usize]) {
            Ok(0) => self.close_output(index),
            Ok(read) => {
                self.stream.send(&self.server.outbox, outlet.channel, &self.buffer[..read]);
                if let Some(left) = &mut outlet.bytes_left {
                    *left = left.saturating_sub(read as u64);
                    if *left == 0 {
                        self.close_output(index);
                    }
                }
            }
            Err(Errno::AGAIN | Errno::INTR) if outlet.bytes_left.is_none() => {}
            Err(_) => self.close_output(index),
        }
    }

    fn fetch_input(&mut self) {
        while self.input_pipe.pending.is_empty() {
            match self.stream.take_input(&self.server.outbox) {
                // The command does not read its input, so discard it. The host may send input
                // anyway.
                Input::Bytes(_) if self.input_pipe.pipe.is_none() => {}
                Input::Bytes(bytes) => self.input_pipe.pending = bytes,
                Input::Nothing => return,
                Input::Ended => {
                    self.input_pipe.pipe = None;
                    return;
                }
            }
        }
    }

    fn write_input(&mut self) {
        let Some(pipe) = &self.input_pipe.pipe else { return };
        match rustix::io::write(pipe, &self.input_pipe.pending) {
            Ok(written) => drop(self.input_pipe.pending.drain(..written)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.close_input(),
        }
    }
}
