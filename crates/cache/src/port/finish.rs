//! The end of commands that went to a lane: replies as they came, fallbacks for the rest.
//!
//! Invariant: every permit is settled here, once, with what came of its command; an invalidation
//! that is not known to be carried out is journalled here, before it is answered.

use super::client::{At, Client};
use super::fallback::{self, Why};
use crate::commands::{Args, Class, Row};
use crate::counts::ReadResult;
use crate::fault::Fault;
use crate::keeper::{Behind, OnDisk, carried_out, fault_outcome, outcome};
use crate::lane::{Lane, Slot};
use bytes::{Bytes, BytesMut};
use hedgerow_policy::Moment;
use hedgerow_policy::breaker::Outcome;
use hedgerow_policy::guard::Permit;
use hedgerow_policy::journal::{self, Item as Invalid, Mark};
use hedgerow_wire::resp::upgrade::upgrade;
use hedgerow_wire::resp::{Frame, Kind, Limits, Parser, Protocol};
use std::sync::Arc;

/// Commands of one client that were handed to a lane in one piece.
pub(super) struct Batch {
    pub(super) slot: Arc<Slot>,
    pub(super) lane: Lane,
    pub(super) database: u32,
    pub(super) bytes: Bytes,
    pub(super) items: Vec<Item>,
    pub(super) deadline: Moment,
    /// Replies come in version 2 and the client wants version 3.
    pub(super) upgrade: bool,
}

/// One of them.
pub(super) struct Item {
    pub(super) row: &'static Row,
    pub(super) permit: Option<Permit>,
    pub(super) behind: Behind,
    /// Keys or fields it asked for.
    pub(super) count: usize,
    /// Where it begins in the batch's bytes.
    pub(super) at: usize,
    /// Removals that went ahead of it, for the journal.
    pub(super) ahead: Option<Box<(journal::Batch, u32)>>,
    /// The journal's point when it was sent, where something was owed.
    pub(super) mark: Option<Mark>,
}

impl Item {
    /// Replies it is owed, with those of what went ahead of it.
    pub(super) fn replies(&self) -> u32 {
        1 + self.ahead.as_ref().map_or(0, |ahead| ahead.1)
    }
}

impl Client {
    /// Writes the replies of a batch whose time has come.
    pub(super) fn finish(&mut self, mut batch: Batch) {
        self.in_flight -= batch.items.len();
        self.held.in_batches = self.held.in_batches.saturating_sub(batch.bytes.len());
        let mut frames = std::mem::take(&mut self.frames);
        let fault = batch.slot.take(&mut frames);
        let mut items = std::mem::take(&mut batch.items);
        let expected: u32 = items.iter().map(Item::replies).sum();
        let whole = frames.len() == expected as usize;
        // The replies behind the first that has to wait for the disk wait too.
        let mut rest: Option<(Vec<OnDisk>, BytesMut)> = None;
        let mut direct = std::mem::take(&mut self.out);
        let mut largest = 0;
        {
            let mut come = frames.drain(..);
            let (shared, protocol) = (&self.shared, self.protocol);
            for item in items.drain(..) {
                let out = rest.as_mut().map_or(&mut direct, |(_, rest)| rest);
                let start = out.len();
                let wait =
                    finish_one(shared, protocol, &batch, item, &mut come, fault.as_ref(), out);
                largest = largest.max(out.len() - start);
                match (&mut rest, wait) {
                    (_, None) => {}
                    (Some((waits, _)), Some(wait)) => waits.push(wait),
                    (None, Some(wait)) => rest = Some((vec![wait], direct.split_off(start))),
                }
            }
        }
        self.out = direct;
        self.grew(largest);
        // The output has them now, and that is told before anything else is read.
        batch.slot.let_go();
        self.spare_items = items;
        self.frames = frames;
        // One that the lane still has is let go of: what comes late is then nobody's, and what was
        // not sent yet never will be.
        self.spare_slot = whole.then_some(batch.slot);
        if let Some((waits, bytes)) = rest {
            self.later(bytes.len(), At::Front, async move {
                for wait in waits {
                    wait.wait().await;
                }
                bytes.freeze()
            });
        }
    }

