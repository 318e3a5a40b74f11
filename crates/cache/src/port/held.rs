//! What a client makes the port hold, and what happens when that is too much.
//!
//! Invariant: whatever is held for a client is in one of the sums here, and its share knows it
//! before more is read from the client. Who is over a limit is told where that can be, and closed;
//! nobody else notices.

use super::client::Client;
use super::embedded::Transaction;
use crate::share::{OWN, SMALL_REPLY, Share};
use bytes::BytesMut;
use hedgerow_clock::Timer;
use hedgerow_policy::Moment;
use hedgerow_wire::resp::{Parser, Protocol, reply};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

/// Why the port closed a client that held too much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TooMuch {
    /// It sent more than one client may before it was taken.
    Input,
    /// It left more replies unread than one client may.
    Output,
    /// It asked for more when all clients together held what they may.
    Total,
    /// It held much and stood still while others were refused.
    Stalled,
}

impl TooMuch {
    /// All of them, in the order of their numbers.
    pub const ALL: [TooMuch; 4] =
        [TooMuch::Input, TooMuch::Output, TooMuch::Total, TooMuch::Stalled];

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TooMuch::Input => "input_limit",
            TooMuch::Output => "output_limit",
            TooMuch::Total => "total_limit",
            TooMuch::Stalled => "stalled",
        }
    }
}

/// Clients closed, by the reason.
#[derive(Debug, Default)]
pub(super) struct Closed([AtomicU64; 4]);

impl Closed {
    fn count(&self, why: TooMuch) {
        self.0[why as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn all(&self) -> [u64; 4] {
        self.0.each_ref().map(|count| count.load(Relaxed))
    }
}

/// What one client makes the port hold.
#[derive(Default)]
pub(super) struct Held {
    /// Bytes that the share knows of, beside replies that have come and were not looked at.
    told: usize,
    /// Bytes of unread replies that the port's counter knows of.
    told_out: usize,
    /// Bytes of commands that are pending.
    pub(super) in_batches: usize,
    /// Bytes of replies that are pending because of one that has not come.
    pub(super) back: usize,
    /// Bytes on the way between the client and a store connection of its own.
    pub(super) elsewhere: usize,
    /// Bytes of the output at most: the limit, and one reply that is larger.
    room_out: usize,
    /// The client has sent or taken something.
    pub(super) moved: bool,
    timer: Timer,
}

impl Client {
    fn held_now(&self) -> usize {
        let held = &self.held;
        let transaction = self.transaction.as_ref().map_or(0, Transaction::bytes);
        self.input.len()
            + self.parser.held()
            + held.in_batches
            + held.back
            + self.out.len()
            + held.elsewhere
            + transaction
    }

    /// Tells the share, and the counter of unread replies, how much is held now.
    pub(super) fn tell(&mut self) {
        let now = self.held_now();
        if now != self.held.told {
            self.share.became(self.held.told, now);
            self.held.told = now;
        }
        let (before, now) = (self.held.told_out, self.out.len());
        if now > before {
            self.shared.counts.output.fetch_add(now - before, Relaxed);
        } else if now < before {
            self.shared.counts.output.fetch_sub(before - now, Relaxed);
        }
        self.held.told_out = now;
    }

    /// Everything is let go of.
    pub(super) fn let_all_go(&mut self) {
        self.share.became(std::mem::take(&mut self.held.told), 0);
        self.shared.counts.output.fetch_sub(std::mem::take(&mut self.held.told_out), Relaxed);
    }

    /// Whether there is room for so many bytes that have just come; where there is none, the client
    /// is told and is to be closed.
    pub(super) fn has_room(&mut self, more: usize) -> bool {
        if more == 0 || self.share.ask(more) {
            self.held.told += more;
            return true;
        }
        self.turn_out(TooMuch::Total);
        false
    }

    /// Something was read from the client. One that has sent more than may be held is told, and
    /// closed.
    pub(super) fn took_in(&mut self) {
        self.held.moved = true;
        if self.input.len() > self.shared.settings.input_limit {
            return self.turn_out(TooMuch::Input);
        }
        let more = self.held_now().saturating_sub(self.held.told);
        self.has_room(more);
    }

    fn turn_out(&mut self, why: TooMuch) {
        self.shared.counts.closed.count(why);
        let text = match why {
            TooMuch::Total => "PORTFULL the port holds as much as it may for all clients",
            _ => "ERR Protocol error: too big request",
        };
        self.answer(|out, _| reply::error(out, text));
        self.input = BytesMut::new();
        self.parser = Parser::new();
        self.closing = true;
    }

    /// Adds a reply that was made here to those that wait, or an error where there is no room for
    /// it. `before`: where it begins.
    pub(super) fn made(&mut self, out: &mut BytesMut, before: usize) {
        let grown = out.len().saturating_sub(before);
        if grown <= SMALL_REPLY {
            return;
        }
        if self.share.ask_for_reply(grown) {
            self.held.told += grown;
        } else {
            out.truncate(before);
            out.extend_from_slice(Share::no_room());
        }
    }

    /// A reply of so many bytes was added to the output: one that is larger than the limit is let
    /// through, so that it can be had at all.
    pub(super) fn grew(&mut self, bytes: usize) {
        let limit = self.shared.settings.output_limit;
        if bytes > limit {
            self.held.room_out = limit.saturating_add(bytes);
        }
    }

    /// Whether more waits for the client than may; then that is counted.
    pub(super) fn has_overflowed(&mut self) -> bool {
        let limit = self.shared.settings.output_limit;
        if self.out.len() <= limit {
            self.held.room_out = limit;
        }
        let over = self.out.len() > self.held.room_out;
        if over {
            self.shared.counts.closed.count(TooMuch::Output);
        }
        over
    }

    /// When to ask whether it overstays.
    pub(super) fn stays_until(&mut self) -> Moment {
        if self.held.told <= OWN {
            return Moment::NEVER;
        }
        self.share.next_wake(self.shared.clock.now()).unwrap_or(Moment::NEVER)
    }

    /// Whether the client holds much, stands still, and others are refused.
    pub(super) fn overstays(&mut self) -> bool {
        let moved = std::mem::take(&mut self.held.moved);
        let over = self.share.overstays(self.shared.clock.now(), moved);
        if over {
            self.shared.counts.closed.count(TooMuch::Stalled);
        }
        over
    }

    /// Ready when the client has to go, because it holds much, stands still, and others are refused.
    pub(super) fn poll_overstay(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let clock = self.shared.clock;
        loop {
            // Replies that were not looked at yet are the store's business, not the client's.
            let at = self.stays_until();
            ready!(self.held.timer.poll(clock, Some(at), context));
            if self.overstays() {
                return Poll::Ready(());
            }
        }
    }

    /// The protocol and the output, for a reply whose turn it is.
    pub(super) fn answer(&mut self, write: impl FnOnce(&mut BytesMut, Protocol)) {
        let protocol = self.protocol;
        if self.pending.is_empty() {
            let mut out = std::mem::take(&mut self.out);
            let before = out.len();
            write(&mut out, protocol);
            self.made(&mut out, before);
            self.out = out;
            return;
        }
        let mut bytes = BytesMut::new();
        write(&mut bytes, protocol);
        self.made(&mut bytes, 0);
        self.hold_back(bytes);
    }
}
