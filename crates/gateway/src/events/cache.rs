//! What the guarded cache reports, as events.
//!
//! Invariant: one line for each change, never one for each call.

use super::{words, write};
use crate::facts::Fields;
use crate::record::Inner;
use hedgerow_policy::observe::{CacheEvent, Event};
use hedgerow_policy::repair::GateChange;

/// Writes down one event of the cache, or of a circuit.
pub(super) fn record(inner: &Inner, event: &Event<'_>) {
    match *event {
        Event::BreakerTransition { name, transition } => {
            write(inner, &"breaker.transition", |line| {
                line.str(&"name", name);
                line.str(&"from", transition.from.name());
                line.str(&"to", transition.to.name());
                line.str(&"cause", transition.cause.name());
                line.num(&"episode", transition.episode);
                line.num(&"calls", transition.counts.calls);
                line.num(&"failures", transition.counts.failures);
            });
        }
        Event::Cache(CacheEvent::Repair { change }) => {
            let gate = match change {
                GateChange::None => return,
                GateChange::Shut => "shut",
                GateChange::Proven => "proven",
            };
            write(inner, &"cache.repair", |line| line.str(&"gate", gate));
        }
        Event::Cache(CacheEvent::Canary { good }) => {
            write(inner, &"cache.canary", |line| line.flag(&"good", good));
        }
        Event::Cache(CacheEvent::Connected { database, again, order_guaranteed }) => {
            write(inner, &"cache.connected", |line| {
                line.num(&"database", database);
                line.flag(&"again", again);
                line.flag(&"order_guaranteed", order_guaranteed);
            });
        }
        Event::Cache(CacheEvent::Lost { database, error }) => {
            write(inner, &"cache.lost", |line| {
                line.num(&"database", database);
                line.message(&"error", words(inner, error));
            });
        }
        Event::Cache(CacheEvent::JournalOverflowed { database }) => {
            write(inner, &"cache.journal_overflowed", |line| line.num(&"database", database));
        }
        Event::Cache(CacheEvent::JournalFileFailed { error }) => {
            write(inner, &"cache.journal_failed", |line| {
                line.message(&"error", words(inner, error));
            });
        }
        _ => {}
    }
}
