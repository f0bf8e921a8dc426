//! The byte stream to the agent. One task reads it and another task writes it. Either task can
//! close it for all users.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use proctor_types::SandboxCounts;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::AbortHandle,
    time::timeout,
};

use super::{
    FailureDiagnostics, SandboxError, WrittenPathLister,
    forward::{IncomingConnection, MAX_PENDING_CONNECTIONS},
    inbox::{Event, Flow, Inbox},
};
use crate::wire::{
    AcceptedConnection, Frame, FrameKind, HELLO_BYTES, Refusal, RefusalKind, Reply, WireError,
    check_hello, hello,
};

/// How long the agent may take to send its hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes per read or write.
const BURST_BYTES: usize = 256 << 10;

/// The most credit an agent can accumulate on one stream, in bytes.
const CREDIT_LIMIT: usize = 1 << 40;

/// The host's end of the channel to one sandbox, shared by everything that uses the sandbox.
/// Requests run concurrently. Dropping the last handle closes the channel, which ends the sandbox.
///
/// A back end connects one handle per sandbox. In this example, the code itself plays the agent:
///
/// ```
/// use proctor_sandbox_api::{
///     Command, SandboxHandle,
///     wire::{CommandExit, Frame, FrameKind, HELLO_BYTES, Refusal, Reply, hello},
/// };
/// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (host, mut agent) = duplex(1 << 20);
/// tokio::spawn(async move {
///     agent.write_all(&hello()).await?;
///     let mut buffer = vec![0; HELLO_BYTES];
///     agent.read_exact(&mut buffer).await?;
///     buffer.clear();
///     let open = loop {
///         agent.read_buf(&mut buffer).await?;
///         if let Some((frame, _)) = Frame::decode(&buffer).unwrap() {
///             break frame;
///         }
///     };
///     let reply: Result<Reply, Refusal> =
///         Ok(Reply::Exited(CommandExit { code: Some(3), ..CommandExit::default() }));
///     agent.write_all(&Frame::json(FrameKind::Reply, open.stream, &reply).unwrap().encode()).await
/// });
/// let (reader, writer) = split(host);
/// let handle = SandboxHandle::connect(reader, writer).await?;
/// let done = handle.run(Command::shell("exit 3").cwd("/testbed")).await?;
/// // A failed command is a result. An error means that the sandbox rejected the request
/// // or is gone.
/// assert_eq!(done.exit.code, Some(3));
/// assert!(!done.success());
/// # Ok(())
/// # }
/// ```
pub struct SandboxHandle {
    pub(super) link: Arc<Link>,
    pub(super) accepted_connections: tokio::sync::Mutex<mpsc::Receiver<IncomingConnection>>,
    pub(super) diagnostics: OnceLock<Arc<dyn FailureDiagnostics>>,
    pub(super) written_path_lister: OnceLock<Arc<dyn WrittenPathLister>>,
    pub(super) image_env: OnceLock<BTreeMap<String, String>>,
    pub(super) default_env: OnceLock<BTreeMap<String, String>>,
    abort_handles: [AbortHandle; 2],
}

/// The state that the reader, the writer and all open calls share.
pub struct Link {
    frame_queue: mpsc::UnboundedSender<Vec<u8>>,
    state: Mutex<LinkState>,
    /// Number of commands that were killed at their time limit.
    timeout_count: AtomicU64,
    /// Number of requests that failed for lack of space.
    no_space_count: AtomicU64,
}

struct LinkState {
    streams: HashMap<u32, Inbox>,
    next_stream: u32,
    broken_reason: Option<String>,
    connection_sender: Option<mpsc::Sender<IncomingConnection>>,
    /// Dedicated listeners by port. Connections to other ports go to [`SandboxHandle::accept`].
    listeners: HashMap<u16, mpsc::Sender<IncomingConnection>>,
}

