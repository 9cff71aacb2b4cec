//! A client's connection that ends when nothing moves on it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A stream that fails with `TimedOut` once no byte has moved in either direction for `limit`.
///
/// It lies under everything that a client's connection does (waiting for an answer, a body, a tunnel), so one limit
/// covers it all.
pub(super) struct IdleLimited<S> {
    stream: S,
    limit: Duration,
    last: Instant,
    alarm: Pin<Box<Sleep>>,
}

impl<S> IdleLimited<S> {
    pub fn new(stream: S, limit: Duration) -> Self {
        let last = Instant::now();
        Self { stream, limit, last, alarm: Box::pin(sleep_until(last + limit)) }
    }

    /// Notes progress, or fails if there has been none for too long. The alarm is set again only when it rings.
    fn watch<T>(&mut self, polled: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.last = Instant::now();
            return polled;
        }
        loop {
            ready!(self.alarm.as_mut().poll(cx));
            let end = self.last + self.limit;
            if end <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.alarm.as_mut().reset(end);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for IdleLimited<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.watch(polled, cx)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for IdleLimited<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(polled, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watch(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_stream_ends_after_silence_and_not_while_bytes_move() {
        let limit = Duration::from_millis(200);
        let (near, mut far) = duplex(64);
        let mut near = IdleLimited::new(near, limit);
        let mut byte = [0];
        let started = Instant::now();
        for _ in 0..4 {
            tokio::time::sleep(limit / 2).await;
            far.write_all(b"x").await.unwrap();
            near.read_exact(&mut byte).await.unwrap();
        }
        assert!(started.elapsed() >= limit * 2, "it outlived the limit while bytes moved");
        let silent = Instant::now();
        let error = near.read(&mut byte).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(silent.elapsed() >= limit * 9 / 10 && silent.elapsed() < limit * 5, "{:?}", silent.elapsed());
    }
}
