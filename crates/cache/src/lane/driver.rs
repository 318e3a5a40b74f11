//! The life of a lane's connection: connect, serve, bury, and again.
//!
//! Invariant: between two attempts to connect passes what the backoff says, so that a store that
//! takes connections and drops them is not flooded. While there is no connection and the last
//! attempt failed, calls fail at once; while the first attempt after a loss runs, they wait.

use super::connect::{Identity, Predecessor, connect, settle};
use super::doubt::Doubts;
use super::wire::Wire;
use super::{Shared, Slot, linger};
use crate::fault::Fault;
use bytes::BytesMut;
use hedgerow_policy::Moment;
use hedgerow_policy::backoff::Backoff;
use hedgerow_policy::jitter::Jitter;
use hedgerow_policy::observe::{CacheEvent, Event};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::JoinHandle;

/// A silence is looked at again by then: a reload may have made shorter what it may last.
const LOOK: Duration = Duration::from_secs(1);

/// Why a connection stopped serving.
enum End {
    Stopped,
    /// The store closed it, or broke the protocol.
    Lost(String),
    /// It was silent for too long; it may still be carried out.
    Silent,
}

struct Driver {
    shared: Arc<Shared>,
    /// Lost connections that the next one has to deal with before it serves.
    before: Vec<Predecessor>,
    /// Lost connections that cannot be ended: waited for, and then what they wrote is removed.
    lingering: Vec<(Doubts, JoinHandle<()>)>,
    /// A removal that was sent and is not answered yet.
    removing: Option<(Doubts, Arc<Slot>, u32)>,
}

/// Runs until the lane is stopped.
pub(super) async fn drive(shared: Arc<Shared>) {
    let seed = shared.now().as_nanos() ^ u64::from(std::process::id()) << 32;
    let mut jitter = Jitter::new(seed ^ u64::from(shared.database));
    let mut backoff = Backoff::new(shared.store.settings.reconnect);
    let mut driver = Driver {
        shared: shared.clone(),
        before: Vec::new(),
        lingering: Vec::new(),
        removing: None,
    };
    let (mut first, mut said) = (true, String::new());
    loop {
        let fault = match driver.connect().await {
            Ok((wire, identity)) => {
                driver.opened(&identity, first);
                said.clear();
                first = false;
                let served_from = shared.now();
                let fault = driver.serve_and_bury(wire, identity).await;
                let delay = backoff.on_failure(shared.now() - served_from, jitter.ratio());
                if !shared.stopped() {
                    shared.pause(delay).await;
                }
                fault
            }
            Err(fault) => {
                shared.shut(&fault);
                // The same reason once, not at every attempt.
                let reason = fault.to_string();
                if reason != said {
                    shared.lost(&reason);
                    said = reason;
                }
                let delay = backoff.on_failure(Duration::ZERO, jitter.ratio());
                shared.pause(delay).await;
                fault
            }
        };
        if shared.stopped() {
            shared.shut(&fault);
            driver.lingering.iter().for_each(|(_, task)| task.abort());
            return;
        }
    }
}

impl Shared {
    fn stopped(&self) -> bool {
        self.queue().stopped
    }

    fn lost(&self, error: &str) {
        let event = CacheEvent::Lost { database: self.database, error };
        self.store.observer.on(&Event::Cache(event));
    }

    fn shut(&self, fault: &Fault) {
        let fault = match fault {
            Fault::Unconnected(_) => fault.clone(),
            other => Fault::Unconnected(other.to_string()),
        };
        self.queue().shut(&fault);
    }

    /// When to look at a silence again; `None` when it has lasted for the liveness timeout. Whether
    /// it is a stall is for the guard to say.
    fn judge_silence(&self, since: Moment) -> Option<Moment> {
        let now = self.now();
        let dead = since + self.store.waits.liveness();
        if now >= dead {
            return None;
        }
        let silence = self.store.waits.stall();
        let stall = since + silence;
        if now < stall {
            return Some(stall.min(dead));
        }
        if !silence.is_zero() {
            self.store.guard.on_wake(now);
            self.store.stirred();
        }
        Some(dead)
    }

    /// Waits, but not beyond the end of the lane.
    async fn pause(&self, delay: Duration) {
        let stopped = poll_fn(|context| {
            let mut queue = self.queue();
            if queue.stopped {
                return Poll::Ready(());
            }
            queue.waker = Some(context.waker().clone());
            Poll::Pending
        });
        self.store.clock.until(self.now() + delay, stopped).await;
    }
}

impl Driver {
    async fn connect(&mut self) -> Result<(Wire, Identity), Fault> {
        let shared = &self.shared;
        let store = &shared.store;
        let clock = store.clock;
        let mut greeted = connect(store, shared.database, shared.protocol).await?;
        while let Some(old) = self.before.last() {
            settle(&mut greeted, old, clock, store.waits.connect()).await?;
            let removed = self.before.pop().map_or(0, |old| old.doubts.len());
            store.told.settled.fetch_add(removed as u64, Ordering::Relaxed);
        }
        self.hide();
        Ok((Wire::new(greeted.stream, shared.now()), greeted.identity))
    }

    /// The connection may serve.
    fn opened(&self, identity: &Identity, first: bool) {
        let shared = &self.shared;
        let told = &shared.store.told;
        let guaranteed = identity.can_be_ended();
        told.order_guaranteed.store(guaranteed, Ordering::Relaxed);
        if let Some(databases) = identity.databases {
            told.databases.store(databases as usize, Ordering::Relaxed);
        }
        let number = told.connections.fetch_add(1, Ordering::Relaxed) + 1;
        shared.connection.store(number, Ordering::Release);
        shared.connected.store(true, Ordering::Release);
        shared.queue().open();
        shared.store.sign_of_life(shared.now());
        if !first {
            told.reconnects.fetch_add(1, Ordering::Relaxed);
        }
        shared.store.observer.on(&Event::Cache(CacheEvent::Connected {
            database: shared.database,
            again: !first,
            order_guaranteed: guaranteed,
        }));
    }

