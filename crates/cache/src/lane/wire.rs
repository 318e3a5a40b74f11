//! The bytes of one connection: calls go out, replies come in and find their callers.
//!
//! Invariant: `owed` holds exactly the calls whose bytes were handed to the connection and whose
//! replies have not all come, oldest first. Every step takes what it can get and never waits.

use super::doubt::Doubts;
use super::stream::Stream;
use super::{Shared, Slot};
use bytes::{Buf, Bytes, BytesMut};
use hedgerow_policy::Moment;
use hedgerow_wire::resp::{Frame, Kind, Limits, Parsed, Parser, Scanner};
use std::collections::VecDeque;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncWrite};

/// Bytes gathered into one write; more wait in the queue, where a caller that leaves takes its call
/// with it.
const GATHER: usize = 64 << 10;
/// Bytes read at once.
const READ: usize = 64 << 10;

/// A call whose replies are awaited.
struct Owed {
    bytes: Bytes,
    replies: u32,
    come: u32,
    slot: Arc<Slot>,
    sent: Moment,
    /// Where its bytes end in all that was handed to this connection.
    end: u64,
}

pub(super) struct Wire {
    pub(super) stream: Stream,
    pub(super) held: BytesMut,
    pub(super) scanner: Scanner,
    out: BytesMut,
    owed: VecDeque<Owed>,
    /// Replies that are awaited.
    missing: usize,
    /// Bytes handed over, and bytes the kernel has taken.
    gathered: u64,
    written: u64,
    heard: Moment,
}

/// What is left of a connection that was lost.
pub(super) struct Remains {
    pub(super) doubts: Doubts,
    /// Commands that reached the kernel whole and were not answered.
    pub(super) unanswered: u64,
    pub(super) missing: usize,
}

impl Wire {
    pub(super) fn new(stream: Stream, now: Moment) -> Wire {
        Wire {
            stream,
            held: BytesMut::with_capacity(READ),
            scanner: Scanner::new(Limits::STORE),
            out: BytesMut::with_capacity(GATHER),
            owed: VecDeque::new(),
            missing: 0,
            gathered: 0,
            written: 0,
            heard: now,
        }
    }

    /// Since when nothing was heard that is owed; `None` while nothing is.
    pub(super) fn silent_since(&self) -> Option<Moment> {
        self.owed.front().map(|oldest| self.heard.max(oldest.sent))
    }

    /// Takes the calls from the queue whose callers still wait.
    pub(super) fn gather(&mut self, shared: &Shared) {
        let mut commands = 0u64;
        {
            let mut queue = shared.queue();
            let now = shared.now();
            while self.out.len() < GATHER
                && let Some(call) = queue.next()
            {
                commands += u64::from(call.replies);
                self.hand_over(call.bytes, call.replies, call.slot, now);
            }
        }
        if commands > 0 {
            self.missing += commands as usize;
            shared.pending.store(self.missing, Ordering::Relaxed);
            shared.store.guard.on_sent(shared.now(), commands);
            shared.store.stirred();
        }
    }

    /// Sends something of our own, ahead of the queue.
    pub(super) fn send(&mut self, shared: &Shared, bytes: Bytes, replies: u32, slot: Arc<Slot>) {
        let now = shared.now();
        self.hand_over(bytes, replies, slot, now);
        self.missing += replies as usize;
        shared.pending.store(self.missing, Ordering::Relaxed);
        shared.store.guard.on_sent(now, u64::from(replies));
    }

    fn hand_over(&mut self, bytes: Bytes, replies: u32, slot: Arc<Slot>, now: Moment) {
        self.out.extend_from_slice(&bytes);
        self.gathered += bytes.len() as u64;
        let end = self.gathered;
        self.owed.push_back(Owed { bytes, replies, come: 0, slot, sent: now, end });
    }

    /// Whether more calls may be taken now.
    pub(super) fn has_room(&self) -> bool {
        self.out.len() < GATHER
    }

    /// Writes what was gathered, as far as the kernel takes it.
    pub(super) fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            match Pin::new(&mut self.stream).poll_write(context, &self.out) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    self.out.advance(count);
                    self.written += count as u64;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        // One huge value must not be paid for ever after.
        if self.out.capacity() > 4 * GATHER {
            self.out = BytesMut::with_capacity(GATHER);
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Reads what there is and gives it to its callers. Ready with an error at the end.
    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        shared: &Shared,
    ) -> Poll<io::Result<()>> {
        if self.held.capacity() - self.held.len() < READ / 4 {
            self.held.reserve(READ);
        }
        let read = pin!(self.stream.read_buf(&mut self.held)).poll(context);
        match read {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Ready(Ok(0)) => {
                let text = "it closed the connection";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
            }
            Poll::Ready(Ok(_)) => {}
        }
        self.heard = shared.now();
        let replies = self.deliver(shared)?;
        self.missing = self.missing.saturating_sub(replies as usize);
        shared.pending.store(self.missing, Ordering::Relaxed);
        shared.store.guard.on_heard(self.heard, replies);
        Poll::Ready(Ok(()))
    }

    fn deliver(&mut self, shared: &Shared) -> io::Result<u64> {
        let (mut replies, mut late) = (0, 0);
        let broken = |e| io::Error::new(io::ErrorKind::InvalidData, e);
        while let Some(whole) = self.scanner.scan(&self.held).map_err(broken)? {
            if whole.kind == Kind::Push {
                self.held.advance(whole.length);
                continue;
            }
            let Some(oldest) = self.owed.front_mut() else {
                // The server says why before it closes (`-ERR max number of clients reached`).
                let text = String::from_utf8_lossy(&self.held[..whole.length]).into_owned();
                return Err(io::Error::other(format!("it said unasked: {}", text.trim_end())));
            };
            if Slot::abandoned(&oldest.slot) {
                self.held.advance(whole.length);
                late += 1;
            } else {
                let bytes = self.held.split_to(whole.length).freeze();
                oldest.slot.deliver(Frame { bytes, kind: whole.kind });
            }
            oldest.come += 1;
            replies += 1;
            if oldest.come == oldest.replies {
                self.owed.pop_front();
            }
        }
        if let Some(oldest) = self.owed.front()
            && Slot::abandoned(&oldest.slot)
        {
            // Nobody waits for what trickles in: it need not be kept.
            self.scanner.discard(&mut self.held);
        }
        if late > 0 {
            shared.store.told.late.fetch_add(late, Ordering::Relaxed);
            shared.store.sign_of_life(self.heard);
        }
        Ok(replies)
    }

    /// The connection is at its end: its callers are told, and what it may still do is noted.
    pub(super) fn bury(&mut self, fault: &crate::fault::Fault) -> Remains {
        let mut remains =
            Remains { doubts: Doubts::default(), unanswered: 0, missing: self.missing };
        for owed in self.owed.drain(..) {
            let start = owed.end - owed.bytes.len() as u64;
            // What the kernel has not taken whole cannot be carried out.
            let length = self.written.saturating_sub(start).min(owed.bytes.len() as u64);
            let reached = owed.bytes.slice(..length as usize);
            remains.unanswered += commands_in(&reached).saturating_sub(u64::from(owed.come));
            remains.doubts.note(&reached, owed.come);
            owed.slot.fail(fault.clone());
        }
        self.missing = 0;
        remains
    }
}

fn commands_in(bytes: &Bytes) -> u64 {
    let (mut parser, mut rest, mut count) = (Parser::new(), bytes.clone(), 0);
    while let Ok(Parsed::Command(length)) = parser.parse(&rest, Limits::STORE) {
        rest.advance(length);
        count += 1;
    }
    count
}
