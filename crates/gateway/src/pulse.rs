//! Whether a connection is alive: who owes whom something, and since when.
//!
//! Invariant: a connection waits for one of three things, each with its bound: for the first byte
//! of a request (`keep_alive`), for the rest of a head (`header_timeout`), for the client to take a
//! byte of an answer (`keep_alive`). While a request is being answered only the last one counts.
//! In HTTP/2 a client can take one answer and leave another standing, so there each answer has its
//! own clock (see [`Taking`]) and they are looked at now and then.
//! The HTTP library's own head timeout counts from the end of the request before, so it would end
//! idle connections early; this is why the clock is kept here.

use crate::settings::Settings;
use hedgerow_clock::Clock;
use hedgerow_policy::Moment;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

const NONE: u64 = u64::MAX;
/// An HTTP/1 connection that is idle for longer gives back its buffers until its next byte.
const REST: Duration = Duration::from_secs(1);

/// What a connection waited for too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// A request to begin, for so long that the room for one can be given back.
    Rest,
    /// A request to begin.
    Idle,
    /// The rest of a head.
    Head,
    /// The client to take what it asked for.
    Taking,
}

/// HTTP/1: how far an exchange has come.
const OPEN: u8 = 0;
/// The request is there in full.
const RECEIVED: u8 = 1;
/// The same, of a client that understands interim answers.
const RECEIVED_ASKABLE: u8 = 2;
/// A byte of its answer has gone.
const SENDING: u8 = 3;

/// The bounds of the waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) keep_alive: Duration,
    pub(crate) header_timeout: Duration,
}

impl Bounds {
    pub(crate) fn of(settings: &Settings) -> Bounds {
        Bounds { keep_alive: settings.keep_alive, header_timeout: settings.header_timeout }
    }
}

/// The state of one connection. Changed by its own tasks only, so relaxed atomics are enough.
#[derive(Debug)]
pub(crate) struct Pulse {
    clock: Clock,
    bounds: Bounds,
    /// In HTTP/2 a byte says nothing about whether a request has begun.
    multiplexed: AtomicBool,
    answering: AtomicU32,
    step: AtomicU8,
    /// HTTP/1: whether the next piece of a request that is coming is asked for.
    asking: AtomicBool,
    idle_since: AtomicU64,
    head_since: AtomicU64,
    blocked_since: AtomicU64,
    /// HTTP/2: when the answers were last looked at.
    looked: AtomicU64,
    unread: AtomicBool,
    unframed: AtomicBool,
    /// HTTP/2: since when each answer waits for its client to take a piece.
    offered: Mutex<Vec<Arc<AtomicU64>>>,
}

impl Pulse {
    pub(crate) fn new(clock: Clock, bounds: Bounds) -> Arc<Pulse> {
        Arc::new(Pulse {
            clock,
            bounds,
            multiplexed: AtomicBool::new(false),
            answering: AtomicU32::new(0),
            step: AtomicU8::new(OPEN),
            asking: AtomicBool::new(true),
            idle_since: AtomicU64::new(clock.now().as_nanos()),
            head_since: AtomicU64::new(NONE),
            blocked_since: AtomicU64::new(NONE),
            looked: AtomicU64::new(clock.now().as_nanos()),
            unread: AtomicBool::new(false),
            unframed: AtomicBool::new(false),
            offered: Mutex::default(),
        })
    }

    /// It has turned out to be HTTP/2.
    pub(crate) fn multiplex(&self) {
        self.multiplexed.store(true, Relaxed);
    }

    /// Until when it may be idle.
    pub(crate) fn idle_until(&self) -> Moment {
        after(self.idle_since.load(Relaxed), self.bounds.keep_alive)
    }

