//! The queue's and the workers' part of the page.

use super::Metrics;
use super::catalogue::workers as names;
use super::writer::Writer;
use hedgerow_policy::pool::SlotPhase;
use hedgerow_worker::snapshot::Snapshot;
use std::fmt::Error;
use std::sync::atomic::Ordering::Relaxed;

const PHASES: [SlotPhase; 4] =
    [SlotPhase::Starting, SlotPhase::Idle, SlotPhase::Busy, SlotPhase::BackingOff];

/// Writes it; zeros where there is no pool.
pub(super) fn write(
    to: &mut Writer<'_>,
    metrics: &Metrics,
    pool: Option<&Snapshot>,
) -> Result<(), Error> {
    to.size(&names::QUEUE_DEPTH, pool.map_or(0, |pool| pool.queue_depth))?;
    to.size(&names::QUEUE_CAPACITY, pool.map_or(0, |pool| pool.queue_capacity))?;
    to.histogram(&names::QUEUE_WAIT, &metrics.queue_wait)?;
    to.one(&names::QUEUE_WAITS, metrics.queue_waits.load(Relaxed))?;
    to.one(&names::QUEUE_REJECTED, metrics.queue_rejected.load(Relaxed))?;
    to.one(&names::QUEUE_TIMEOUTS, metrics.queue_timeouts.load(Relaxed))?;
    let workers = pool.map_or(&[][..], |pool| &pool.workers);
    let states = PHASES.map(|phase| {
        (phase.name(), workers.iter().filter(|worker| worker.phase == phase).count() as u64)
    });
    to.by(&names::WORKERS, states)?;
    to.size(&names::WITH_A_WORKER, pool.map_or(0, |pool| pool.in_flight))?;
    to.size(&names::RETIRING, pool.map_or(0, |pool| pool.retiring))?;
    let rss: u64 = workers.iter().filter_map(|worker| worker.rss).sum();
    to.one(&names::RESIDENT_MEMORY, rss)?;
    to.by(&names::RESTARTS, metrics.restarts.all())?;
    to.one(&names::LATE_ANSWERS, metrics.late_answers.load(Relaxed))?;
    to.by(&names::OUTPUT_LINES, metrics.output_lines.all())?;
    to.by(&names::OUTPUT_DROPPED, metrics.output_dropped.all())?;
    to.by(&names::RELOADS, metrics.reloads.all())
}
