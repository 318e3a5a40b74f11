//! From what was read to what is sent.
//!
//! Invariants:
//! - a command leaves the input exactly when what becomes of it is decided;
//! - neighbours for the same lane leave in one piece, as they came;
//! - a command for another lane, or for a connection of its own, waits for the replies of those
//!   before it: a client sees the effects of its commands in their order.

mod decide;

use super::client::{Client, Pending};
use super::fallback::{self, Why};
use super::finish::{Batch, Item};
use crate::commands::{self, Args, Row};
use crate::lane::Slot;
use bytes::{Buf, Bytes, BytesMut};
use hedgerow_policy::Moment;
use hedgerow_wire::resp::{Limits, Parsed, Parser, Protocol, reply};
use std::sync::atomic::Ordering::Relaxed;

/// A run this short is copied rather than cut out of the input, which is then used again.
const COPY: usize = 8 << 10;

/// Commands in the input that go to a lane together.
#[derive(Default)]
pub(super) struct Run {
    /// Bytes in front of them that are dealt with.
    done: usize,
    /// Bytes of them.
    length: usize,
    items: Vec<Item>,
    lane: Option<(u32, Protocol)>,
}

/// A command that is looked at.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    /// All that was read.
    pub(super) input: &'a [u8],
    pub(super) args: Args<'a>,
    pub(super) row: &'static Row,
    pub(super) now: Moment,
}

/// What becomes of it.
pub(super) enum Next {
    /// It stays in the input for now.
    Wait,
    /// It joins the run.
    Join(Item),
    /// It was dealt with.
    Done,
}

impl Client {
    /// Takes commands from the input as far as they can go on. True if something was done.
    pub(super) fn take_commands(&mut self) -> bool {
        let mut input = std::mem::take(&mut self.input);
        let mut parser = std::mem::take(&mut self.parser);
        let moved = self.take_from(&mut input, &mut parser);
        self.parser = parser;
        self.input = input;
        moved
    }

    fn take_from(&mut self, input: &mut BytesMut, parser: &mut Parser) -> bool {
        let (mut moved, now) = (false, self.shared.clock.now());
        while self.may_take(self.run.items.len()) {
            let limits = if self.known { Limits::STORE } else { Limits::STRANGER };
            let at = self.run.done + self.run.length;
            match parser.parse(&input[at..], limits) {
                Ok(Parsed::Partial) => {
                    self.fresh = false;
                    break;
                }
                Ok(Parsed::Nothing(length)) => {
                    self.send_run(input, now);
                    self.run.done += length;
                }
                Ok(Parsed::Command(length)) => {
                    let whole: &[u8] = input;
                    let args = Args::new(&whole[at..at + length], parser.args());
                    let row = commands::row_of(&args);
                    match self.decide(&Look { input: whole, args, row, now }) {
                        Next::Wait => break,
                        Next::Join(item) => {
                            self.run.items.push(item);
                            self.run.length += length;
                        }
                        Next::Done => self.run.done += length,
                    }
                    self.shared.counts.commands.fetch_add(1, Relaxed);
                }
                Ok(Parsed::Inline(length, array)) => {
                    // In its place, as an array: then it is a command like any other.
                    self.send_run(input, now);
                    input.advance(std::mem::take(&mut self.run.done));
                    let behind = input.split_off(length);
                    *input = array;
                    input.extend_from_slice(&behind);
                }
                Err(error) => {
                    self.send_run(input, now);
                    self.refuse(&error);
                }
            }
            moved = true;
            if self.closing {
                break;
            }
        }
        self.send_last_run(input, now);
        if self.closing {
            input.clear();
        }
        moved
    }

    /// Sends what is gathered while more of the input is being looked at.
    pub(super) fn send_run(&mut self, input: &[u8], now: Moment) {
        if self.run.items.is_empty() {
            return;
        }
        let bytes = &input[self.run.done..self.run.done + self.run.length];
        let bytes = Bytes::copy_from_slice(bytes);
        self.run.done += self.run.length;
        self.send_gathered(bytes, now);
    }

    /// Sends what is gathered, and lets go of what is dealt with.
    fn send_last_run(&mut self, input: &mut BytesMut, now: Moment) {
        input.advance(std::mem::take(&mut self.run.done).min(input.len()));
        if self.run.items.is_empty() {
            return;
        }
        let length = self.run.length;
        let bytes = if length <= COPY {
            let bytes = Bytes::copy_from_slice(&input[..length]);
            input.advance(length);
            bytes
        } else {
            input.split_to(length).freeze()
        };
        self.send_gathered(bytes, now);
    }

    fn send_gathered(&mut self, bytes: Bytes, now: Moment) {
        let items = std::mem::take(&mut self.run.items);
        let lane = self.run.lane.take().unwrap_or((self.database, Protocol::Resp2));
        self.run.length = 0;
        self.send(bytes, items, lane, now);
    }

    /// Hands commands to a lane.
    fn send(&mut self, bytes: Bytes, items: Vec<Item>, lane_of: (u32, Protocol), now: Moment) {
        let Some(remote) = self.shared.guarded.remote().cloned() else { return };
        let lane = remote.lanes.lane(lane_of.0, lane_of.1);
        let replies = items.iter().map(Item::replies).sum();
        let slot = Slot::of_client(self.spare_slot.take(), replies, &self.share);
        let submitted = lane.submit(bytes.clone(), replies, &slot);
        let batch = Batch {
            slot,
            lane,
            database: lane_of.0,
            bytes,
            items,
            deadline: now + remote.lanes.store.waits.call(),
            upgrade: self.protocol == Protocol::Resp3 && lane_of.1 == Protocol::Resp2,
        };
        self.in_flight += batch.items.len();
        self.held.in_batches += batch.bytes.len();
        self.last_lane = Some(lane_of);
        if let Err(fault) = submitted {
            batch.slot.fail(fault);
        }
        self.pending.push_back(Pending::Batch(batch));
    }

    /// Whether the replies of another lane have to come first.
    fn must_wait(&self, lane: (u32, Protocol)) -> bool {
        let other = |last: Option<(u32, Protocol)>| last.is_some_and(|last| last != lane);
        other(self.run.lane) && !self.run.items.is_empty()
            || other(self.last_lane) && self.in_flight > 0
    }

    /// The lane a command goes to.
    fn lane_of(&self, row: &Row) -> (u32, Protocol) {
        match (self.protocol, row.shape) {
            (Protocol::Resp3, None) => (self.database, Protocol::Resp3),
            _ => (self.database, Protocol::Resp2),
        }
    }

    /// Answers in turn, behind what is gathered.
    pub(super) fn answer_in_turn(
        &mut self,
        look: &Look<'_>,
        write: impl FnOnce(&mut BytesMut, Protocol),
    ) {
        self.send_run(look.input, look.now);
        self.answer(write);
    }

    fn answer_instead(&mut self, look: &Look<'_>, why: Why<'_>) {
        let (count, shed) = (fallback::count(look.row, look.args.len()), self.shared.settings.shed);
        let row = look.row;
        self.answer_in_turn(look, |out, protocol| {
            fallback::write(out, protocol, row, count, why, shed);
        });
    }
}

/// A command as an array of bulk strings.
pub(super) fn write_command(out: &mut BytesMut, args: &Args<'_>) {
    reply::array(out, args.len());
    args.from(0).for_each(|arg| reply::bulk(out, arg));
}
