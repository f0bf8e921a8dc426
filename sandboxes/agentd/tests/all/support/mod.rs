//! A minimal host that uses only the wire crate. It lets tests check the agent's frames.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failure here fails a test")]

use std::{
    collections::{BTreeMap, HashMap},
    io::{Read, Write},
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel as queue},
    thread,
    time::{Duration, Instant},
};

use proctor_wire::{
    AcceptedConnection, CommandExit, Frame, FrameKind, HELLO_BYTES, INITIAL_CREDIT, RawPath,
    Refusal, Reply, Request, RunRequest, channel, check_hello, hello,
};

/// No test takes longer than this unless it hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    frames: Receiver<Frame>,
    next_stream: u32,
    /// Frames of other streams than the one being read.
    buffered_frames: HashMap<u32, Vec<Frame>>,
}

#[derive(Debug)]
pub struct Response {
    pub reply: Result<Reply, Refusal>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub results: Vec<u8>,
}

impl Response {
    pub fn exited(&self) -> &CommandExit {
        match &self.reply {
            Ok(Reply::Exited(exited)) => exited,
            other => panic!("not the end of a command: {other:?}"),
        }
    }
}

impl Agent {
    pub fn start() -> Self {
        let mut agent = Self::spawn(Command::new(env!("CARGO_BIN_EXE_agentd")).arg("serve"));
        agent.send_raw(&hello());
        agent
    }

