//! Whether to call a party that may be down: the circuit breaker.
//!
//! Invariants:
//! - health is a failure *rate* over a sliding window with a minimum throughput, never a run of
//!   failures; a miss is a success, and a caller's own leaving is nothing at all;
//! - every state has a generation; a result whose permit is of an older one changes nothing;
//! - half-open never has more than the configured probes in flight, and a probe that is never
//!   settled gives up its place;
//! - an open circuit stays open for its time, unless it is ended early; an early end that is
//!   followed by another opening doubles the wait before the next;
//! - time never runs backwards here: a moment earlier than one already seen changes no state back.
//!
//! The one machine that takes `&self`: it is asked from every thread at once. A call through a
//! closed circuit takes no lock and allocates nothing; the lock is for the other states and for
//! transitions. All state that others may see is one word (generation, override, state), stored
//! only under the lock. Transitions are kept in order for the driver: [`Breaker::next_transition`].
//!
//! (The idea: Nygard's circuit breaker; rate, minimum and probes as in Hystrix and Resilience4j;
//! generations as in Sony's gobreaker. Checked with loom:
//! `RUSTFLAGS="--cfg hedgerow_loom" cargo test -p hedgerow-policy --release --lib loom_`.)

mod config;
mod outcome;
mod state;
#[cfg(all(test, not(hedgerow_loom)))]
mod tests;
mod window;

pub use config::{BreakerConfig, BreakerSettings, ConfigError};
pub use outcome::{Outcome, State};
pub use state::{Cause, Override, Snapshot, Transition};
pub use window::Counts;

use crate::moment::Moment;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use state::Inner;
use window::Window;

/// The right to make one call. Settled at most once, by [`Breaker::settle`]. One that is dropped
/// counts as nothing; a probe's place comes free after the probe timeout.
#[must_use = "a permit that is never settled tells the breaker nothing"]
#[derive(PartialEq, Eq, Debug)]
pub struct Permit {
    stamp: u64,
    /// Which probe; zero for a call through a closed circuit.
    probe: u32,
}

impl Permit {
    /// Whether it is one of a half-open circuit's few.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        self.probe != 0
    }

    /// The generation of the state that gave it.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        generation_of(self.stamp)
    }
}

/// The answer to a call that wants to go through.
#[derive(PartialEq, Eq, Debug)]
pub enum Admission {
    /// It may.
    Admitted(Permit),
    /// It may not.
    Shed(Shed),
}

/// Why and until when a call may not go through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shed {
    /// Open, or half-open with every probe out.
    pub state: State,
    /// The generation of that state.
    pub generation: u64,
    /// When the open time is over; already past in half-open.
    pub until: Moment,
}

/// The circuit at one instant, as the repair gate needs to know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Circuit {
    /// The state.
    pub state: State,
    /// Its generation. Rises with every transition, from 1.
    pub generation: u64,
    /// Since when.
    pub since: Moment,
}

const STATE_BITS: u64 = 0b011;
const CLOSED: u64 = 0;
const HALF_OPEN: u64 = 1;
const OPEN: u64 = 2;
const OVERRIDE: u64 = 0b100;
const GENERATION_SHIFT: u32 = 3;

const fn generation_of(word: u64) -> u64 {
    word >> GENERATION_SHIFT
}

const fn state_of(word: u64) -> State {
    match word & STATE_BITS {
        CLOSED => State::Closed,
        HALF_OPEN => State::HalfOpen,
        _ => State::Open,
    }
}

/// What is read on every call; on cache lines of its own, because it is rarely written.
#[repr(align(64))]
#[derive(Debug)]
struct Hot {
    /// Generation, override, state.
    word: AtomicU64,
    min_throughput: AtomicU64,
    ratio_millionths: AtomicU64,
    /// End of the open time; written before the word that says open.
    until: AtomicU64,
    /// Start of the state; written before its word.
    since: AtomicU64,
    /// Whether a transition waits to be told.
    stirred: AtomicBool,
}