    /// A head is complete; the answer is owed until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Pulse>) -> Busy {
        self.answering.fetch_add(1, Relaxed);
        self.head_since.store(NONE, Relaxed);
        self.step.store(OPEN, Relaxed);
        self.asking.store(true, Relaxed);
        Busy(Arc::clone(self))
    }

    /// More of a request is to come; its connection is not idle until the guard is dropped, be it
    /// that the answer is long gone.
    pub(crate) fn receiving(self: &Arc<Pulse>) -> Busy {
        self.answering.fetch_add(1, Relaxed);
        Busy(Arc::clone(self))
    }

    /// HTTP/1: a request is there in full. A client of HTTP/1.1 may be sent an interim answer.
    pub(crate) fn received(&self, askable: bool) {
        let step = if askable { RECEIVED_ASKABLE } else { RECEIVED };
        // Not where its answer has begun before.
        let _ = self.step.compare_exchange(OPEN, step, Relaxed, Relaxed);
    }

    /// HTTP/1: an answer begins now. If its request is not there in full, a byte may have gone when it is.
    pub(crate) fn answered(&self) {
        let _ = self.step.compare_exchange(OPEN, SENDING, Relaxed, Relaxed);
    }

    /// HTTP/1: the next piece of the request is asked for, or just now is not.
    pub(crate) fn ask(&self, asking: bool) {
        self.asking.store(asking, Relaxed);
    }

    /// HTTP/1: whether a request is owed an answer that may not be there in full.
    pub(crate) fn incomplete(&self) -> bool {
        let http1 = !self.multiplexed.load(Relaxed);
        http1 && self.answering.load(Relaxed) > 0 && self.step.load(Relaxed) == OPEN
    }

    /// HTTP/1: whether somebody waits for more of the request.
    pub(crate) fn asks(&self) -> bool {
        self.asking.load(Relaxed)
    }

    /// HTTP/1: a byte of an answer has gone.
    pub(crate) fn sent(&self) {
        if self.step.load(Relaxed) != OPEN {
            self.step.store(SENDING, Relaxed);
        }
    }

    /// HTTP/1: whether an answer is owed to a request that is there in full.
    pub(crate) fn owes(&self) -> bool {
        self.answering.load(Relaxed) > 0 && self.step.load(Relaxed) != OPEN
    }

    /// Whether nothing of that answer has gone.
    pub(crate) fn unanswered(&self) -> bool {
        self.owes() && self.step.load(Relaxed) != SENDING
    }

    /// Whether an interim answer may be sent in its place.
    pub(crate) fn askable(&self) -> bool {
        self.owes() && self.step.load(Relaxed) == RECEIVED_ASKABLE
    }

    /// Whether every answer has been handed to the library in full.
    pub(crate) fn owes_nothing(&self) -> bool {
        self.answering.load(Relaxed) == 0
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// A request was answered without its body having been read.
    pub(crate) fn leave_unread(&self) {
        self.unread.store(true, Relaxed);
    }

    /// Whether one was.
    pub(crate) fn left_unread(&self) -> bool {
        self.unread.load(Relaxed)
    }

    /// An answer is being sent whose end is the end of the connection (HTTP/1.0).
    pub(crate) fn send_unframed(&self) {
        self.unframed.store(true, Relaxed);
    }

    /// Whether one is.
    pub(crate) fn sends_unframed(&self) -> bool {
        self.unframed.load(Relaxed)
    }

    /// The clock of one answer; none in HTTP/1, where the connection's own is enough.
    pub(crate) fn offer(self: &Arc<Pulse>) -> Option<Taking> {
        self.multiplexed.load(Relaxed).then(|| {
            let since = Arc::new(AtomicU64::new(self.clock.now().as_nanos()));
            self.offered().push(Arc::clone(&since));
            Taking { pulse: Arc::clone(self), since }
        })
    }

    fn offered(&self) -> std::sync::MutexGuard<'_, Vec<Arc<AtomicU64>>> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When to look at [`Pulse::overdue`] next. Cheap: it is asked for at every step.
    pub(crate) fn due(&self) -> Moment {
        let keep_alive = self.bounds.keep_alive;
        let blocked = after(self.blocked_since.load(Relaxed), keep_alive);
        if self.answering.load(Relaxed) > 0 {
            return if self.multiplexed.load(Relaxed) {
                blocked.min(self.next_look())
            } else {
                blocked
            };
        }
        blocked.min(self.waiting().0)
    }

    /// In HTTP/2, when the answers are to be looked at again.
    fn next_look(&self) -> Moment {
        after(self.looked.load(Relaxed), self.bounds.keep_alive / 4)
    }

    /// What lasts too long by now, if anything does.
    pub(crate) fn overdue(&self) -> Option<Wait> {
        let now = self.clock.now();
        let keep_alive = self.bounds.keep_alive;
        if now >= after(self.blocked_since.load(Relaxed), keep_alive) {
            return Some(Wait::Taking);
        }
        if self.answering.load(Relaxed) == 0 {
            let (until, wait) = self.waiting();
            return (now >= until).then_some(wait);
        }
        if self.multiplexed.load(Relaxed) {
            self.looked.store(now.as_nanos(), Relaxed);
            let stands = |since: &Arc<AtomicU64>| now >= after(since.load(Relaxed), keep_alive);
            return self.offered().iter().any(stands).then_some(Wait::Taking);
        }
        None
    }

    /// While no answer is owed: until when, and for what.
    fn waiting(&self) -> (Moment, Wait) {
        match self.head_since.load(Relaxed) {
            NONE if self.multiplexed.load(Relaxed) => (self.idle_until(), Wait::Idle),
            NONE => {
                let rest = REST.min(self.bounds.keep_alive / 4);
                (after(self.idle_since.load(Relaxed), rest), Wait::Rest)
            }
            since => (after(since, self.bounds.header_timeout), Wait::Head),
        }
    }

    /// Bytes have come.
    pub(crate) fn read(&self) {
        let waiting = !self.multiplexed.load(Relaxed) && self.answering.load(Relaxed) == 0;
        if waiting && self.head_since.load(Relaxed) == NONE {
            self.head_since.store(self.clock.now().as_nanos(), Relaxed);
        }
    }

    /// Bytes were to go.
    pub(crate) fn wrote<T>(&self, result: &Poll<io::Result<T>>) {
        let blocked = self.blocked_since.load(Relaxed);
        match result {
            Poll::Ready(_) if blocked != NONE => self.blocked_since.store(NONE, Relaxed),
            Poll::Pending if blocked == NONE => {
                self.blocked_since.store(self.clock.now().as_nanos(), Relaxed);
            }
            _ => {}
        }
    }
}

