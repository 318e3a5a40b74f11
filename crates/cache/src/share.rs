//! What one client of the port makes the port hold, of what all may make it hold together.
//!
//! Invariant: what is held for a client is told here when it is read or comes in, and given back
//! when it has been sent or was let go of. Replies that come in are asked about one by one: one for
//! which there is no room is replaced by an error, and the replies behind it are not affected.

use bytes::Bytes;
use hedgerow_policy::Moment;
use hedgerow_policy::allowance::{Allowance, AllowanceConfig, AllowanceShown, Holding};
use hedgerow_wire::resp::{Frame, Kind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that each client may hold whatever others hold: commands and replies that are small.
pub(crate) const OWN: usize = 64 << 10;
/// Who holds more than that and stands still has to let go after this, while others are refused.
const PATIENCE: Duration = Duration::from_secs(10);
/// Replies no longer than this are not asked about: the error would be no shorter.
pub(crate) const SMALL_REPLY: usize = 128;

const FULL_FOR_ALL: &[u8] =
    b"-PORTFULL the port holds as much as it may for all clients; carried out, its reply let go\r\n";
const FULL_FOR_ONE: &[u8] =
    b"-PORTFULL too many replies of this client wait; carried out, its reply let go\r\n";
const _: () = assert!(FULL_FOR_ALL.len() <= SMALL_REPLY && FULL_FOR_ONE.len() <= SMALL_REPLY);

/// The room of all clients.
#[derive(Debug)]
pub(crate) struct Room {
    allowance: Allowance,
    /// Bytes of replies that may wait for one client.
    replies: usize,
    withheld_from_one: AtomicU64,
    withheld_from_all: AtomicU64,
}

/// One client's part of it.
#[derive(Debug)]
pub(crate) struct Share {
    room: Arc<Room>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    holding: Holding,
    /// Bytes of replies that have come and were not looked at yet.
    waiting: usize,
}

impl Room {
    /// Room for `limit` bytes of all clients beyond their own parts, and `replies` of each.
    pub(crate) fn new(limit: usize, replies: usize) -> Room {
        let config = AllowanceConfig { limit: limit as u64, own: OWN as u64, patience: PATIENCE };
        let (one, all) = (AtomicU64::new(0), AtomicU64::new(0));
        let allowance = Allowance::new(config);
        Room { allowance, replies, withheld_from_one: one, withheld_from_all: all }
    }

    pub(crate) fn shown(&self) -> AllowanceShown {
        self.allowance.snapshot()
    }

    /// A reply is let go of because too many of one client wait: what it is replaced by.
    pub(crate) fn withhold(&self) -> &'static [u8] {
        self.withheld_from_one.fetch_add(1, Relaxed);
        FULL_FOR_ONE
    }

    /// Replies that were let go of: because too many of one client waited, and because all clients
    /// together held too much.
    pub(crate) fn withheld(&self) -> (u64, u64) {
        (self.withheld_from_one.load(Relaxed), self.withheld_from_all.load(Relaxed))
    }
}

impl Share {
    pub(crate) fn of(room: &Arc<Room>) -> Share {
        Share { room: room.clone(), state: Mutex::default() }
    }

    /// Asks for room for so many bytes more.
    #[must_use]
    pub(crate) fn ask(&self, more: usize) -> bool {
        self.lock().holding.ask(&self.room.allowance, more as u64)
    }

    /// The same, for a reply that was made here. `false`: it is to be replaced by
    /// [`Share::no_room`].
    #[must_use]
    pub(crate) fn ask_for_reply(&self, bytes: usize) -> bool {
        let granted = self.ask(bytes);
        if !granted {
            self.room.withheld_from_all.fetch_add(1, Relaxed);
        }
        granted
    }

    /// What a reply is replaced by.
    pub(crate) fn no_room() -> &'static [u8] {
        FULL_FOR_ALL
    }

    /// What was held is now another number of bytes.
    pub(crate) fn became(&self, was: usize, is: usize) {
        self.lock().holding.became(&self.room.allowance, was as u64, is as u64);
    }

    /// A reply has come: how many bytes of it are held from now on, and what there is to pass on.
    pub(crate) fn receive(&self, frame: Frame) -> (usize, Frame) {
        let length = frame.bytes.len();
        if length <= SMALL_REPLY {
            return (0, frame);
        }
        let instead = |text| (0, Frame { bytes: Bytes::from_static(text), kind: Kind::Error });
        let mut state = self.lock();
        // One that is larger than the limit still finds a place, so that it can be had at all.
        if state.waiting > 0 && state.waiting.saturating_add(length) > self.room.replies {
            return instead(self.room.withhold());
        }
        if !state.holding.ask(&self.room.allowance, length as u64) {
            self.room.withheld_from_all.fetch_add(1, Relaxed);
            return instead(FULL_FOR_ALL);
        }
        state.waiting += length;
        (length, frame)
    }

    /// Replies of so many bytes were looked at, or nobody will.
    pub(crate) fn let_go(&self, bytes: usize) {
        let mut state = self.lock();
        state.waiting = state.waiting.saturating_sub(bytes);
        state.holding.became(&self.room.allowance, bytes as u64, 0);
    }

    /// When to ask whether the client stands still.
    pub(crate) fn next_wake(&self, now: Moment) -> Option<Moment> {
        self.lock().holding.next_wake(now, &self.room.allowance)
    }

    /// Whether the client stands still, and others need the room.
    pub(crate) fn overstays(&self, now: Moment, moved: bool) -> bool {
        self.lock().holding.on_wake(now, &self.room.allowance, moved)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.holding.end(&self.room.allowance);
    }
}
