//! A file on its way out, piece by piece.
//!
//! Invariant: the file is read where it cannot hold up anybody, at most [`PIECE`] bytes ahead of who
//! takes them, and not beyond the length that was announced.

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// What is read at once.
pub(crate) const PIECE: u64 = 64 << 10;

/// Some bytes of a file.
pub(crate) struct Pieces {
    file: Arc<File>,
    at: u64,
    left: u64,
    /// What was read before it was known that there is more.
    first: Option<Bytes>,
}

impl Pieces {
    /// `length` bytes from `at` on.
    pub(crate) fn new(file: File, at: u64, length: u64) -> Pieces {
        Pieces { file: Arc::new(file), at, left: length, first: None }
    }

    /// The same, where the first of them have been read.
    pub(crate) fn with_first(mut self, first: Bytes) -> Pieces {
        self.first = Some(first);
        self
    }

    /// How many bytes are still to come.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let read = match self.first.take() {
            Some(first) => Ok(first),
            None if self.left == 0 => return None,
            None => {
                let (file, at) = (Arc::clone(&self.file), self.at);
                let length = self.left.min(PIECE);
                let read = tokio::task::spawn_blocking(move || read_at(&file, at, length)).await;
                read.unwrap_or_else(|error| Err(io::Error::other(error)))
            }
        };
        if let Ok(bytes) = &read {
            self.at += bytes.len() as u64;
            self.left = self.left.saturating_sub(bytes.len() as u64);
        }
        Some(read)
    }
}

/// Exactly that many bytes, a few, from there on.
pub(crate) fn read_at(file: &File, at: u64, length: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes.into())
}

type Next = Pin<Box<dyn Future<Output = (Pieces, Option<io::Result<Bytes>>)> + Send>>;

/// The pieces as the body of a request.
pub(crate) struct FileBody {
    next: Option<Next>,
    left: u64,
}

impl FileBody {
    pub(crate) fn new(pieces: Pieces) -> FileBody {
        FileBody { left: pieces.left(), next: Some(Box::pin(next(pieces))) }
    }
}

async fn next(mut pieces: Pieces) -> (Pieces, Option<io::Result<Bytes>>) {
    let piece = pieces.next().await;
    (pieces, piece)
}

impl http_body::Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(pending) = &mut self.next else { return Poll::Ready(None) };
        let (pieces, piece) = ready!(pending.as_mut().poll(cx));
        self.left = pieces.left();
        self.next = matches!(piece, Some(Ok(_))).then(|| Box::pin(next(pieces)) as Next);
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