    /// The client has left: nobody is answered, but what was asked for still counts.
    pub(super) fn abandon(&mut self, mut batch: Batch) {
        let mut frames = Vec::new();
        batch.slot.take(&mut frames);
        let mut come = frames.drain(..);
        for item in std::mem::take(&mut batch.items) {
            if let Some(frame) = next_frame(&item, &mut come) {
                let mut nowhere = BytesMut::new();
                let _ = answered(&self.shared, self.protocol, &batch, item, frame, &mut nowhere);
                continue;
            }
            if let Some(permit) = item.permit {
                self.shared.guarded.keeper().settle(permit, Outcome::Cancelled);
            }
            if item.row.class == Class::Invalidation {
                let _ = undelivered(&self.shared, &batch, item.at);
            }
        }
    }
}

/// A reply, with those of what went ahead of it.
struct Come {
    ahead: Vec<Frame>,
    own: Frame,
}

fn next_frame(item: &Item, come: &mut impl Iterator<Item = Frame>) -> Option<Come> {
    let before = item.ahead.as_ref().map_or(0, |ahead| ahead.1 as usize);
    let ahead = if before == 0 { Vec::new() } else { come.take(before).collect() };
    come.next().map(|own| Come { ahead, own })
}

fn finish_one(
    shared: &super::Shared,
    protocol: Protocol,
    batch: &Batch,
    item: Item,
    come: &mut impl Iterator<Item = Frame>,
    fault: Option<&Fault>,
    out: &mut BytesMut,
) -> Option<OnDisk> {
    match next_frame(&item, come) {
        Some(frame) => answered(shared, protocol, batch, item, frame, out),
        None => unanswered(shared, protocol, batch, item, fault.unwrap_or(&Fault::Timeout), out),
    }
}

/// A reply has come.
fn answered(
    shared: &super::Shared,
    protocol: Protocol,
    batch: &Batch,
    mut item: Item,
    come: Come,
    out: &mut BytesMut,
) -> Option<OnDisk> {
    let keeper = shared.guarded.keeper();
    let frame = come.own;
    let write = matches!(item.row.class, Class::Repair | Class::Invalidation);
    let said = outcome(frame.kind, &frame.bytes, write);
    if let Some(permit) = item.permit.take() {
        keeper.settle(permit, said);
    }
    if let Some(ahead) = item.ahead.take() {
        keeper.settle_batch(ahead.0, carried_out(&come.ahead));
    }
    match item.row.class {
        Class::Read => {
            if !keeper.still_counts(&batch.lane, item.behind) {
                keeper.counts.read(ReadResult::Shed);
                let shed = shared.settings.shed;
                fallback::write(out, protocol, item.row, item.count, Why::Shed, shed);
                return None;
            }
            keeper.counts.read(match frame.kind {
                Kind::Null | Kind::Empty => ReadResult::Miss,
                Kind::Error => ReadResult::Error,
                _ => ReadResult::Hit,
            });
            keep_near(shared, batch, &item, &frame);
        }
        Class::Invalidation if frame.kind == Kind::Error && said != Outcome::Ok => {
            // LOADING, READONLY: the client sees the error, and the journal has the invalidation.
            let on_disk = undelivered(shared, batch, item.at);
            out.extend_from_slice(&frame.bytes);
            return on_disk;
        }
        // An error of another kind (NOPERM) removed nothing either: what was owed before is owed still.
        Class::Invalidation if item.mark.is_some() && carried_out(std::slice::from_ref(&frame)) => {
            delivered(shared, batch, item.at, item.mark);
        }
        _ => {}
    }
    match item.row.shape {
        Some(shape) if batch.upgrade => {
            out.extend_from_slice(&upgrade(frame.bytes, frame.kind, shape));
        }
        _ => out.extend_from_slice(&frame.bytes),
    }
    None
}

