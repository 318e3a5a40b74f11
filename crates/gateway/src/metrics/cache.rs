//! The guarded cache's part of the page.

use super::page::Writer;
use hedgerow_cache::guarded::CacheShown;
use std::fmt::Error;

/// Writes it, or nothing where there is no cache.
pub(super) fn write(to: &mut Writer<'_>, shown: Option<&CacheShown>) -> Result<(), Error> {
    let Some(shown) = shown else { return Ok(()) };
    let counts = shown.counts;
    let reads = [
        ("hit", counts.hit),
        ("miss", counts.miss),
        ("shed", counts.shed),
        ("stale", counts.stale),
        ("timeout", counts.timeout),
        ("error", counts.error),
    ];
    to.counters("cache_reads", "Reads of the cache, by how they were answered", "result", reads)?;
    let repairs = [
        ("landed", counts.repairs_landed),
        ("refused", counts.repairs_refused),
        ("failed", counts.repairs_failed),
    ];
    let help = "Writes that went past an open circuit, by what became of them";
    to.counters("cache_repairs", help, "result", repairs)?;
    let help = "Writes that were not sent because the gate was shut or occupied";
    to.counter("cache_writes_skipped", help, counts.writes_skipped)?;
    let canaries = [("good", counts.canaries_good), ("failed", counts.canaries_failed)];
    let help = "Canaries: writes of the guard's own that were read back, or not";
    to.counters("cache_canaries", help, "result", canaries)?;
    let help = "Invalidations that the store has not heard of yet";
    to.gauge("cache_journal_depth", help, shown.journal.depth as u64)?;
    let help = "Invalidations that may wait";
    to.gauge("cache_journal_capacity", help, shown.journal.capacity as u64)?;
    to.counter("cache_reconnects", "Store connections that were replaced", shown.reconnects)?;
    let help = "Replies of the store that came after their callers had left";
    to.counter("cache_late_replies", help, shown.late_replies)?;
    let pending = shown.lanes.iter().map(|lane| lane.pending as u64).sum();
    to.gauge("cache_replies_owed", "Replies the store owes now", pending)?;
    if let Some((held, most)) = shown.memory {
        to.bytes("cache_memory", "What the embedded store holds", held)?;
        to.bytes("cache_memory_limit", "What the embedded store may hold", most)?;
    }
    Ok(())
}
