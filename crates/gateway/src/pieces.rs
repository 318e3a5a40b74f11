//! A file on its way out, piece by piece.
//!
//! Invariant: the file is read where it cannot hold up anybody, at most [`PIECE`] bytes ahead of who
//! takes them, and not beyond the length that was announced.

use crate::sequence::Source;
use bytes::Bytes;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

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
}

impl Source for Pieces {
    type Error = io::Error;

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
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

    fn left(&self) -> Option<u64> {
        Some(self.left)
    }
}

/// Exactly that many bytes, a few, from there on.
pub(crate) fn read_at(file: &File, at: u64, length: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes.into())
}