    /// Starts the program and checks its hello. Sends nothing.
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let (sender, frames) = queue();
        let mut theirs = [0; HELLO_BYTES];
        output.read_exact(&mut theirs).unwrap();
        check_hello(&theirs).unwrap();
        thread::spawn(move || {
            let mut buffer = Vec::new();
            let mut chunk = vec![0; 256 << 10];
            while let Ok(read @ 1..) = output.read(&mut chunk) {
                buffer.extend_from_slice(&chunk[..read]);
                let mut taken = 0;
                while let Some((frame, length)) = Frame::decode(&buffer[taken..]).unwrap() {
                    taken += length;
                    if sender.send(frame).is_err() {
                        return;
                    }
                }
                buffer.drain(..taken);
            }
        });
        let input = child.stdin.take();
        Self { child, input, frames, next_stream: 0, buffered_frames: HashMap::new() }
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        // An agent that has already exited does not read.
        let _ = self.input.as_mut().unwrap().write_all(bytes);
    }

    pub fn send(&mut self, frame: &Frame) {
        self.send_raw(&frame.encode());
    }

    pub fn open_stream(&mut self, request: &Request) -> u32 {
        self.next_stream += 2;
        let frame = Frame::json(FrameKind::Open, self.next_stream, request).unwrap();
        self.send(&frame);
        self.next_stream
    }

    pub fn next_frame(&mut self, stream: u32) -> Frame {
        if let Some(kept) = self.buffered_frames.get_mut(&stream)
            && !kept.is_empty()
        {
            return kept.remove(0);
        }
        loop {
            let frame = self.frames.recv_timeout(TEST_TIMEOUT).expect("the agent did not respond");
            if frame.stream == stream {
                return frame;
            }
            self.buffered_frames.entry(frame.stream).or_default().push(frame);
        }
    }

    /// Returns the frames of a stream that arrived before the agent exited and were not read.
    pub fn take_unread_frames(&mut self, stream: u32) -> Vec<Frame> {
        let mut frames = self.buffered_frames.remove(&stream).unwrap_or_default();
        frames.extend(self.frames.iter().filter(|frame| frame.stream == stream));
        frames
    }

    /// Returns the next frame of any stream, or `None` if none arrives within the time.
    pub fn any_frame(&mut self, timeout: Duration) -> Option<Frame> {
        self.frames.recv_timeout(timeout).ok()
    }

    /// Reads a stream up to its reply, granting credit for everything received.
    pub fn read_until_reply(&mut self, stream: u32) -> Response {
        let mut channels: [Vec<u8>; 4] = Default::default();
        loop {
            let frame = self.next_frame(stream);
            match frame.kind {
                FrameKind::Data => {
                    let bytes = &frame.body[1..];
                    channels[frame.body[0] as usize].extend_from_slice(bytes);
                    let credit = (bytes.len() as u32).to_be_bytes();
                    self.send(&Frame::new(FrameKind::Credit, stream, credit));
                }
                FrameKind::End | FrameKind::Credit => {}
                FrameKind::Reply => {
                    let [_, stdout, stderr, results] = channels;
                    let reply = frame.parse().unwrap();
                    return Response { reply, stdout, stderr, results };
                }
                other => panic!("unexpected frame from the agent: {other:?}"),
            }
        }
    }

    pub fn ask(&mut self, request: &Request) -> Response {
        let stream = self.open_stream(request);
        self.read_until_reply(stream)
    }

    /// Sends the input in chunks, as the agent's credit allows.
    pub fn ask_with(&mut self, request: &Request, input: &[u8]) -> Response {
        let stream = self.open_stream(request);
        let mut credit = INITIAL_CREDIT as usize;
        let mut rest = input;
        let mut early = Vec::new();
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rest.len().min(credit).min(100_000));
            if !piece.is_empty() {
                self.send(&Frame::data(stream, channel::STDIN, piece));
                credit -= piece.len();
                rest = later;
                continue;
            }
            let frame = self.next_frame(stream);
            match frame.kind {
                FrameKind::Credit => {
                    let bytes = frame.body[..].try_into().unwrap();
                    credit += u32::from_be_bytes(bytes) as usize;
                }
                FrameKind::Reply => {
                    early.push(frame);
                    break;
                }
                _ => {
                    let bytes = (frame.body.len() as u32 - 1).to_be_bytes();
                    self.send(&Frame::new(FrameKind::Credit, stream, bytes));
                    early.push(frame);
                }
            }
        }
        self.buffered_frames.entry(stream).or_default().extend(early);
        self.send(&Frame::new(FrameKind::End, stream, [channel::STDIN]));
        self.read_until_reply(stream)
    }

    pub fn shell(&mut self, line: &str) -> Response {
        self.ask(&Request::Run(shell_request(line)))
    }

    pub fn next_accepted(&mut self) -> (u32, AcceptedConnection) {
        loop {
            let frame =
                self.frames.recv_timeout(TEST_TIMEOUT).expect("the agent accepted no connection");
            if frame.kind == FrameKind::Accepted {
                return (frame.stream, frame.parse().unwrap());
            }
            self.buffered_frames.entry(frame.stream).or_default().push(frame);
        }
    }

    /// Closes the stream to the agent.
    pub fn hang_up(&mut self) {
        self.input = None;
    }

    /// Waits for the agent to exit, for at most [`TEST_TIMEOUT`], and returns its status.
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < TEST_TIMEOUT, "the agent does not exit");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn run_request(argv: &[&str]) -> RunRequest {
    let path = RawPath::from("/usr/local/bin:/usr/bin:/bin");
    RunRequest {
        argv: argv.iter().map(|&arg| arg.into()).collect(),
        cwd: "/".into(),
        env: BTreeMap::from([("PATH".to_owned(), path)]),
        ..RunRequest::default()
    }
}

pub fn shell_request(line: &str) -> RunRequest {
    run_request(&["/bin/sh", "-c", line])
}

pub fn raw_path(path: impl AsRef<Path>) -> RawPath {
    RawPath::new(path.as_ref().as_os_str().as_encoded_bytes())
}

/// Returns whether any process on this machine has `search_text` among its arguments.
pub fn is_running(search_text: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).any(|argument| argument == search_text.as_bytes())
    })
}

/// Waits until `condition` returns true, for at most ten seconds. Returns whether it did.
pub fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > Duration::from_secs(10) {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}
