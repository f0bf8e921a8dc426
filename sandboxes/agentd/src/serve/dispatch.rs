//! Passes each frame to its stream, and runs each request in its own thread.

use std::{
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering},
    thread,
};

use proctor_wire::{Frame, FrameKind, Refusal, RefusalKind, Reply, Request, WireError, channel};
use rustix::io::Errno;

use super::{
    entries, eviction, files, forward, processes, refusal, remove, run, scan, search,
    server::Server, snapshot, stream::Stream,
};

/// Stack size of a request's thread (virtual memory), in bytes.
const STACK_BYTES: usize = 1 << 20;

impl Server {
    /// Processes one frame from the host. A break means shutdown.
    pub fn handle_frame(self: &Arc<Self>, frame: &Frame) -> Result<ControlFlow<()>, WireError> {
        match frame.kind {
            FrameKind::Open => return self.open_stream(frame),
            FrameKind::Data => {
                let (&channel, bytes) =
                    frame.body.split_first().ok_or_else(|| body_error(frame, "no channel"))?;
                expect_stdin(frame, channel)?;
                if let Some(stream) = self.find_stream(frame.stream)? {
                    stream.push(bytes)?;
                }
            }
            FrameKind::Credit => {
                let bytes = <[u8; 4]>::try_from(&frame.body[..]).map_err(|_| {
                    body_error(frame, "a credit message must be exactly 4 bytes long")
                })?;
                if let Some(stream) = self.find_stream(frame.stream)? {
                    stream.add_credit(u32::from_be_bytes(bytes));
                }
            }
            FrameKind::End => {
                let [channel] = frame.body[..] else { return Err(body_error(frame, "no channel")) };
                expect_stdin(frame, channel)?;
                if let Some(stream) = self.find_stream(frame.stream)? {
                    stream.end_input();
                }
            }
            FrameKind::Cancel => {
                if !frame.body.is_empty() {
                    return Err(body_error(frame, "a cancel frame must not have a body"));
                }
                if let Some(stream) = self.find_stream(frame.stream)? {
                    stream.cancel();
                }
            }
            FrameKind::Reply | FrameKind::Accepted => {
                return Err(body_error(frame, "only an agent may send this"));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn open_stream(self: &Arc<Self>, frame: &Frame) -> Result<ControlFlow<()>, WireError> {
        let id = frame.stream;
        let wrong = |why| Err(WireError::InvalidStream { stream: id, reason: why });
        if id == 0 || id % 2 == 1 {
            return wrong("a host may only open even streams other than 0");
        }
        let request: Request = frame.parse()?;
        if self.streams().contains_key(&id) {
            return wrong("opened twice");
        }
        self.highest_stream_ids[0].fetch_max(id, Ordering::SeqCst);
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
            let answering = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
                let answer = own.handle_request(&stream, request);
                own.close_stream(stream.id, &answer);
            });
            match answering {
                Ok(_) => return Ok(ControlFlow::Continue(())),
                Err(_) if eviction::evict() => {}
                Err(error) => {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
                    let refusal = refusal::from_errno(errno, "starting a thread of the agent");
                    self.close_stream(id, &Err(refusal));
                    return Ok(ControlFlow::Continue(()));
                }
            }
        }
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
            Request::Changes(request) => snapshot::list_changes(self, stream, &request),
            Request::Layer(request) => snapshot::capture_layer(self, stream, &request),
            Request::Scan(request) => scan::scan(self, stream, &request),
            Request::Listen { port } => forward::listen(self, port),
            Request::Ping => Ok(Reply::Pong {
                processes: processes::sandbox_processes().len() as u64,
                agent_rss_kb: resident_kb(),
            }),
            Request::Shutdown => {
                Err(refusal::new_refusal(RefusalKind::BadRequest, "a shutdown gets no reply here"))
            }
        }
    }
}

fn body_error(frame: &Frame, reason: &str) -> WireError {
    WireError::InvalidBody { kind: frame.kind, reason: reason.to_owned() }
}

fn expect_stdin(frame: &Frame, channel: u8) -> Result<(), WireError> {
    if channel == channel::STDIN {
        Ok(())
    } else {
        Err(body_error(frame, "not a channel that the host may use"))
    }
}

/// Returns the agent's resident memory in KiB; 0 if the sandbox has no `/proc`.
fn resident_kb() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64 / 1024
}