fn after(since: u64, bound: Duration) -> Moment {
    Moment::from_nanos(since) + bound
}

/// The clock of one answer: it runs while a piece is ready and the client does not take it, and
/// stands still while the answer itself waits for its next piece.
#[derive(Debug)]
pub(crate) struct Taking {
    pulse: Arc<Pulse>,
    since: Arc<AtomicU64>,
}

impl Taking {
    /// The client has room for a piece; `ready` tells whether there was one.
    pub(crate) fn asked(&self, ready: bool) {
        let since = if ready { self.pulse.clock.now().as_nanos() } else { NONE };
        self.since.store(since, Relaxed);
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.pulse.offered().retain(|other| !Arc::ptr_eq(other, &self.since));
    }
}

/// An answer that is owed, or a request that is still coming.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Pulse>);

impl Busy {
    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        &self.0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.clock.now().as_nanos(), Relaxed);
        self.0.answering.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulse(multiplexed: bool) -> (Clock, Arc<Pulse>) {
        let clock = Clock::start();
        let bounds =
            Bounds { keep_alive: Duration::from_secs(75), header_timeout: Duration::from_secs(10) };
        let pulse = Pulse::new(clock, bounds);
        if multiplexed {
            pulse.multiplex();
        }
        (clock, pulse)
    }

    #[tokio::test(start_paused = true)]
    async fn the_bound_is_that_of_the_wait() {
        let (clock, pulse) = pulse(false);
        let at = |seconds: u64| Moment::from_millis(seconds * 1_000);
        assert_eq!((pulse.due(), pulse.idle_until()), (at(1), at(75)));
        clock.sleep_until(at(50)).await;
        assert_eq!(pulse.overdue(), Some(Wait::Rest));
        let begun = clock.now();
        pulse.read();
        assert_eq!(pulse.due(), begun + Duration::from_secs(10));
        let busy = pulse.begin();
        assert_eq!(pulse.due(), Moment::NEVER);
        pulse.read();
        assert_eq!(pulse.due(), Moment::NEVER, "a pipelined byte is no head in the making yet");
        clock.sleep_until(at(200)).await;
        pulse.wrote(&Poll::<io::Result<()>>::Pending);
        assert!(pulse.due() < Moment::NEVER);
        pulse.wrote(&Poll::Ready(Ok(())));
        assert_eq!((pulse.due(), pulse.overdue()), (Moment::NEVER, None));
        let ended = clock.now();
        drop(busy);
        assert_eq!(pulse.due(), ended + REST);
        pulse.read();
        assert_eq!(pulse.overdue(), None);
        clock.sleep_until(pulse.due()).await;
        assert_eq!(pulse.overdue(), Some(Wait::Head));
    }

    #[tokio::test(start_paused = true)]
    async fn in_http2_each_answer_has_its_own_clock() {
        let (clock, pulse) = pulse(true);
        let at = |seconds: u64| Moment::from_millis(seconds * 1_000);
        pulse.read();
        assert_eq!(pulse.due(), at(75), "bytes are no head");
        let _busy = pulse.begin();
        let (taken, standing) = (pulse.offer().unwrap(), pulse.offer().unwrap());
        standing.asked(false);
        clock.sleep_until(at(100)).await;
        taken.asked(true);
        assert_eq!(pulse.overdue(), None, "one is taken, the other has nothing to be taken");
        standing.asked(true);
        clock.sleep_until(at(150)).await;
        taken.asked(true);
        assert_eq!(pulse.overdue(), None);
        clock.sleep_until(at(180)).await;
        assert_eq!(pulse.overdue(), Some(Wait::Taking));
        drop(standing);
        assert_eq!(pulse.overdue(), None);
        assert!(pulse.due() > clock.now());
    }
}