impl SandboxHandle {
    /// Exchanges hellos with an agent over a byte stream.
    ///
    /// # Errors
    /// Returns [`SandboxError::Broken`] if the stream ends, is silent for 30 seconds, or does not
    /// start with a hello of this protocol version.
    pub async fn connect(
        mut reader: impl AsyncRead + Send + Unpin + 'static,
        mut writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Arc<Self>, SandboxError> {
        let mut theirs = [0; HELLO_BYTES];
        let greeting = async {
            writer.write_all(&hello()).await?;
            writer.flush().await?;
            reader.read_exact(&mut theirs).await
        };
        match timeout(HELLO_TIMEOUT, greeting).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                return Err(SandboxError::from_reason(format!(
                    "no hello from the sandbox agent: {error}"
                )));
            }
            Err(_) => {
                return Err(SandboxError::from_reason(
                    "no hello from the sandbox agent within 30 s",
                ));
            }
        }
        check_hello(&theirs).map_err(|error| SandboxError::from_reason(error.to_string()))?;

        let (out, queue) = mpsc::unbounded_channel();
        let (accepting, accepted) = mpsc::channel(MAX_PENDING_CONNECTIONS);
        let state = LinkState {
            streams: HashMap::new(),
            next_stream: 2,
            broken_reason: None,
            connection_sender: Some(accepting),
            listeners: HashMap::new(),
        };
        let (timed_out, no_space) = Default::default();
        let link = Arc::new(Link {
            frame_queue: out,
            state: Mutex::new(state),
            timeout_count: timed_out,
            no_space_count: no_space,
        });
        let reading = tokio::spawn(read_frames(Arc::clone(&link), reader));
        let writing = tokio::spawn(write_frames(Arc::clone(&link), queue, writer));
        let tasks = [reading.abort_handle(), writing.abort_handle()];
        let accepted = tokio::sync::Mutex::new(accepted);
        let (witness, image_env) = (OnceLock::new(), OnceLock::new());
        let (written_paths, default_env) = (OnceLock::new(), OnceLock::new());
        Ok(Arc::new(Self {
            link,
            accepted_connections: accepted,
            diagnostics: witness,
            written_path_lister: written_paths,
            image_env,
            default_env,
            abort_handles: tasks,
        }))
    }

    /// Returns the counters kept on this side of the channel.
    pub fn counts(&self) -> SandboxCounts {
        SandboxCounts {
            commands_timed_out: Some(self.link.timeout_count.load(Ordering::Relaxed)),
            disk_refused: Some(self.link.no_space_count.load(Ordering::Relaxed)),
            ..SandboxCounts::default()
        }
    }

    /// Returns why the sandbox is gone, or `None` if it is alive.
    pub fn broken_reason(&self) -> Option<String> {
        self.link.state().broken_reason.clone()
    }

    /// Closes the channel immediately, even if others still hold the handle. Every pending and
    /// later request fails with [`SandboxError::Broken`] and the reason `reason`. If the channel is
    /// already closed, the first reason is kept.
    pub fn disconnect(&self, reason: &str) {
        self.link.close(reason);
        for task in &self.abort_handles {
            task.abort();
        }
    }

    /// Sends bytes that violate the protocol, for the conformance kit.
    #[doc(hidden)]
    pub fn send_garbage(&self, bytes: &[u8]) {
        let _ = self.link.frame_queue.send(bytes.to_vec());
    }
}

impl Drop for SandboxHandle {
    fn drop(&mut self) {
        self.disconnect("closed by the runtime");
    }
}

