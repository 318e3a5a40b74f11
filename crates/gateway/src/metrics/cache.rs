//! The guarded cache's part of the page.

use super::catalogue::below as names;
use super::writer::Writer;
use hedgerow_cache::guarded::CacheShown;
use hedgerow_cache::{PortShown, TooMuch};
use hedgerow_policy::repair::GateState;
use std::fmt::Error;

/// Writes it, or nothing where there is no cache.
pub(super) fn write(
    to: &mut Writer<'_>,
    shown: Option<&CacheShown>,
    port: Option<PortShown>,
) -> Result<(), Error> {
    if let Some(shown) = shown {
        guard(to, shown)?;
        store(to, shown)?;
    }
    port.map_or(Ok(()), |port| clients(to, port))
}

fn guard(to: &mut Writer<'_>, shown: &CacheShown) -> Result<(), Error> {
    let counts = shown.counts;
    to.by(&names::READS, counts.reads())?;
    to.by(&names::REPAIRS, counts.repairs())?;
    to.one(&names::WRITES_SKIPPED, counts.writes_skipped)?;
    to.by(&names::CANARIES, counts.canaries())?;
    let gate = match shown.repair_gate {
        GateState::Open => 0_u64,
        GateState::Trial => 1,
        GateState::Closed => 2,
    };
    to.one(&names::GATE, gate)?;
    to.size(&names::JOURNAL_DEPTH, shown.journal.depth)?;
    to.size(&names::JOURNAL_CAPACITY, shown.journal.capacity)?;
    to.size(&names::JOURNAL_BYTES, shown.journal.bytes)?;
    to.size(&names::JOURNAL_BYTES_LIMIT, shown.journal.max_bytes)?;
    to.size(&names::OVERFLOWED, shown.journal.overflowed.len())
}

fn store(to: &mut Writer<'_>, shown: &CacheShown) -> Result<(), Error> {
    if let Some((held, most)) = shown.memory {
        to.one(&names::MEMORY, held)?;
        to.one(&names::MEMORY_LIMIT, most)?;
        return Ok(());
    }
    let lanes = &shown.lanes;
    to.one(&names::RECONNECTS, shown.reconnects)?;
    to.one(&names::LATE_REPLIES, shown.late_replies)?;
    let connected = lanes.iter().filter(|lane| lane.connected).count() as u64;
    let states = [("connected", connected), ("down", lanes.len() as u64 - connected)];
    to.by(&names::LANES, states)?;
    to.size(&names::OWED, lanes.iter().map(|lane| lane.pending).sum())?;
    to.size(&names::OWED_MOST, lanes.iter().map(|lane| lane.pending).max().unwrap_or(0))?;
    to.size(&names::OWED_LIMIT, shown.bounds.owed)?;
    to.size(&names::QUEUED, lanes.iter().map(|lane| lane.queued_bytes).max().unwrap_or(0))?;
    to.size(&names::QUEUED_LIMIT, shown.bounds.queued_bytes)?;
    to.size(&names::IN_DOUBT, lanes.iter().map(|lane| lane.in_doubt).sum())?;
    to.one(&names::SETTLED, shown.settled)?;
    to.one(&names::ORDERED, u64::from(shown.order_guaranteed))?;
    if let Some((held, most)) = shown.near {
        to.one(&names::NEAR, held)?;
        to.one(&names::NEAR_LIMIT, most)?;
    }
    Ok(())
}

fn clients(to: &mut Writer<'_>, port: PortShown) -> Result<(), Error> {
    to.size(&names::CLIENTS, port.clients)?;
    to.size(&names::CLIENTS_LIMIT, port.max_clients)?;
    to.one(&names::CLIENTS_ACCEPTED, port.accepted)?;
    to.one(&names::CLIENTS_REFUSED, port.turned_away)?;
    to.one(&names::CLIENTS_OVERFLOWED, port.overflowed)?;
    to.size(&names::OUTPUT, port.output_bytes)?;
    to.size(&names::OUTPUT_LIMIT, port.output_limit)?;
    to.by(&names::CLIENTS_CLOSED, TooMuch::ALL.map(TooMuch::name).into_iter().zip(port.closed))?;
    to.one(&names::HELD, port.held_bytes)?;
    to.one(&names::HELD_LIMIT, port.held_limit)?;
    let (one, all) = port.withheld;
    to.by(&names::WITHHELD, [("output_limit", one), ("total_limit", all)])?;
    to.one(&names::COMMANDS, port.commands)?;
    to.size(&names::OWN_CONNECTIONS, port.pinned)
}
