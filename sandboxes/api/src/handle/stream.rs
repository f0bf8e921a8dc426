//! A forwarded connection as a byte stream.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    runtime::Handle,
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{
    SandboxError,
    call::{CHUNK_BYTES, Call, Input},
    inbox::Event,
};
/// How long a connection stays open after shutdown, so that the other side can read what was sent.
const LINGER_DURATION: Duration = Duration::from_secs(30);

type AcquireFuture = dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send;

/// Reads and writes concurrently, like a socket. If the stream is shut down and then dropped, the
/// connection stays open until the other side has read everything. Otherwise, dropping the stream
/// closes the connection immediately.
pub struct SandboxStream {
    call: Option<Call>,
    buffer: Vec<u8>,
    read_position: usize,
    has_read_ended: bool,
    is_shut_down: bool,
    pending_acquire: Option<Pin<Box<AcquireFuture>>>,
}

impl SandboxStream {
    pub(super) fn new(call: Call, has_read_ended: bool) -> Self {
        Self {
            call: Some(call),
            buffer: Vec::new(),
            read_position: 0,
            has_read_ended,
            is_shut_down: false,
            pending_acquire: None,
        }
    }

    /// Waits until at least one byte may be sent, then acquires credit for up to `max_bytes` bytes.
    fn poll_credit(&mut self, cx: &mut Context<'_>, max_bytes: usize) -> Poll<io::Result<usize>> {
        let Some(call) = &self.call else { return Poll::Ready(Err(closed_error())) };
        let credit = Arc::clone(call.credit());
        let mut got = take_available(&credit, max_bytes);
        if got == 0 {
            let acquiring = self
                .pending_acquire
                .get_or_insert_with(|| Box::pin(Arc::clone(&credit).acquire_owned()));
            let permit = ready!(acquiring.as_mut().poll(cx));
            self.pending_acquire = None;
            permit.map_err(|_| closed_error())?.forget();
            got = 1 + take_available(&credit, max_bytes - 1);
        }
        Poll::Ready(Ok(got))
    }
}

/// Acquires the available credit, for up to `max_bytes` bytes.
fn take_available(credit: &Semaphore, max_bytes: usize) -> usize {
    let now = credit.available_permits().min(max_bytes);
    match credit.try_acquire_many(now as u32) {
        Ok(permits) if now > 0 => {
            permits.forget();
            now
        }
        _ => 0,
    }
}

impl AsyncRead for SandboxStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.read_position < self.buffer.len() {
                let length = buffer.remaining().min(self.buffer.len() - self.read_position);
                buffer.put_slice(&self.buffer[self.read_position..self.read_position + length]);
                self.read_position += length;
                return Poll::Ready(Ok(()));
            }
            if self.has_read_ended {
                return Poll::Ready(Ok(()));
            }
            let Some(call) = &mut self.call else { return Poll::Ready(Err(closed_error())) };
            match ready!(call.poll_event(cx)).map_err(to_io_error)? {
                Event::Data(_, bytes) => (self.buffer, self.read_position) = (bytes, 0),
                Event::End | Event::Reply(Ok(_)) => self.has_read_ended = true,
                Event::Reply(Err(refusal)) => {
                    return Poll::Ready(Err(to_io_error(SandboxError::Refused(refusal))));
                }
            }
        }
    }
}

impl AsyncWrite for SandboxStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if self.is_shut_down {
            return Poll::Ready(Err(closed_error()));
        }
        let length = ready!(self.poll_credit(cx, bytes.len().min(CHUNK_BYTES)))?;
        if let Some(call) = &self.call {
            call.send_chunk(&bytes[..length]);
        }
        Poll::Ready(Ok(length))
    }

    /// Does nothing: written data goes directly to the channel's queue.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.is_shut_down, true)
            && let Some(call) = &self.call
        {
            call.end_input();
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for SandboxStream {
    fn drop(&mut self) {
        let Some(mut call) = self.call.take().filter(|_| self.is_shut_down) else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        // If the request were cancelled now, the agent would close the connection before it has
        // forwarded everything.
        runtime.spawn(timeout(LINGER_DURATION, async move {
            while !matches!(
                call.next_event(&mut Input::empty()).await,
                Ok(Event::Reply(_)) | Err(_)
            ) {}
        }));
    }
}

fn closed_error() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

fn to_io_error(error: SandboxError) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, error.to_string())
}
