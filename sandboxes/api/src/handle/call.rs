//! The host's side of one open stream: sending, receiving, and cancellation on drop.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::{Semaphore, mpsc};

use super::{
    SandboxError,
    inbox::{Event, Flow},
    link::Link,
};
use crate::wire::{Frame, FrameKind, Refusal, RefusalKind, Reply, Request, WireError, channel};

/// The largest chunk sent in one frame, in bytes.
pub const CHUNK_BYTES: usize = 128 << 10;

/// The host's side of a stream. Dropping it before the reply cancels the request: the agent kills
/// the processes that it started for the request, and the host ignores the reply.
pub struct Call {
    link: Arc<Link>,
    id: u32,
    flow: Flow,
    events: mpsc::UnboundedReceiver<Event>,
    has_reply: bool,
}

/// Input for the agent, and whether the end of the input was sent.
pub struct Input<'a> {
    unsent: &'a [u8],
    is_end_sent: bool,
}

impl<'a> Input<'a> {
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        Self { unsent: bytes, is_end_sent: false }
    }

    /// Creates the input for a request that has no input.
    pub fn empty() -> Self {
        Self { unsent: &[], is_end_sent: true }
    }
}

impl Call {
    pub fn open(link: &Arc<Link>, request: &Request) -> Result<Self, SandboxError> {
        let (id, flow, events) = link.open()?;
        let call = Self::new(Arc::clone(link), id, flow, events);
        match Frame::json(FrameKind::Open, id, request) {
            Ok(frame) => {
                call.link.send(&frame);
                Ok(call)
            }
            Err(error) => {
                call.discard();
                let why = match error {
                    WireError::TooLong { .. } => RefusalKind::TooLarge,
                    _ => RefusalKind::BadRequest,
                };
                Err(SandboxError::Refused(Refusal { why, what: format!("the request: {error}") }))
            }
        }
    }

    pub fn new(
        link: Arc<Link>,
        id: u32,
        flow: Flow,
        events: mpsc::UnboundedReceiver<Event>,
    ) -> Self {
        Self { link, id, flow, events, has_reply: false }
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    /// Removes the stream without a cancel frame, because the agent never received the request.
    fn discard(mut self) {
        self.has_reply = true;
        self.link.remove_stream(self.id);
    }

    /// Returns the next event. Meanwhile, sends `input` as far as the agent's credit allows.
    ///
    /// Cancel-safe: each chunk is sent completely or not at all.
    pub async fn next_event(&mut self, input: &mut Input<'_>) -> Result<Event, SandboxError> {
        loop {
            if input.unsent.is_empty() && !input.is_end_sent {
                input.is_end_sent = true;
                self.link.send(&Frame::new(FrameKind::End, self.id, [channel::STDIN]));
            }
            let piece = input.unsent.len().min(CHUNK_BYTES);
            let event = tokio::select! {
                biased;
                event = self.events.recv() => event,
                permits = self.flow.credit.acquire_many(piece as u32), if piece > 0 => {
                    match permits {
                        Ok(permits) => {
                            permits.forget();
                            let (now, later) = input.unsent.split_at(piece);
                            self.link.send(&Frame::data(self.id, channel::STDIN, now));
                            input.unsent = later;
                        }
                        // Either the reply has arrived, or the channel is closed. The next event
                        // shows which.
                        Err(_) => *input = Input::empty(),
                    }
                    continue;
                }
            };
            return self.process_event(event);
        }
    }

    /// Like [`Call::next_event`], but the caller owns the input and may extend it between calls.
    /// The end of the input is never sent.
    pub async fn next_event_with_input(
        &mut self,
        input: &mut VecDeque<u8>,
    ) -> Result<Event, SandboxError> {
        loop {
            let piece = input.len().min(CHUNK_BYTES);
            let event = tokio::select! {
                biased;
                event = self.events.recv() => event,
                permits = self.flow.credit.acquire_many(piece as u32), if piece > 0 => {
                    match permits {
                        Ok(permits) => {
                            permits.forget();
                            let now: Vec<u8> = input.drain(..piece).collect();
                            self.send_chunk(&now);
                        }
                        // Either the reply has arrived, or the channel is closed. The next event
                        // shows which.
                        Err(_) => input.clear(),
                    }
                    continue;
                }
            };
            return self.process_event(event);
        }
    }

    /// Sends until at most `max_unsent` bytes are left or the request has ended.
    pub async fn send_until(&mut self, input: &mut VecDeque<u8>, max_unsent: usize) {
        while input.len() > max_unsent {
            let piece = input.len().min(CHUNK_BYTES);
            match self.flow.credit.acquire_many(piece as u32).await {
                Ok(permits) => permits.forget(),
                Err(_) => return input.clear(),
            }
            let now: Vec<u8> = input.drain(..piece).collect();
            self.send_chunk(&now);
        }
    }

    /// Like [`Call::next_event`] without input, but as a poll function.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, SandboxError>> {
        let event = ready!(self.events.poll_recv(cx));
        Poll::Ready(self.process_event(event))
    }

    /// Processes an event that was taken from the queue. For data, grants the agent new credit.
    fn process_event(&mut self, event: Option<Event>) -> Result<Event, SandboxError> {
        let event = event.ok_or_else(|| self.link.error())?;
        match &event {
            Event::Data(_, bytes) => {
                self.flow.refund(bytes.len());
                self.link.send_credit(self.id, bytes.len());
            }
            Event::Reply(reply) => {
                self.has_reply = true;
                self.link.count_failures(reply);
            }
            Event::End => {}
        }
        Ok(event)
    }

    /// Returns the agent's credit: one permit for each byte that may be sent.
    pub fn credit(&self) -> &Arc<Semaphore> {
        &self.flow.credit
    }

    /// Sends a chunk for which the caller has already acquired credit.
    pub fn send_chunk(&self, chunk: &[u8]) {
        self.link.send(&Frame::data(self.id, channel::STDIN, chunk));
    }

    /// Sends all bytes, waiting for credit as needed.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), SandboxError> {
        for piece in bytes.chunks(CHUNK_BYTES) {
            match self.flow.credit.acquire_many(piece.len() as u32).await {
                Ok(permits) => permits.forget(),
                Err(_) => return Err(self.link.error()),
            }
            self.send_chunk(piece);
        }
        Ok(())
    }

    pub fn end_input(&self) {
        self.link.send(&Frame::new(FrameKind::End, self.id, [channel::STDIN]));
    }

    /// Waits for the reply to a request without data.
    pub async fn wait_for_reply(mut self) -> Result<Reply, SandboxError> {
        loop {
            match self.next_event(&mut Input::empty()).await? {
                Event::Reply(reply) => return reply.map_err(SandboxError::Refused),
                Event::End => {}
                Event::Data(..) => return Err(self.close_with_protocol_error("unrequested data")),
            }
        }
    }

    /// Closes the channel because the agent violated the protocol.
    pub fn close_with_protocol_error(&self, reason: &str) -> SandboxError {
        self.link.close(&format!("protocol error by the sandbox agent: {reason}"));
        self.link.error()
    }

    /// Closes the channel for another reason.
    pub fn close_with_error(&self, reason: &str) -> SandboxError {
        self.link.close(reason);
        self.link.error()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.has_reply {
            self.link.send(&Frame::new(FrameKind::Cancel, self.id, []));
        }
    }
}
