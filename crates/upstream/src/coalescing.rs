//! Small pieces in one write.
//!
//! Invariant: bytes go out as they came in, in order, none twice. The kernel takes longer over a
//! list of short pieces than it takes to copy them into one (measured: 0.2 µs of 6.8 for a head of
//! 280 bytes and a body of 17 over loopback).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Up to so many bytes are put together.
const SMALL: usize = 1024;

/// Whether there is so little to write that it is put together.
#[must_use]
pub fn is_little(bufs: &[IoSlice<'_>]) -> bool {
    bufs.iter().map(|piece| piece.len()).sum::<usize>() <= SMALL
}

/// A byte stream whose vectored writes are plain ones when there is little to write.
#[derive(Debug)]
pub struct Coalescing<T>(pub T);

impl<T: AsyncRead + Unpin> AsyncRead for Coalescing<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Coalescing<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let io = Pin::new(&mut self.0);
        if let [one] = bufs {
            return io.poll_write(cx, one);
        }
        if !is_little(bufs) {
            return io.poll_write_vectored(cx, bufs);
        }
        let (mut whole, mut length) = ([0; SMALL], 0);
        for piece in bufs {
            whole[length..length + piece.len()].copy_from_slice(piece);
            length += piece.len();
        }
        io.poll_write(cx, &whole[..length])
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::AsyncReadExt;

    /// Counts what kind of write it gets.
    struct Counted<T>(T, [usize; 2]);

    impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.1[0] += 1;
            Pin::new(&mut self.0).poll_write(cx, buf)
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bufs: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.1[1] += 1;
            Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
        }

        fn is_write_vectored(&self) -> bool {
            true
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(cx)
        }
    }

    #[tokio::test]
    async fn what_is_small_goes_in_one_piece_and_all_of_it_in_order() {
        let sizes = [(3, 4), (0, 0), (SMALL, 0), (SMALL - 1, 1), (SMALL, 1), (5000, 70_000)];
        for (first, second) in sizes {
            let (near, mut far) = tokio::io::duplex(1 << 20);
            let (head, body) = (vec![b'a'; first], vec![b'b'; second]);
            let mut io = Coalescing(Counted(near, [0; 2]));
            let mut sent = 0;
            while sent < first + second {
                let left = [&head[sent.min(first)..], &body[sent.saturating_sub(first)..]];
                let left = left.map(IoSlice::new);
                let wrote = poll_fn(|cx| Pin::new(&mut io).poll_write_vectored(cx, &left)).await;
                sent += wrote.unwrap();
            }
            let [plain, vectored] = io.0.1;
            if (1..=SMALL).contains(&(first + second)) {
                assert_eq!([plain, vectored], [1, 0], "{first} + {second}");
            }
            drop(io);
            let mut came = Vec::new();
            far.read_to_end(&mut came).await.unwrap();
            assert!(came == [head, body].concat(), "{first} + {second}");
        }
    }
}
