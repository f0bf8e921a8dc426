//! Passes each frame to its stream and runs each request in its own thread.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use proctor_wire::{Frame, FrameKind, Refusal, RefusalKind, Reply, Request, WireError, channel};
use rustix::io::Errno;

use super::{
    entries, eviction, files, forward, outbox::Outbox, processes, reaper::Reaper, refusal, remove,
    run, scan, search, snapshot, stream::Stream,
};

/// Stack size of a request's thread (virtual memory), in bytes.
const STACK: usize = 1 << 20;

/// The state that all threads share.
pub struct Server {
    pub outbox: Arc<Outbox>,
    pub reaper: Arc<Reaper>,
    pub snapshots: Mutex<snapshot::SnapshotState>,
    streams: Mutex<HashMap<u32, Arc<Stream>>>,
    /// The highest stream that each side has opened. A frame for a closed stream below it is late
    /// rather than invalid, because the host may not know yet that it is closed.
    highest: [AtomicU32; 2],
}

impl Server {
    pub fn new(outbox: Arc<Outbox>, reaper: Arc<Reaper>) -> Self {
        Self {
            outbox,
            reaper,
            snapshots: Mutex::default(),
            streams: Mutex::default(),
            highest: [AtomicU32::new(0), AtomicU32::new(0)],
        }
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<u32, Arc<Stream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes one frame from the host. A break means shutdown.
    pub fn handle_frame(self: &Arc<Self>, frame: &Frame) -> Result<ControlFlow<()>, WireError> {
        match frame.kind {
            FrameKind::Open => return self.open(frame),
            FrameKind::Data => {
                let (&channel, bytes) =
                    frame.body.split_first().ok_or_else(|| body_error(frame, "no channel"))?;
                expect_stdin(frame, channel)?;
                if let Some(stream) = self.find(frame.stream)? {
                    stream.push(bytes)?;
                }
            }
            FrameKind::Credit => {
                let bytes = <[u8; 4]>::try_from(&frame.body[..])
                    .map_err(|_| body_error(frame, "credit must have four bytes"))?;
                if let Some(stream) = self.find(frame.stream)? {
                    stream.add_credit(u32::from_be_bytes(bytes));
                }
            }
            FrameKind::End => {
                let [channel] = frame.body[..] else { return Err(body_error(frame, "no channel")) };
                expect_stdin(frame, channel)?;
                if let Some(stream) = self.find(frame.stream)? {
                    stream.end_input();
                }
            }
            FrameKind::Cancel => {
                if !frame.body.is_empty() {
                    return Err(body_error(frame, "a cancel must not have a body"));
                }
                if let Some(stream) = self.find(frame.stream)? {
                    stream.cancel();
                }
            }
            FrameKind::Reply | FrameKind::Accepted => {
                return Err(body_error(frame, "only an agent may send this"));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Finds a stream; `None` if it is already closed.
    fn find(&self, id: u32) -> Result<Option<Arc<Stream>>, WireError> {
        if let Some(stream) = self.streams().get(&id) {
            return Ok(Some(Arc::clone(stream)));
        }
        if id == 0 || id > self.highest[(id % 2) as usize].load(Ordering::SeqCst) {
            return Err(WireError::Stream { stream: id, why: "never opened" });
        }
        Ok(None)
    }

    fn open(self: &Arc<Self>, frame: &Frame) -> Result<ControlFlow<()>, WireError> {
        let id = frame.stream;
        let wrong = |why| Err(WireError::Stream { stream: id, why });
        if id == 0 || id % 2 == 1 {
            return wrong("a host may only open even streams other than 0");
        }
        let request: Request = frame.parse()?;
        if self.streams().contains_key(&id) {
            return wrong("opened twice");
        }
        self.highest[0].fetch_max(id, Ordering::SeqCst);
        if matches!(request, Request::Shutdown) {
            self.end_sandbox();
            let done: Result<Reply, Refusal> = Ok(Reply::Done);
            self.outbox.send_final(&Frame::json(FrameKind::Reply, id, &done)?);
            return Ok(ControlFlow::Break(()));
        }
        let stream = match Stream::new(id) {
            Ok(stream) => Arc::new(stream),
            Err(error) => {
                self.outbox.reply(id, &Err(refusal::from_errno(error, "opening a stream")));
                return Ok(ControlFlow::Continue(()));
            }
        };
        self.streams().insert(id, Arc::clone(&stream));
        loop {
            let (own, stream, request) = (Arc::clone(self), Arc::clone(&stream), request.clone());
            let answering = thread::Builder::new().stack_size(STACK).spawn(move || {
                let answer = own.handle_request(&stream, request);
                own.close(stream.id, &answer);
            });
            match answering {
                Ok(_) => return Ok(ControlFlow::Continue(())),
                Err(_) if eviction::evict() => {}
                Err(error) => {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
                    let refusal = refusal::from_errno(errno, "starting a thread of the agent");
                    self.close(id, &Err(refusal));
                    return Ok(ControlFlow::Continue(()));
                }
            }
        }
    }

    /// Kills everything in the sandbox. Does not report the exits of the killed commands.
    pub fn end_sandbox(&self) {
        self.outbox.discard_later_frames();
        self.reaper.close();
        processes::kill_everything();
    }

    /// Opens a stream for an accepted connection.
    pub fn open_accepted_stream(&self) -> rustix::io::Result<Arc<Stream>> {
        let mut streams = self.streams();
        let before = self.highest[1].load(Ordering::SeqCst);
        let id = if before == 0 { 1 } else { before.checked_add(2).ok_or(Errno::NFILE)? };
        let stream = Arc::new(Stream::new(id)?);
        streams.insert(id, Arc::clone(&stream));
        self.highest[1].store(id, Ordering::SeqCst);
        Ok(stream)
    }

    /// Removes the stream before replying, because the host may reuse the number immediately.
    pub fn close(&self, id: u32, answer: &Result<Reply, Refusal>) {
        self.streams().remove(&id);
        self.outbox.reply(id, answer);
    }

    fn handle_request(
        self: &Arc<Self>,
        stream: &Arc<Stream>,
        request: Request,
    ) -> Result<Reply, Refusal> {
        match request {
            Request::Run(request) => run::run(self, stream, request),
            Request::Read { path, offset, limit } => {
                files::read(self, stream, &path, offset, limit)
            }
            Request::Write(request) => files::write(self, stream, &request),
            Request::Folder(request) => files::create_folder(&request),
            Request::List { path } => entries::list(&path),
            Request::Stat { path } => entries::stat(&path),
            Request::Remove { path, beneath } => remove::remove(stream, &path, beneath.as_ref()),
            Request::Search(request) => search::search(stream, &request),
            Request::Snapshot(request) => snapshot::snapshot(self, stream, &request),
            Request::Changes(request) => snapshot::changes(self, stream, &request),
            Request::Layer(request) => snapshot::capture_layer(self, stream, &request),
            Request::Scan(request) => scan::scan(self, stream, &request),
            Request::Listen { port } => forward::listen(self, port),
            Request::Ping => Ok(Reply::Pong {
                processes: processes::sandbox_processes().len() as u64,
                agent_rss_kb: resident_kb(),
            }),
            Request::Shutdown => {
                Err(refusal::refuse(RefusalKind::BadRequest, "a shutdown has no reply here"))
            }
        }
    }
}

fn body_error(frame: &Frame, why: &str) -> WireError {
    WireError::Body { kind: frame.kind, why: why.to_owned() }
}

fn expect_stdin(frame: &Frame, channel: u8) -> Result<(), WireError> {
    if channel == channel::STDIN {
        Ok(())
    } else {
        Err(body_error(frame, "not a channel of the host"))
    }
}

/// Returns the agent's resident memory in KiB; 0 if the sandbox has no `/proc`.
fn resident_kb() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64 / 1024
}