/// The state machine. See the module's head.
#[derive(Debug)]
pub struct Breaker {
    hot: Hot,
    window: Window,
    inner: Mutex<Inner>,
}

impl Breaker {
    /// A closed circuit without history.
    #[must_use]
    pub fn new(config: BreakerConfig, now: Moment) -> Breaker {
        let inner = Inner::new(config, now);
        Breaker {
            hot: Hot {
                word: AtomicU64::new(inner.word()),
                min_throughput: AtomicU64::new(u64::from(config.settings().min_throughput)),
                ratio_millionths: AtomicU64::new(config.ratio_millionths()),
                until: AtomicU64::new(Moment::NEVER.as_nanos()),
                since: AtomicU64::new(now.as_nanos()),
                stirred: AtomicBool::new(false),
            },
            window: Window::new(config.bucket_nanos()),
            inner: Mutex::new(inner),
        }
    }

    /// A call wants to go through.
    #[inline]
    pub fn admit(&self, now: Moment) -> Admission {
        let word = self.hot.word.load(Ordering::Acquire);
        if word & STATE_BITS == CLOSED {
            return Admission::Admitted(Permit { stamp: word, probe: 0 });
        }
        self.admit_not_closed(now, word)
    }

    /// A call wants to go through that must not spend a probe (a hedge's twin).
    #[inline]
    pub fn admit_if_closed(&self) -> Option<Permit> {
        let word = self.hot.word.load(Ordering::Acquire);
        (word & STATE_BITS == CLOSED).then_some(Permit { stamp: word, probe: 0 })
    }

    #[cold]
    fn admit_not_closed(&self, now: Moment, word: u64) -> Admission {
        let until = Moment::from_nanos(self.hot.until.load(Ordering::Acquire));
        if word & STATE_BITS == OPEN && now < until {
            // While open nobody waits for the lock. Were the word old by now, so would be the
            // answer, and no older than the call.
            let generation = generation_of(word);
            return Admission::Shed(Shed { state: State::Open, generation, until });
        }
        self.transact(|inner| inner.admit(now))
    }

    /// An admitted call has ended. A permit of an older generation moves nothing.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "a permit is settled once")]
    pub fn settle(&self, now: Moment, permit: Permit, outcome: Outcome) {
        let word = self.hot.word.load(Ordering::Acquire);
        if word != permit.stamp {
            return;
        }
        if word & STATE_BITS != CLOSED {
            self.transact(|inner| inner.settle_probe(now, permit.stamp, permit.probe, outcome));
            return;
        }
        if outcome.is_nothing() {
            return;
        }
        let is_current = || self.hot.word.load(Ordering::Acquire) == word;
        let generation = generation_of(word);
        if self.window.record(now, generation, outcome.is_failure(), is_current)
            && word & OVERRIDE == 0
        {
            self.judge(now, word);
        }
    }

    /// Opens the circuit if the window calls for it.
    #[cold]
    fn judge(&self, now: Moment, word: u64) {
        let counts = self.window.counts(now, generation_of(word));
        let ratio = self.hot.ratio_millionths.load(Ordering::Relaxed);
        let enough = counts.calls >= self.hot.min_throughput.load(Ordering::Relaxed);
        if enough && counts.failures * config::MILLION >= ratio * counts.calls {
            self.transact(|inner| inner.trip(now, word, counts, Cause::Rate));
        }
    }

    /// What the driver knows of silence: `owed` replies are awaited, and nothing at all has been
    /// heard since `silent_since` (or, if that is later, since the oldest of them was asked for).
    pub fn on_owed(&self, now: Moment, owed: u64, silent_since: Moment) {
        let word = self.hot.word.load(Ordering::Acquire);
        if owed == 0 || word & STATE_BITS != CLOSED || word & OVERRIDE != 0 {
            return;
        }
        self.transact(|inner| {
            let bounds = *inner.config().settings();
            let silent = now.since(silent_since);
            if !bounds.stall.is_zero()
                && owed >= u64::from(bounds.stall_outstanding)
                && silent >= bounds.stall
            {
                let counts = self.window.counts(now, generation_of(word));
                inner.trip(now, word, counts, Cause::Stall);
            }
        });
    }

