//! A worker's standard output and error, line by line.
//!
//! Invariant: what a worker prints is read as fast as it prints and is never held: a line is cut at
//! its bound, the rest of it is dropped, and a worker that prints without pause costs processor
//! time and nothing else.

use rustix::fd::OwnedFd;
use std::io;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

/// Reads lines from `pipe` and gives each, bounded to `limit` bytes, to `line`.
pub(crate) async fn read_lines(pipe: OwnedFd, limit: usize, mut line: impl FnMut(&str)) {
    let Ok(mut pipe) = Receiver::from_owned_fd(pipe) else { return };
    let mut lines = Lines { limit, held: Vec::new() };
    let mut piece = [0u8; 4096];
    loop {
        match pipe.read(&mut piece).await {
            Ok(0) => break,
            Ok(n) => lines.take(&piece[..n], &mut line),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    lines.end(&mut line);
}

struct Lines {
    limit: usize,
    held: Vec<u8>,
}

impl Lines {
    fn take(&mut self, piece: &[u8], line: &mut impl FnMut(&str)) {
        for part in piece.split_inclusive(|b| *b == b'\n') {
            let (text, ended) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            let room = self.limit.saturating_sub(self.held.len()).min(text.len());
            self.held.extend_from_slice(&text[..room]);
            if ended {
                self.end(line);
            }
        }
    }

    fn end(&mut self, line: &mut impl FnMut(&str)) {
        let text = String::from_utf8_lossy(&self.held);
        let text = text.trim_end_matches('\r');
        if !text.is_empty() {
            line(text);
        }
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_their_bound_and_pieces_joined() {
        let mut seen = Vec::new();
        let mut lines = Lines { limit: 5, held: Vec::new() };
        let mut note = |l: &str| seen.push(l.to_owned());
        lines.take(b"ab", &mut note);
        lines.take(b"c\r\n\nlong", &mut note);
        lines.take(b"er than five\n\xff\n", &mut note);
        lines.take(b"last", &mut note);
        lines.end(&mut note);
        assert_eq!(seen, ["abc", "longe", "\u{fffd}", "last"]);
    }
}
