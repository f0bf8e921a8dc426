//! The receiving side of one stream: its events and its flow control.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use tokio::sync::{Semaphore, mpsc};

use crate::wire::{INITIAL_CREDIT, Refusal, Reply};

/// What the agent sent on a stream.
pub enum Event {
    Data(u8, Vec<u8>),
    End,
    Reply(Result<Reply, Refusal>),
}

/// The sending half of a stream's event queue. Only the reader task holds it, so when it is
/// dropped, every waiting call learns that no more events will come.
#[derive(Clone)]
pub struct Inbox {
    events: mpsc::UnboundedSender<Event>,
    pub flow: Flow,
}

/// Flow-control credit in both directions.
#[derive(Clone)]
pub struct Flow {
    /// Bytes that may be sent to the agent.
    pub credit: Arc<Semaphore>,
    /// Bytes that the agent may still send. Limits the size of the event queue.
    allowance: Arc<AtomicI64>,
}

impl Inbox {
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let flow = Flow {
            credit: Arc::new(Semaphore::new(INITIAL_CREDIT as usize)),
            allowance: Arc::new(AtomicI64::new(INITIAL_CREDIT.into())),
        };
        (Self { events, flow }, receiver)
    }

    /// Queues an event. Returns `false` if the receiver is gone.
    pub fn push(&self, event: Event) -> bool {
        self.events.send(event).is_ok()
    }
}

impl Flow {
    /// Deducts received bytes from the agent's allowance. Returns `false` if the agent exceeded it.
    pub fn charge(&self, bytes: usize) -> bool {
        let bytes = bytes as i64;
        self.allowance.fetch_sub(bytes, Ordering::AcqRel) >= bytes
    }

    pub fn refund(&self, bytes: usize) {
        self.allowance.fetch_add(bytes as i64, Ordering::AcqRel);
    }
}