impl Link {
    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts commands that timed out and requests that failed for lack of space.
    pub fn count_failures(&self, reply: &Result<Reply, Refusal>) {
        let counter = match reply {
            Ok(Reply::Exited(exited)) if exited.timed_out => &self.timeout_count,
            Err(refusal) if refusal.why == RefusalKind::NoSpace => &self.no_space_count,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the error of every request after the channel has closed.
    pub fn error(&self) -> SandboxError {
        let why = self.state().broken_reason.clone();
        SandboxError::from_reason(why.unwrap_or_else(|| "the channel was closed".to_owned()))
    }

    /// Opens a stream for a request. Registers the stream's inbox first, so that it exists before
    /// the agent receives the request.
    pub fn open(&self) -> Result<(u32, Flow, mpsc::UnboundedReceiver<Event>), SandboxError> {
        let mut state = self.state();
        if let Some(why) = &state.broken_reason {
            return Err(SandboxError::from_reason(why));
        }
        let id = state.next_stream;
        state.next_stream = id
            .checked_add(2)
            .ok_or_else(|| SandboxError::from_reason("the channel has used all stream numbers"))?;
        let (inbox, events) = Inbox::new();
        let flow = inbox.flow.clone();
        state.streams.insert(id, inbox);
        Ok((id, flow, events))
    }

    pub fn remove_stream(&self, stream: u32) {
        self.state().streams.remove(&stream);
    }

    /// Queues a frame. If the channel is closed, discards the frame; the caller's event queue then
    /// reports that.
    pub fn send(&self, frame: &Frame) {
        let _ = self.frame_queue.send(frame.encode());
    }

    pub fn send_credit(&self, stream: u32, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.send(&Frame::new(FrameKind::Credit, stream, bytes.to_be_bytes()));
    }

    /// Closes the channel and wakes all waiting callers. If the channel is already closed, keeps
    /// the first reason.
    pub fn close(&self, reason: &str) {
        let streams = {
            let mut state = self.state();
            if state.broken_reason.is_none() {
                state.broken_reason = Some(reason.to_owned());
            }
            state.connection_sender = None;
            state.listeners.clear();
            std::mem::take(&mut state.streams)
        };
        for inbox in streams.values() {
            inbox.flow.credit.close();
        }
    }

    /// Delivers connections to `port` to a listener. Returns `false` if the sandbox is gone.
    pub fn add_listener(&self, port: u16, connections: mpsc::Sender<IncomingConnection>) -> bool {
        let mut state = self.state();
        let open = state.connection_sender.is_some();
        if open {
            state.listeners.insert(port, connections);
        }
        open
    }

    /// Stops delivering connections to a listener.
    pub fn remove_listener(&self, port: u16) {
        self.state().listeners.remove(&port);
    }

    /// Closes every stream except `stream`. No new streams can be opened.
    pub fn close_except(&self, stream: u32, reason: &str) {
        let retired: Vec<_> = {
            let mut state = self.state();
            state.broken_reason.get_or_insert_with(|| reason.to_owned());
            state.connection_sender = None;
            state.listeners.clear();
            state.streams.extract_if(|id, _| *id != stream).collect()
        };
        for (_, inbox) in retired {
            inbox.flow.credit.close();
        }
    }

    fn handle_frame(self: &Arc<Self>, frame: Frame) -> Result<(), WireError> {
        let Frame { kind, stream, .. } = frame;
        let wrong = |why| Err(WireError::InvalidStream { stream, reason: why });
        let body = |why: &str| WireError::InvalidBody { kind, reason: why.to_owned() };
        match kind {
            FrameKind::Open | FrameKind::Cancel => {
                return Err(body("only the host may send messages of this kind"));
            }
            FrameKind::Accepted => return self.accept(&frame),
            FrameKind::Data | FrameKind::Credit | FrameKind::End | FrameKind::Reply => {}
        }
        let inbox = {
            let state = self.state();
            match state.streams.get(&stream) {
                Some(inbox) => inbox.clone(),
                // The channel is closing: ignore frames for streams that are already closed.
                None if state.broken_reason.is_some() => return Ok(()),
                None => return wrong("not open"),
            }
        };
        match kind {
            FrameKind::Data => {
                let mut bytes = frame.body;
                let Some(&channel) = bytes.first() else { return Err(body("no channel")) };
                if !(1..=3).contains(&channel) {
                    return Err(body("not a channel that the agent may use"));
                }
                bytes.remove(0);
                if !inbox.flow.charge(bytes.len()) {
                    return wrong("more data than credited");
                }
                let length = bytes.len();
                if !inbox.push(Event::Data(channel, bytes)) {
                    // The receiver is gone, but the agent must still be able to finish sending.
                    inbox.flow.refund(length);
                    self.send_credit(stream, length);
                }
            }
            FrameKind::Credit => {
                let bytes = <[u8; 4]>::try_from(&frame.body[..])
                    .map_err(|_| body("a credit message must be exactly 4 bytes long"))?;
                let bytes = u32::from_be_bytes(bytes) as usize;
                if inbox.flow.credit.available_permits() + bytes > CREDIT_LIMIT {
                    return wrong("excessive credit");
                }
                inbox.flow.credit.add_permits(bytes);
            }
            FrameKind::End => {
                let [1..=3] = frame.body[..] else {
                    return Err(body("not a channel that the agent may use"));
                };
                inbox.push(Event::End);
            }
            _ => {
                let reply: Result<Reply, Refusal> = frame.parse()?;
                self.state().streams.remove(&stream);
                inbox.push(Event::Reply(reply));
                inbox.flow.credit.close();
            }
        }
        Ok(())
    }

    fn accept(self: &Arc<Self>, frame: &Frame) -> Result<(), WireError> {
        let stream = frame.stream;
        let accepted: AcceptedConnection = frame.parse()?;
        let (inbox, events) = Inbox::new();
        let flow = inbox.flow.clone();
        let accepting = {
            let mut state = self.state();
            if stream.is_multiple_of(2) || state.streams.contains_key(&stream) {
                return Err(WireError::InvalidStream {
                    stream,
                    reason: "expected a new odd stream",
                });
            }
            state.streams.insert(stream, inbox);
            state.listeners.get(&accepted.port).or(state.connection_sender.as_ref()).cloned()
        };
        let incoming =
            IncomingConnection::new(accepted.port, Arc::clone(self), stream, flow, events);
        // If the connection is dropped here, it is cancelled: the program in the sandbox sees a
        // closed connection.
        if let Some(accepting) = accepting {
            let _ = accepting.try_send(incoming);
        }
        Ok(())
    }
}

async fn read_frames(link: Arc<Link>, mut reader: impl AsyncRead + Unpin) {
    let mut buffer = Vec::new();
    let mut chunk = vec![0; BURST_BYTES];
    let why = loop {
        match reader.read(&mut chunk).await {
            Ok(0) => break "the stream ended".to_owned(),
            Ok(read) => buffer.extend_from_slice(&chunk[..read]),
            Err(error) => break format!("the stream cannot be read: {error}"),
        }
        let mut taken = 0;
        let outcome = loop {
            match Frame::decode(&buffer[taken..]) {
                Ok(Some((frame, length))) => {
                    taken += length;
                    if let Err(error) = link.handle_frame(frame) {
                        break Err(error);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if let Err(error) = outcome {
            break format!("protocol error by the sandbox agent: {error}");
        }
        buffer.drain(..taken);
    };
    link.close(&why);
}

async fn write_frames(
    link: Arc<Link>,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
    mut writer: impl AsyncWrite + Unpin,
) {
    while let Some(mut burst) = queue.recv().await {
        while burst.len() < BURST_BYTES
            && let Ok(more) = queue.try_recv()
        {
            burst.extend_from_slice(&more);
        }
        let written = async {
            writer.write_all(&burst).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            // Normally the reader closes the link, so that it can first read data that the agent
            // sent before it died. If the reader receives nothing, close the link here, so that
            // callers do not wait forever.
            tokio::time::sleep(Duration::from_secs(1)).await;
            link.close(&format!("the stream cannot be written: {error}"));
            return;
        }
    }
}
