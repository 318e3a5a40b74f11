//! A worker's standard output and error, line by line.
//!
//! Invariant: what a worker prints is read as fast as it prints and is never held: a line is cut at
//! its bound, lines past the budget of their time are dropped and counted, and a worker that prints
//! without pause costs processor time and nothing else. A pipe that is read slowly would slow the
//! request that prints.

use bytes::BytesMut;
use hedgerow_clock::Clock;
use hedgerow_policy::Moment;
use rustix::fd::OwnedFd;
use std::io;
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;

/// What is read at once: all that a pipe holds.
const PIECE: usize = 64 << 10;
/// Lines given on in each stretch of time; each costs an event, which costs far more than its bytes.
const LINES: usize = 1_000;
const STRETCH: Duration = Duration::from_millis(100);

/// What came out of a pipe.
pub(crate) enum Said<'l> {
    Line(&'l str),
    /// So many lines are missing at this place.
    Dropped(u64),
}

/// Reads lines from `pipe` and gives each, bounded to `limit` bytes, to `told`.
pub(crate) async fn read_lines(
    pipe: OwnedFd,
    limit: usize,
    clock: Clock,
    mut told: impl FnMut(Said<'_>),
) {
    let Ok(pipe) = Receiver::from_owned_fd(pipe) else { return };
    let mut lines = Lines::new(limit);
    // Only while there is something to read: most workers are silent for most of their lives.
    let mut piece = BytesMut::new();
    loop {
        let readable = async {
            // One that is always readable must give way all the same.
            tokio::task::consume_budget().await;
            pipe.readable().await
        };
        match clock.until(lines.report_at(), readable).await {
            Some(Ok(())) => {}
            Some(Err(_)) => break,
            None => {
                lines.report(&mut told);
                continue;
            }
        }
        piece.reserve(PIECE);
        match pipe.try_read_buf(&mut piece) {
            Ok(0) => break,
            Ok(_) => {
                if lines.take(&piece, clock.now(), &mut told) {
                    // From now, not from when it began: where a line costs much the stretch is over
                    // already, and the pipe would be read at the pace of the lines after all.
                    lines.until = clock.now() + STRETCH;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => piece = BytesMut::new(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
        piece.clear();
    }
    lines.end_line(&mut told);
    lines.report(&mut told);
}

struct Lines {
    limit: usize,
    held: Vec<u8>,
    /// When the stretch of time ends, and how many lines it may still give on.
    until: Moment,
    left: usize,
    dropped: u64,
}

impl Lines {
    fn new(limit: usize) -> Lines {
        Lines { limit, held: Vec::new(), until: Moment::START, left: LINES, dropped: 0 }
    }

    /// True where the budget ran out within this piece.
    fn take(&mut self, piece: &[u8], now: Moment, told: &mut impl FnMut(Said<'_>)) -> bool {
        if now >= self.until {
            self.report(told);
            (self.until, self.left) = (now + STRETCH, LINES);
        }
        let before = self.left;
        for part in piece.split_inclusive(|b| *b == b'\n') {
            let (text, ended) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            let room = self.limit.saturating_sub(self.held.len()).min(text.len());
            self.held.extend_from_slice(&text[..room]);
            if ended {
                self.end_line(told);
            }
        }
        before > 0 && self.left == 0
    }

    fn end_line(&mut self, told: &mut impl FnMut(Said<'_>)) {
        let text = self.held.strip_suffix(b"\r").unwrap_or(&self.held);
        match self.left.checked_sub(1) {
            _ if text.is_empty() => {}
            Some(left) => {
                self.left = left;
                told(Said::Line(String::from_utf8_lossy(text).as_ref()));
            }
            None => self.dropped += 1,
        }
        self.held.clear();
    }

    /// When dropped lines are to be reported, if no further piece comes before.
    fn report_at(&self) -> Moment {
        if self.dropped > 0 { self.until } else { Moment::NEVER }
    }

    /// Says how many lines are missing at this place.
    fn report(&mut self, told: &mut impl FnMut(Said<'_>)) {
        match std::mem::take(&mut self.dropped) {
            0 => {}
            dropped => told(Said::Dropped(dropped)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_their_bound_and_pieces_joined() {
        let mut seen = Vec::new();
        let mut lines = Lines::new(5);
        let mut note = |said: Said<'_>| {
            seen.push(match said {
                Said::Line(line) => line.to_owned(),
                Said::Dropped(lines) => format!("{lines} dropped"),
            });
        };
        lines.take(b"ab", Moment::START, &mut note);
        lines.take(b"c\r\n\nlong", Moment::START, &mut note);
        lines.take(b"er than five\n\xff\n", Moment::START, &mut note);
        lines.take(b"last", Moment::START, &mut note);
        lines.end_line(&mut note);
        assert_eq!(seen, ["abc", "longe", "\u{fffd}", "last"]);
    }

    #[test]
    fn lines_past_the_budget_of_their_time_are_dropped_and_reported_once() {
        let mut seen = Vec::new();
        let mut lines = Lines::new(100);
        let mut note = |said: Said<'_>| {
            seen.push(match said {
                Said::Line(line) => line.to_owned(),
                Said::Dropped(lines) => format!("{lines} dropped"),
            });
        };
        let flood = "a\n".repeat(LINES + 7);
        lines.take(flood.as_bytes(), Moment::START, &mut note);
        let later = Moment::START + STRETCH;
        assert_eq!(lines.report_at(), later);
        lines.take(b"b\n", later, &mut note);
        assert_eq!(lines.report_at(), Moment::NEVER);
        assert_eq!(seen.len(), LINES + 2);
        assert_eq!(seen[LINES..], ["7 dropped", "b"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_flood_is_taken_as_fast_as_it_comes_though_each_line_is_dear() {
        let (pipe, mut end) = std::io::pipe().unwrap();
        let printing = std::thread::spawn(move || {
            let piece = "0123456789\n".repeat(5_000);
            for _ in 0..100 {
                io::Write::write_all(&mut end, piece.as_bytes()).unwrap();
            }
        });
        let clock = Clock::start();
        let (mut given, mut dropped) = (0, 0);
        read_lines(pipe.into(), 4096, clock, |said| match said {
            Said::Dropped(lines) => dropped += lines,
            Said::Line(_) => {
                given += 1;
                // An event that is written down: half a million of them would take a minute.
                let until = clock.now() + Duration::from_micros(100);
                while clock.now() < until {
                    std::hint::spin_loop();
                }
            }
        })
        .await;
        printing.join().unwrap();
        assert_eq!(given + dropped, 500_000);
        assert!(clock.now() < Moment::START + Duration::from_secs(10), "{:?}", clock.now());
    }
}