/// None has come, and none will.
fn unanswered(
    shared: &super::Shared,
    protocol: Protocol,
    batch: &Batch,
    item: Item,
    fault: &Fault,
    out: &mut BytesMut,
) -> Option<OnDisk> {
    let keeper = shared.guarded.keeper();
    if let Some(permit) = item.permit {
        keeper.settle(permit, fault_outcome(fault));
    }
    if let Some(ahead) = item.ahead {
        keeper.settle_batch(ahead.0, false);
    }
    if item.row.class == Class::Read {
        if let Some(copy) = stale(shared, batch, item.row, item.at) {
            keeper.counts.read(ReadResult::Stale);
            hedgerow_wire::resp::reply::bulk(out, &copy);
            return None;
        }
        keeper.counts.read(match fault {
            Fault::Timeout | Fault::Busy => ReadResult::Timeout,
            _ => ReadResult::Error,
        });
    }
    let shed = shared.settings.shed;
    fallback::write(out, protocol, item.row, item.count, Why::Fault(fault), shed);
    (item.row.class == Class::Invalidation).then(|| undelivered(shared, batch, item.at)).flatten()
}

/// The command at a place in the batch, read once more: only where something went wrong.
fn with_args<T>(batch: &Batch, at: usize, look: impl FnOnce(&Args<'_>) -> T) -> T {
    let rest = batch.bytes.get(at..).unwrap_or_default();
    let mut parser = Parser::new();
    let _ = parser.parse(rest, Limits::STORE);
    look(&Args::new(rest, parser.args()))
}

/// What an invalidation removes.
pub(super) fn invalid(args: &Args<'_>, row: &Row) -> Vec<Invalid> {
    match row.name {
        "HDEL" => args.from(2).map(|field| Invalid::field(args.get(1), field)).collect(),
        _ => row.keys_of(args).map(Invalid::key).collect(),
    }
}

/// Puts an invalidation into the journal.
fn undelivered(shared: &super::Shared, batch: &Batch, at: usize) -> Option<OnDisk> {
    with_args(batch, at, |args| journal_it(shared, batch.database, args))
}

/// The same, for one that was not even sent.
pub(super) fn journal_it(shared: &super::Shared, database: u32, args: &Args<'_>) -> Option<OnDisk> {
    let keeper = shared.guarded.keeper();
    let row = crate::commands::row_of(args);
    let on_disk = match row.name {
        "FLUSHALL" => keeper.undelivered_flush(None),
        "FLUSHDB" => keeper.undelivered_flush(Some(database)),
        _ => keeper.undelivered(database, &invalid(args, row)).1,
    };
    on_disk.pending().then_some(on_disk)
}

fn delivered(shared: &super::Shared, batch: &Batch, at: usize, mark: Option<Mark>) {
    let keeper = shared.guarded.keeper();
    with_args(batch, at, |args| {
        let row = crate::commands::row_of(args);
        match row.name {
            "FLUSHALL" => keeper.flushed(None, mark),
            "FLUSHDB" => keeper.flushed(Some(batch.database), mark),
            _ => keeper.invalidated(batch.database, &invalid(args, row), mark),
        }
    });
}

fn keep_near(shared: &super::Shared, batch: &Batch, item: &Item, frame: &Frame) {
    let Some(remote) = shared.guarded.remote() else { return };
    if !remote.near.on() || frame.kind != Kind::Bulk || item.row.name != "GET" {
        return;
    }
    let Ok(value) = hedgerow_wire::resp::Value::read(frame) else { return };
    let now = shared.clock.now();
    with_args(batch, item.at, |args| {
        if let Some(value) = value.bytes() {
            remote.near.keep(batch.database, args.get(1), value, now);
        }
    });
}

fn stale(shared: &super::Shared, batch: &Batch, row: &Row, at: usize) -> Option<Bytes> {
    let remote = shared.guarded.remote()?;
    if !remote.near.on() || row.name != "GET" {
        return None;
    }
    with_args(batch, at, |args| remote.near.load(batch.database, args.get(1), shared.clock.now()))
}