    /// Time has passed: an open circuit whose time is over becomes half-open, and the places of
    /// lost probes come free. Calls do the same; this is for when none come.
    pub fn on_wake(&self, now: Moment) {
        if self.state() != State::Closed {
            self.transact(|inner| inner.advance(now));
        }
    }

    /// When [`Breaker::on_wake`] has something to do without another event.
    #[must_use]
    pub fn next_wake(&self) -> Option<Moment> {
        match self.state() {
            State::Closed => None,
            _ => lock(&self.inner).next_wake(),
        }
    }

    /// Ends the open episode of `generation` before its time, if its wait is over. False if it
    /// was not open, was not that episode, is held open by hand, or has to wait longer.
    pub fn end_early(&self, now: Moment, generation: u64) -> bool {
        self.transact(|inner| inner.end_early(now, generation))
    }

    /// Holds the circuit open or closed, or lets it decide again. A circuit that was held open
    /// goes on half-open; one that was held closed begins with an empty window.
    pub fn set_override(&self, now: Moment, to: Override) {
        self.transact(|inner| inner.set_override(now, to));
    }

    /// Takes other bounds. The window keeps what it holds; an open circuit keeps when it opened.
    pub fn reconfigure(&self, now: Moment, config: BreakerConfig) {
        self.transact(|inner| {
            inner.reconfigure(config);
            self.window.resize(now, inner.generation(), config.bucket_nanos());
            let minimum = u64::from(config.settings().min_throughput);
            self.hot.min_throughput.store(minimum, Ordering::Relaxed);
            self.hot.ratio_millionths.store(config.ratio_millionths(), Ordering::Relaxed);
        });
    }

    /// The bounds in force.
    #[must_use]
    pub fn config(&self) -> BreakerConfig {
        *lock(&self.inner).config()
    }

    /// The state.
    #[inline]
    #[must_use]
    pub fn state(&self) -> State {
        state_of(self.hot.word.load(Ordering::Acquire))
    }

    /// State, generation and start, as they were together at one instant.
    #[must_use]
    pub fn circuit(&self) -> Circuit {
        loop {
            let word = self.hot.word.load(Ordering::Acquire);
            let since = Moment::from_nanos(self.hot.since.load(Ordering::Acquire));
            if self.hot.word.load(Ordering::Acquire) == word {
                return Circuit { state: state_of(word), generation: generation_of(word), since };
            }
        }
    }

    /// Whether a transition waits to be told: ask [`Breaker::next_transition`], and
    /// [`Breaker::next_wake`] anew. Cheap enough to ask after every call.
    #[inline]
    #[must_use]
    pub fn stirred(&self) -> bool {
        self.hot.stirred.load(Ordering::Relaxed)
    }

    /// The next transition that has not been told, in order.
    pub fn next_transition(&self) -> Option<Transition> {
        let mut inner = lock(&self.inner);
        let next = inner.next_transition();
        if next.is_none() {
            self.hot.stirred.store(false, Ordering::Relaxed);
        }
        next
    }

    /// Everything there is to show.
    #[must_use]
    pub fn snapshot(&self, now: Moment) -> Snapshot {
        let inner = lock(&self.inner);
        let counts = self.window.counts(now, inner.generation());
        inner.snapshot(counts)
    }

    /// Runs one event on the state under the lock, and publishes what came of it.
    fn transact<T>(&self, event: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = lock(&self.inner);
        let answer = event(&mut inner);
        inner.check_invariants();
        self.hot.until.store(inner.until().as_nanos(), Ordering::Release);
        if inner.word() != self.hot.word.load(Ordering::Relaxed) {
            self.hot.since.store(inner.since().as_nanos(), Ordering::Release);
            self.hot.word.store(inner.word(), Ordering::Release);
            self.hot.stirred.store(true, Ordering::Relaxed);
        }
        answer
    }
}