    async fn serve_and_bury(&mut self, mut wire: Wire, identity: Identity) -> Fault {
        let end = self.serve(&mut wire).await;
        let shared = self.shared.clone();
        shared.connected.store(false, Ordering::Release);
        let reason = match &end {
            End::Stopped => "it is being stopped".to_owned(),
            End::Lost(reason) => reason.clone(),
            End::Silent => "it was silent for the liveness timeout".to_owned(),
        };
        let fault = Fault::Lost(reason);
        let remains = wire.bury(&fault);
        shared.pending.store(0, Ordering::Relaxed);
        shared.store.guard.on_lost(remains.missing as u64);
        if !matches!(end, End::Stopped) {
            shared.lost(&fault.to_string());
        }
        if let Some((doubts, ..)) = self.removing.take() {
            // Whether it was removed is not known: it is removed again.
            self.before.push(Predecessor { identity: Identity::default(), doubts });
        }
        if remains.unanswered > 0 {
            // What the store closed is gone. What is only silent is not, unless it can be ended.
            if matches!(end, End::Silent) && !identity.can_be_ended() {
                let (held, scanner) = (wire.held, wire.scanner);
                let gone = linger::gone(wire.stream, held, scanner, remains.unanswered);
                self.lingering.push((remains.doubts, tokio::spawn(gone)));
            } else {
                self.before.push(Predecessor { identity, doubts: remains.doubts });
            }
        }
        self.hide();
        fault
    }

    /// Keys of connections that may still be carried out read as misses.
    fn hide(&self) {
        let lingering = self.lingering.iter().map(|(doubts, _)| doubts);
        let removing = self.removing.iter().map(|(doubts, ..)| doubts);
        self.shared.hidden.set(lingering.chain(removing));
    }

    async fn serve(&mut self, wire: &mut Wire) -> End {
        let shared = self.shared.clone();
        let mut timer = pin!(shared.store.clock.timer(shared.now()));
        // The timer runs only while something is owed, and is set anew only when it has fired: under
        // load that is a few times a second, however many calls there are.
        let mut armed = false;
        let mut yielded = false;
        poll_fn(|context| {
            loop {
                if let Some(end) = self.look_after_lingering(wire, context) {
                    return Poll::Ready(end);
                }
                let mut moved = false;
                match self.poll_queue(wire, context, &mut yielded) {
                    Poll::Ready(Some(end)) => return Poll::Ready(end),
                    Poll::Ready(None) => moved = true,
                    Poll::Pending => {}
                }
                if let Poll::Ready(Err(error)) = wire.poll_write(context) {
                    return Poll::Ready(End::Lost(error.to_string()));
                }
                match wire.poll_read(context, &shared) {
                    Poll::Ready(Ok(())) => moved = true,
                    Poll::Ready(Err(error)) => return Poll::Ready(End::Lost(error.to_string())),
                    Poll::Pending => {}
                }
                if moved {
                    continue;
                }
                if armed && timer.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                let Some(since) = wire.silent_since() else {
                    armed = false;
                    return Poll::Pending;
                };
                let Some(due) = shared.judge_silence(since) else {
                    return Poll::Ready(End::Silent);
                };
                let due = due.min(shared.now() + LOOK);
                timer.as_mut().reset(shared.store.clock.instant(due));
                armed = true;
            }
        })
        .await
    }

    /// Ready with nothing when calls were taken, with an end when the lane is stopped.
    fn poll_queue(
        &self,
        wire: &mut Wire,
        context: &mut Context<'_>,
        yielded: &mut bool,
    ) -> Poll<Option<End>> {
        {
            let mut queue = self.shared.queue();
            if queue.stopped {
                return Poll::Ready(Some(End::Stopped));
            }
            if queue.calls.is_empty() || !wire.has_room() {
                queue.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        // The first call after a rest: those who are about to ask too are let go first, so that
        // their commands leave in one write.
        if !*yielded {
            *yielded = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        *yielded = false;
        // Also when all who asked have left: only an empty queue is waited for.
        wire.gather(&self.shared);
        Poll::Ready(None)
    }

    /// Sends the removal of what a connection wrote that is gone now, and takes note of its answer.
    fn look_after_lingering(&mut self, wire: &mut Wire, context: &mut Context<'_>) -> Option<End> {
        if let Some((doubts, slot, commands)) = &self.removing
            && slot.poll(context).is_ready()
        {
            let mut frames = Vec::new();
            let fault = slot.take(&mut frames);
            if fault.is_some() || frames.len() < *commands as usize {
                return Some(End::Lost("what a lost connection wrote could not be removed".into()));
            }
            let removed = doubts.len() as u64;
            self.shared.store.told.settled.fetch_add(removed, Ordering::Relaxed);
            self.removing = None;
            self.hide();
        }
        if self.removing.is_some() {
            return None;
        }
        let gone =
            self.lingering.iter_mut().position(|(_, task)| pin!(task).poll(context).is_ready())?;
        let (doubts, _) = self.lingering.remove(gone);
        let mut out = BytesMut::new();
        let commands = doubts.write_removal(&mut out);
        if commands > 0 {
            let slot = Slot::next(None, commands);
            wire.send(&self.shared, out.freeze(), commands, slot.clone());
            self.removing = Some((doubts, slot, commands));
            self.hide();
            // Polled once, so that the answer wakes this task.
            return self.look_after_lingering(wire, context);
        }
        self.hide();
        None
    }
}
