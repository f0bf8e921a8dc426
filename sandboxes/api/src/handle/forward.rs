//! Connections that somebody in the sandbox made to a forwarded listener.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{
    SandboxError, SandboxHandle,
    call::{Call, Event, Flow, Input},
    link::Link,
    stream::SandboxStream,
};
use crate::wire::{Reply, Request};

/// Connections that may wait to be accepted; one more is closed.
pub(super) const WAITING: usize = 64;

/// One connection. Dropping it closes it.
pub struct Incoming {
    /// The port of the listener that was connected to.
    pub port: u16,
    call: Call,
    ended: bool,
}

impl SandboxHandle {
    /// Listens on 127.0.0.1:`port` inside (0: any) and returns the port. The listener lives as
    /// long as the channel.
    pub async fn listen(&self, port: u16) -> Result<u16, SandboxError> {
        match self.ask(Request::Listen { port }).await? {
            Reply::Listening { port } => Ok(port),
            _ => Err(self.wrong_reply()),
        }
    }

    /// The next connection to any listener of the sandbox. One caller gets each.
    pub async fn accept(&self) -> Result<Incoming, SandboxError> {
        let next = self.accepted.lock().await.recv().await;
        next.ok_or_else(|| self.link.error())
    }
}

impl Incoming {
    pub(super) fn new(
        port: u16,
        link: Arc<Link>,
        id: u32,
        flow: Flow,
        events: mpsc::UnboundedReceiver<Event>,
    ) -> Self {
        Self { port, call: Call::new(link, id, flow, events), ended: false }
    }

    /// The connection as a byte stream.
    pub fn into_stream(self) -> SandboxStream {
        SandboxStream::new(self.call, self.ended)
    }

    /// The next bytes from inside; `None` when the other side has finished sending.
    pub async fn receive(&mut self) -> Result<Option<Vec<u8>>, SandboxError> {
        while !self.ended {
            match self.call.step(&mut Input::none()).await? {
                Event::Data(_, bytes) => return Ok(Some(bytes)),
                Event::End | Event::Reply(Ok(_)) => self.ended = true,
                Event::Reply(Err(refusal)) => return Err(SandboxError::Refused(refusal)),
            }
        }
        Ok(None)
    }

    /// Sends all bytes, as fast as the other side takes them.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), SandboxError> {
        self.call.send(bytes).await
    }

    /// Says that nothing more will be sent.
    pub fn finish(&mut self) {
        self.call.end_input();
    }
}
