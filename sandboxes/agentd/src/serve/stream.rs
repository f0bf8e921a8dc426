//! One open stream: the credit in both directions, the host's data, and whether the host cancelled
//! it.

use std::{
    collections::VecDeque,
    os::fd::{BorrowedFd, OwnedFd},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use proctor_wire::{Frame, FrameKind, INITIAL_CREDIT, Refusal, WireError};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fd::AsFd,
};

use super::{outbox::Outbox, refusal::cancelled_refusal};

/// The largest chunk that is read or sent at once, in bytes.
pub const CHUNK_BYTES: usize = 128 << 10;

/// The number of consumed bytes after which the host gets new credit. A credit frame for each chunk
/// would double the number of frames of a stream with small chunks.
const CREDIT_BATCH_BYTES: u64 = INITIAL_CREDIT as u64 / 2;

/// The state of a stream. The thread that reads frames fills it, and the thread that serves the
/// stream consumes it. Every change makes [`Stream::wake_fd`] readable, so the serving thread can
/// wait for the host and for its own descriptors with a single `poll`.
pub struct Stream {
    pub id: u32,
    state: Mutex<StreamState>,
    wake_event: OwnedFd,
    /// Whether the serving thread has been woken since it last cleared the event. Further wakes
    /// then need no system call.
    is_woken: AtomicBool,
}

struct StreamState {
    /// Bytes that may still be sent to the host.
    credit: u64,
    /// Bytes that the host may still send.
    allowance: u64,
    /// Bytes that were consumed, and for which the host has no new credit yet.
    consumed: u64,
    input: VecDeque<Vec<u8>>,
    has_input_ended: bool,
    is_cancelled: bool,
}

/// The next input from the host.
pub enum Input {
    Bytes(Vec<u8>),
    Nothing,
    Ended,
}

impl Stream {
    pub fn new(id: u32) -> rustix::io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let state = StreamState {
            credit: INITIAL_CREDIT.into(),
            allowance: INITIAL_CREDIT.into(),
            consumed: 0,
            input: VecDeque::new(),
            has_input_ended: false,
            is_cancelled: false,
        };
        let state = Mutex::new(state);
        Ok(Self { id, state, wake_event: wake, is_woken: AtomicBool::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the serving thread check the state again.
    pub fn wake(&self) {
        if self.is_woken.swap(true, Ordering::AcqRel) {
            return;
        }
        // The counter overflows only after 2^64 calls, and then it is readable anyway.
        let _ = rustix::io::write(&self.wake_event, &1u64.to_ne_bytes());
    }

    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake_event.as_fd()
    }

    /// Clears earlier wakes. Call this before checking the state, never after.
    pub fn clear_wake_event(&self) {
        let _ = rustix::io::read(&self.wake_event, &mut [0; 8][..]);
        // Only after the read: a wake between the two writes nothing, but its change is visible to
        // the check that follows. In the opposite order, the read could swallow a wake and leave
        // the flag set, and no later wake would write.
        self.is_woken.store(false, Ordering::Release);
    }

    fn wait(&self) {
        let _ = poll(&mut [PollFd::new(&self.wake_event, PollFlags::IN)], None);
        self.clear_wake_event();
    }

    pub fn add_credit(&self, bytes: u32) {
        let mut state = self.lock();
        state.credit = state.credit.saturating_add(bytes.into());
        drop(state);
        self.wake();
    }

    pub fn cancel(&self) {
        self.lock().is_cancelled = true;
        self.wake();
    }

    pub fn push(&self, bytes: &[u8]) -> Result<(), WireError> {
        let mut state = self.lock();
        if state.has_input_ended {
            return Err(WireError::InvalidStream {
                stream: self.id,
                reason: "data after the end of the input",
            });
        }
        let Some(left) = state.allowance.checked_sub(bytes.len() as u64) else {
            return Err(WireError::InvalidStream {
                stream: self.id,
                reason: "more data than credited",
            });
        };
        state.allowance = left;
        if !bytes.is_empty() {
            state.input.push_back(bytes.to_vec());
        }
        drop(state);
        self.wake();
        Ok(())
    }

    pub fn end_input(&self) {
        self.lock().has_input_ended = true;
        self.wake();
    }

    pub fn is_cancelled(&self) -> bool {
        self.lock().is_cancelled
    }

    pub fn credit(&self) -> u64 {
        self.lock().credit
    }

    /// Sends a chunk, which must not exceed the credit.
    pub fn send(&self, outbox: &Outbox, channel: u8, bytes: &[u8]) {
        let mut state = self.lock();
        state.credit = state.credit.saturating_sub(bytes.len() as u64);
        drop(state);
        outbox.send(&Frame::data(self.id, channel, bytes));
    }

    pub fn send_end(&self, outbox: &Outbox, channel: u8) {
        outbox.send(&Frame::new(FrameKind::End, self.id, [channel]));
    }

    /// Sends all bytes, waiting for credit as needed.
    pub fn send_all(&self, outbox: &Outbox, channel: u8, bytes: &[u8]) -> Result<(), Refusal> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.is_cancelled() {
                return Err(cancelled_refusal());
            }
            let fits = usize::try_from(self.credit()).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            if fits == 0 {
                self.wait();
                continue;
            }
            let (piece, later) = rest.split_at(fits.min(rest.len()));
            self.send(outbox, channel, piece);
            rest = later;
        }
        Ok(())
    }

    /// Takes the host's data without waiting, and grants the host new credit for consumed bytes in
    /// batches.
    pub fn take_input(&self, outbox: &Outbox) -> Input {
        let mut state = self.lock();
        let Some(bytes) = state.input.pop_front() else {
            return if state.has_input_ended { Input::Ended } else { Input::Nothing };
        };
        state.consumed += bytes.len() as u64;
        if state.has_input_ended || state.consumed < CREDIT_BATCH_BYTES {
            return Input::Bytes(bytes);
        }
        let granted = std::mem::take(&mut state.consumed);
        state.allowance += granted;
        drop(state);
        outbox.send(&Frame::new(FrameKind::Credit, self.id, (granted as u32).to_be_bytes()));
        Input::Bytes(bytes)
    }

    /// Waits for the next chunk from the host. Returns `None` at the end of the input.
    pub fn next_input(&self, outbox: &Outbox) -> Result<Option<Vec<u8>>, Refusal> {
        loop {
            if self.is_cancelled() {
                return Err(cancelled_refusal());
            }
            match self.take_input(outbox) {
                Input::Bytes(bytes) => return Ok(Some(bytes)),
                Input::Ended => return Ok(None),
                Input::Nothing => self.wait(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proctor_wire::{Frame, FrameKind, INITIAL_CREDIT};

    use super::{CREDIT_BATCH_BYTES, Input, Outbox, Stream};

    #[test]
    fn take_input_grants_credit_in_batches() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let outbox = Outbox::start(writer.into()).expect("a writer");
        let stream = Stream::new(7).expect("a stream");
        let piece = [0; 1 << 10];
        // The host sends four times the initial credit.
        for _ in 0..4 * INITIAL_CREDIT as usize / piece.len() {
            stream.push(&piece).expect("the host has credit");
            assert!(matches!(stream.take_input(&outbox), Input::Bytes(_)));
        }
        outbox.flush();
        let credit = (CREDIT_BATCH_BYTES as u32).to_be_bytes();
        let frame = Frame::new(FrameKind::Credit, 7, credit).encode();
        let mut sent = [0; 4 << 10];
        let length = reader.read(&mut sent).expect("credit frames");
        assert_eq!(sent[..length], frame.repeat(8));
    }
}
