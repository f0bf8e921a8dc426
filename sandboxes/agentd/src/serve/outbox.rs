//! The queue of data to send to the host.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use proctor_wire::{Frame, FrameKind, Refusal, RefusalKind, Reply};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::processes;

/// Time limit for sending final messages at shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The number of bytes that can be written without blocking whenever `poll` reports a pipe as
/// writable (the kernel's `PIPE_BUF`).
const ATOMIC_WRITE_BYTES: usize = 4096;

/// A send queue with a single writer thread. A host that does not read never blocks the senders, so
/// time limits are always enforced. The queue stays small because streams send data only when they
/// have credit.
pub struct Outbox {
    writer: OwnedFd,
    queue: Mutex<Queue>,
    queue_changed: Condvar,
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    is_writing: bool,
    discards_frames: bool,
}

impl Outbox {
    pub fn start(writer: OwnedFd) -> io::Result<Arc<Self>> {
        let outbox =
            Arc::new(Self { writer, queue: Mutex::default(), queue_changed: Condvar::new() });
        let own = Arc::clone(&outbox);
        thread::Builder::new().stack_size(128 << 10).spawn(move || own.run_writer())?;
        Ok(outbox)
    }

    pub fn send(&self, frame: &Frame) {
        self.send_bytes(&frame.encode());
    }

    pub fn send_bytes(&self, bytes: &[u8]) {
        let mut queue = self.lock();
        if queue.discards_frames {
            return;
        }
        // On an idle channel, write a short reply directly. Switching to the writer thread would
        // take a large part of a short command's time.
        let mut rest = bytes;
        if queue.bytes.is_empty()
            && !queue.is_writing
            && bytes.len() <= ATOMIC_WRITE_BYTES
            && self.is_ready()
        {
            rest = &bytes[rustix::io::write(&self.writer, bytes).unwrap_or(0)..];
        }
        if !rest.is_empty() {
            queue.bytes.extend_from_slice(rest);
            self.queue_changed.notify_all();
        }
    }

    /// Discards all frames sent from now on. The sandbox is about to be killed, and the host must
    /// not mistake a command that is killed with the sandbox for one that ended by itself.
    pub fn discard_later_frames(&self) {
        self.lock().discards_frames = true;
    }

    /// Sends the last frame. Called after [`Self::discard_later_frames`], which does not apply to
    /// it.
    pub fn send_final(&self, frame: &Frame) {
        self.lock().bytes.extend_from_slice(&frame.encode());
        self.queue_changed.notify_all();
    }

    fn is_ready(&self) -> bool {
        let mut fds = [PollFd::new(&self.writer, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)) == Ok(1) && fds[0].revents() == PollFlags::OUT
    }

    /// Closes a stream with a reply. If the reply is too long for a frame, sends a refusal instead.
    pub fn reply(&self, stream: u32, answer: &Result<Reply, Refusal>) {
        let frame = Frame::json(FrameKind::Reply, stream, answer).or_else(|error| {
            let refusal = Refusal { why: RefusalKind::TooLarge, what: format!("answer: {error}") };
            Frame::json(FrameKind::Reply, stream, &Err::<Reply, _>(refusal))
        });
        if let Ok(frame) = frame {
            self.send(&frame);
        }
    }

    /// Waits until everything is written, for at most [`FLUSH_TIMEOUT`].
    pub fn flush(&self) {
        let queue = self.lock();
        let busy = |queue: &mut Queue| queue.is_writing || !queue.bytes.is_empty();
        let _ = self.queue_changed.wait_timeout_while(queue, FLUSH_TIMEOUT, busy);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_writer(&self) {
        let mut out = Vec::new();
        loop {
            out.clear();
            {
                let mut queue = self.lock();
                queue.is_writing = false;
                self.queue_changed.notify_all();
                while queue.bytes.is_empty() {
                    queue = self.queue_changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
                std::mem::swap(&mut queue.bytes, &mut out);
                queue.is_writing = true;
            }
            let mut rest = &out[..];
            while !rest.is_empty() {
                match rustix::io::write(&self.writer, rest) {
                    Ok(written) => rest = &rest[written..],
                    Err(Errno::INTR) => {}
                    Err(_) => {
                        // The stream has ended, so the host no longer receives data. End the
                        // sandbox.
                        processes::kill_everything();
                        std::process::exit(0);
                    }
                }
            }
            // Shrink the buffer, so that a single burst does not keep memory occupied for the
            // sandbox's lifetime.
            out.shrink_to(256 << 10);
        }
    }
}
