//! Converts the output of an attached container to the channel's bytes.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use bollard::{container::LogOutput, errors::Error};
use bytes::{Buf, Bytes};
use futures_util::Stream;
use tokio::io::{AsyncRead, ReadBuf};

/// Maximum number of bytes to keep of the agent's standard error.
const STDERR_TAIL_BYTES: usize = 4096;

/// The end of the agent's standard error, which helps explain why a sandbox is not responding.
pub type StderrTail = Arc<Mutex<Vec<u8>>>;

pub fn stderr_text(stderr_tail: &StderrTail) -> String {
    let words = stderr_tail.lock().unwrap_or_else(PoisonError::into_inner);
    String::from_utf8_lossy(&words).trim().to_owned()
}

/// Extracts standard output from the engine's frames and keeps standard error separately.
pub struct AgentOutput {
    frames: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    current_chunk: Bytes,
    stderr_tail: StderrTail,
}

impl AgentOutput {
    pub fn new(
        frames: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
        stderr_tail: StderrTail,
    ) -> Self {
        Self { frames, current_chunk: Bytes::new(), stderr_tail }
    }

    fn keep_stderr(&self, message: &[u8]) {
        let mut words = self.stderr_tail.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(message);
        let over = words.len().saturating_sub(STDERR_TAIL_BYTES);
        words.drain(..over);
    }
}

impl AsyncRead for AgentOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.current_chunk.is_empty() {
            match ready!(self.frames.as_mut().poll_next(context)) {
                None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                Some(Ok(LogOutput::StdErr { message })) => self.keep_stderr(&message),
                Some(Ok(LogOutput::StdOut { message } | LogOutput::Console { message })) => {
                    self.current_chunk = message;
                }
                Some(Ok(LogOutput::StdIn { .. })) => {}
            }
        }
        let length = self.current_chunk.len().min(buffer.remaining());
        buffer.put_slice(&self.current_chunk[..length]);
        self.current_chunk.advance(length);
        Poll::Ready(Ok(()))
    }
}
