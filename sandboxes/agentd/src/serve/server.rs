//! The state that the agent's threads share, including the open streams.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use proctor_wire::{Refusal, Reply, WireError};
use rustix::io::Errno;

use super::{outbox::Outbox, processes, reaper::Reaper, snapshot::SnapshotState, stream::Stream};

/// The state that all threads share.
pub struct Server {
    pub outbox: Arc<Outbox>,
    pub reaper: Arc<Reaper>,
    pub snapshots: Mutex<SnapshotState>,
    streams: Mutex<HashMap<u32, Arc<Stream>>>,
    /// The highest stream that each side has opened. A frame for a closed stream at or below that
    /// number is late rather than invalid, because the host may not know yet that the stream is
    /// closed.
    pub(super) highest_stream_ids: [AtomicU32; 2],
}

impl Server {
    pub fn new(outbox: Arc<Outbox>, reaper: Arc<Reaper>) -> Self {
        Self {
            outbox,
            reaper,
            snapshots: Mutex::default(),
            streams: Mutex::default(),
            highest_stream_ids: [AtomicU32::new(0), AtomicU32::new(0)],
        }
    }

    pub(super) fn streams(&self) -> MutexGuard<'_, HashMap<u32, Arc<Stream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a stream; `None` if it is already closed.
    pub(super) fn find_stream(&self, id: u32) -> Result<Option<Arc<Stream>>, WireError> {
        if let Some(stream) = self.streams().get(&id) {
            return Ok(Some(Arc::clone(stream)));
        }
        if id == 0 || id > self.highest_stream_ids[(id % 2) as usize].load(Ordering::SeqCst) {
            return Err(WireError::InvalidStream { stream: id, reason: "never opened" });
        }
        Ok(None)
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
        let before = self.highest_stream_ids[1].load(Ordering::SeqCst);
        let id = if before == 0 { 1 } else { before.checked_add(2).ok_or(Errno::NFILE)? };
        let stream = Arc::new(Stream::new(id)?);
        streams.insert(id, Arc::clone(&stream));
        self.highest_stream_ids[1].store(id, Ordering::SeqCst);
        Ok(stream)
    }

    /// Closes a stream with a reply. Removes the stream first, because the host may reuse the
    /// number as soon as it has the reply.
    pub fn close_stream(&self, id: u32, answer: &Result<Reply, Refusal>) {
        self.streams().remove(&id);
        self.outbox.reply(id, answer);
    }
}
