//! Byte streams with an idle timeout, or with a prefix that was already read.

use std::{
    io,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use crate::ledger::ByteCounts;

/// A stream that fails if no data is transferred for `timeout`. It can also count bytes.
pub(crate) struct IdleTimeoutStream<S> {
    inner: S,
    timer: Pin<Box<Sleep>>,
    timeout: Duration,
    byte_counts: Option<Arc<ByteCounts>>,
}

impl<S> IdleTimeoutStream<S> {
    pub(crate) fn new(inner: S, timeout: Duration) -> Self {
        Self { inner, timer: Box::pin(sleep(timeout)), timeout, byte_counts: None }
    }

    /// Like [`Self::new`], but also counts bytes. Bytes that are read count as `upload`, and bytes
    /// that are written count as `download`.
    pub(crate) fn with_byte_counts(
        inner: S,
        timeout: Duration,
        byte_counts: Arc<ByteCounts>,
    ) -> Self {
        Self { byte_counts: Some(byte_counts), ..Self::new(inner, timeout) }
    }

    fn record_bytes(&mut self, upload: usize, download: usize) {
        self.timer.as_mut().reset(Instant::now() + self.timeout);
        if let Some(counted) = &self.byte_counts {
            counted.uploaded_bytes.fetch_add(upload as u64, Ordering::Relaxed);
            counted.downloaded_bytes.fetch_add(download as u64, Ordering::Relaxed);
        }
    }

    fn poll_timeout<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        ready!(self.timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for IdleTimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.inner).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => {
                self.record_bytes(buffer.filled().len() - before, 0);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(error) => Poll::Ready(error),
            Poll::Pending => self.poll_timeout(cx),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for IdleTimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.inner).poll_write(cx, bytes) {
            Poll::Ready(Ok(written)) => {
                self.record_bytes(0, written);
                Poll::Ready(Ok(written))
            }
            Poll::Ready(error) => Poll::Ready(error),
            Poll::Pending => self.poll_timeout(cx),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// A stream whose first bytes were already read to identify its protocol.
pub(crate) struct PrefixedStream<S> {
    prefix: Vec<u8>,
    prefix_position: usize,
    inner: S,
}

impl<S> PrefixedStream<S> {
    pub(crate) fn new(prefix: Vec<u8>, inner: S) -> Self {
        Self { prefix, prefix_position: 0, inner }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PrefixedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.prefix_position < self.prefix.len() {
            let length = buffer.remaining().min(self.prefix.len() - self.prefix_position);
            buffer.put_slice(&self.prefix[self.prefix_position..self.prefix_position + length]);
            self.prefix_position += length;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PrefixedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
