//! One call to the store: sent, waited for, and reported.
//!
//! Invariant: a permit is settled with what came of the call; where the caller leaves first, as
//! cancelled.

use super::remote::Remote;
use crate::fault::Fault;
use crate::keeper::{carried_out, fault_outcome, outcome, write_batch};
use crate::lane::{Lane, Slot};
use bytes::{Bytes, BytesMut};
use hedgerow_policy::breaker::Outcome;
use hedgerow_policy::guard::Permit;
use hedgerow_policy::journal::{Batch, Item};
use hedgerow_wire::resp::{Frame, Protocol, Value, reply};

/// A permit whose holder may leave.
struct Held<'a> {
    remote: &'a Remote,
    permit: Option<Permit>,
}

impl Held<'_> {
    fn settle(mut self, outcome: Outcome) {
        if let Some(permit) = self.permit.take() {
            self.remote.keeper.settle(permit, outcome);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.remote.keeper.settle(permit, Outcome::Cancelled);
        }
    }
}

/// A command as bytes.
pub(super) fn command(args: &[&[u8]]) -> Bytes {
    let mut out = BytesMut::with_capacity(args.iter().map(|a| a.len() + 16).sum());
    reply::command(&mut out, args);
    out.freeze()
}

impl Remote {
    /// The lane of the Rust interface.
    pub(super) fn own_lane(&self) -> Lane {
        self.lanes.lane(self.database(), Protocol::Resp2)
    }

    pub(super) fn database(&self) -> u32 {
        self.lanes.store.settings.database
    }

    /// Sends commands in one piece and waits for all replies, up to a call's deadline.
    pub(super) async fn exchange(
        &self,
        lane: &Lane,
        bytes: Bytes,
        replies: u32,
    ) -> Result<Vec<Frame>, Fault> {
        let clock = self.keeper.clock;
        let slot = Slot::next(None, replies);
        lane.submit(bytes, replies, &slot)?;
        let limit = clock.now() + self.lanes.store.waits.call();
        let in_time = clock.until(limit, slot.settled()).await.is_some();
        let mut frames = Vec::new();
        match slot.take(&mut frames) {
            Some(fault) => Err(fault),
            None if !in_time && frames.len() < replies as usize => Err(Fault::Timeout),
            None => Ok(frames),
        }
    }

    /// A read: `Ok(None)` when it was shed.
    pub(super) async fn ask(&self, args: &[&[u8]]) -> Result<Option<Value>, Fault> {
        let lane = self.own_lane();
        let Some(ticket) = self.keeper.read(self.keeper.clock.now(), &lane, self.database()) else {
            return Ok(None);
        };
        let mut held = Held { remote: self, permit: None };
        let behind = ticket.behind();
        held.permit = Some(ticket.permit);
        let frames = match self.exchange(&lane, command(args), 1).await {
            Ok(frames) => frames,
            Err(fault) => {
                held.settle(fault_outcome(&fault));
                return Err(fault);
            }
        };
        let Some(frame) = frames.first() else { return Err(Fault::Timeout) };
        let said = outcome(frame.kind, &frame.bytes, false);
        held.settle(said);
        if !self.keeper.still_counts(&lane, behind) {
            return Ok(None);
        }
        let value = Value::read(frame).map_err(|e| Fault::Protocol(e.to_string()))?;
        match value {
            Value::Error(text) if said.is_failure() => Err(Fault::Answered(text)),
            value => Ok(Some(value)),
        }
    }

    /// A write, with what has to go ahead of it. `Ok(None)` when it was not sent.
    pub(super) async fn write(
        &self,
        args: &[&[u8]],
        overwrites: &[Item],
    ) -> Result<Option<Value>, Fault> {
        let Some(permit) = self.keeper.write(self.keeper.clock.now()) else {
            self.keeper.counts.skipped();
            return Ok(None);
        };
        let held = Held { remote: self, permit: Some(permit) };
        let lane = self.own_lane();
        let ahead = self.keeper.ahead_of_save(self.database(), overwrites);
        let mut out = BytesMut::new();
        let before = ahead.as_ref().map_or(0, |batch| write_batch(batch, &mut out));
        reply::command(&mut out, args);
        let result = self.exchange(&lane, out.freeze(), before + 1).await;
        let delivered = match &result {
            Ok(frames) => carried_out(&frames[..frames.len().min(before as usize)]),
            Err(_) => false,
        };
        self.settle_ahead(ahead, delivered);
        let frames = match result {
            Ok(frames) => frames,
            Err(fault) => {
                held.settle(fault_outcome(&fault));
                return Err(fault);
            }
        };
        let Some(frame) = frames.last() else { return Err(Fault::Timeout) };
        held.settle(outcome(frame.kind, &frame.bytes, true));
        Value::read(frame).map(Some).map_err(|e| Fault::Protocol(e.to_string()))
    }

    fn settle_ahead(&self, ahead: Option<Batch>, delivered: bool) {
        if let Some(batch) = ahead {
            self.keeper.settle_batch(batch, delivered);
        }
    }
}
