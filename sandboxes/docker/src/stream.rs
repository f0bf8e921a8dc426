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

pub fn stderr_text(words: &StderrTail) -> String {
    let words = words.lock().unwrap_or_else(PoisonError::into_inner);
    String::from_utf8_lossy(&words).trim().to_owned()
}

/// Extracts standard output from the engine's frames and keeps standard error separately.
pub struct Output {
    frames: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    current: Bytes,
    words: StderrTail,
}

impl Output {
    pub fn new(
        frames: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
        words: StderrTail,
    ) -> Self {
        Self { frames, current: Bytes::new(), words }
    }

    fn keep(&self, message: &[u8]) {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(message);
        let over = words.len().saturating_sub(STDERR_TAIL_BYTES);
        words.drain(..over);
    }
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.current.is_empty() {
            match ready!(self.frames.as_mut().poll_next(context)) {
                None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                Some(Ok(LogOutput::StdErr { message })) => self.keep(&message),
                Some(Ok(LogOutput::StdOut { message } | LogOutput::Console { message })) => {
                    self.current = message;
                }
                Some(Ok(LogOutput::StdIn { .. })) => {}
            }
        }
        let length = self.current.len().min(buffer.remaining());
        buffer.put_slice(&self.current[..length]);
        self.current.advance(length);
        Poll::Ready(Ok(()))
    }
}
