//! Connections from processes in the sandbox to a forwarded listener.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{
    SandboxError, SandboxHandle,
    call::{Call, Input},
    inbox::{Event, Flow},
    link::Link,
    stream::SandboxStream,
};
use crate::wire::{Reply, Request};

/// Maximum number of connections that wait to be accepted; further ones are closed.
pub(super) const MAX_PENDING_CONNECTIONS: usize = 64;

/// A connection from the sandbox. Dropping it closes the connection.
pub struct IncomingConnection {
    /// The listener's port.
    pub port: u16,
    call: Call,
    has_ended: bool,
}

impl SandboxHandle {
    /// Listens on 127.0.0.1:`port` in the sandbox (0 means any free port) and returns the port. The
    /// listener exists until the channel closes.
    pub async fn listen(&self, port: u16) -> Result<u16, SandboxError> {
        match self.ask(Request::Listen { port }).await? {
            Reply::Listening { port } => Ok(port),
            _ => Err(self.close_with_wrong_reply_error()),
        }
    }

    /// Listens on a free port of 127.0.0.1 in the sandbox. The returned listener receives all
    /// connections to that port, and no others.
    pub async fn bind_listener(&self) -> Result<Listener, SandboxError> {
        let port = self.listen(0).await?;
        let (connections, incoming) = mpsc::channel(MAX_PENDING_CONNECTIONS);
        match self.link.add_listener(port, connections) {
            true => Ok(Listener { port, connections: incoming, link: Arc::clone(&self.link) }),
            false => Err(self.link.error()),
        }
    }

    /// Waits for the next connection to a port that has no [`Listener`]. If several callers wait,
    /// only one of them gets the connection.
    pub async fn accept(&self) -> Result<IncomingConnection, SandboxError> {
        let next = self.accepted_connections.lock().await.recv().await;
        next.ok_or_else(|| self.link.error())
    }
}

/// A listening port in the sandbox, and the connections to it that wait to be accepted.
pub struct Listener {
    port: u16,
    connections: mpsc::Receiver<IncomingConnection>,
    link: Arc<Link>,
}

impl Listener {
    /// Returns the port on 127.0.0.1 in the sandbox.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the next connection.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// Fails if the sandbox is gone.
    pub async fn accept(&mut self) -> Result<IncomingConnection, SandboxError> {
        self.connections.recv().await.ok_or_else(|| self.link.error())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.link.remove_listener(self.port);
    }
}

impl IncomingConnection {
    pub(super) fn new(
        port: u16,
        link: Arc<Link>,
        id: u32,
        flow: Flow,
        events: mpsc::UnboundedReceiver<Event>,
    ) -> Self {
        Self { port, call: Call::new(link, id, flow, events), has_ended: false }
    }

    /// Converts the connection to a byte stream.
    pub fn into_stream(self) -> SandboxStream {
        SandboxStream::new(self.call, self.has_ended)
    }

    /// Receives the next bytes from the sandbox. Returns `None` when the other side has finished
    /// sending.
    pub async fn receive(&mut self) -> Result<Option<Vec<u8>>, SandboxError> {
        while !self.has_ended {
            match self.call.next_event(&mut Input::empty()).await? {
                Event::Data(_, bytes) => return Ok(Some(bytes)),
                Event::End | Event::Reply(Ok(_)) => self.has_ended = true,
                Event::Reply(Err(refusal)) => return Err(SandboxError::Refused(refusal)),
            }
        }
        Ok(None)
    }

    /// Sends all bytes, as fast as the other side reads them.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), SandboxError> {
        self.call.send(bytes).await
    }

    /// Tells the other side that no more bytes will follow.
    pub fn finish(&mut self) {
        self.call.end_input();
    }
}
