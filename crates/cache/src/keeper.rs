//! Asks the policies before each store call, tells them afterwards, and does what they decide.
//!
//! Invariants:
//! - every call that is sent has a permit, and every permit is settled with what came of it;
//! - while something is owed to a database, a read goes out behind its replay or not at all, and
//!   its answer counts only if that replay was not lost meanwhile;
//! - an invalidation that was not carried out is in the journal before its caller is answered.

use crate::commands::{Args, Class, Row};
use crate::counts::Counts;
use crate::fault::Fault;
use crate::guarded::hash;
use crate::journal_file::JournalFile;
use crate::lane::{Lane, Slot};
use crate::memory::generations::Generations;
use bytes::{Bytes, BytesMut};
use hedgerow_clock::Clock;
use hedgerow_policy::breaker::Outcome;
use hedgerow_policy::guard::{Guard, Permit, ReadDecision, Role, WriteDecision};
use hedgerow_policy::journal::{Batch, Command, Item, Journal, Mark, Noted, ReadOrder};
use hedgerow_policy::observe::{CacheEvent, Event};
use hedgerow_policy::repair::GateChange;
use hedgerow_policy::{Moment, Observer};
use hedgerow_wire::resp::{Frame, Kind, reply};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};

/// The policies and their bookkeeping, shared by everything that calls the store.
pub(crate) struct Keeper {
    pub(crate) guard: Arc<Guard>,
    pub(crate) clock: Clock,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) counts: Counts,
    journal: Mutex<Ledger>,
    /// Whether the journal holds anything: asked before every read, so it is no lock.
    owing: AtomicBool,
    /// The guard's next wake may have moved.
    pub(crate) stir: Arc<Notify>,
    /// When this process last invalidated a key, for leases the store was not asked for.
    pub(crate) purged: Generations,
}

struct Ledger {
    journal: Journal,
    file: Option<JournalFile>,
    /// What was sent of the journal and is not settled; no more than the journal hands out.
    replays: Vec<Replay>,
}

/// A part of the journal on its way to the store.
struct Replay {
    slot: Arc<Slot>,
    batch: Batch,
}

/// Waits until what was journalled is on the disk. Nothing to wait for without a file.
#[derive(Debug)]
#[must_use]
pub(crate) struct OnDisk(Option<(watch::Receiver<u64>, u64)>);

impl OnDisk {
    pub(crate) const NOW: OnDisk = OnDisk(None);

    pub(crate) async fn wait(self) {
        if let Some((mut reached, number)) = self.0 {
            let _ = reached.wait_for(|&on_disk| on_disk >= number).await;
        }
    }

    /// Whether there is something to wait for.
    pub(crate) fn pending(&self) -> bool {
        self.0.as_ref().is_some_and(|(reached, number)| *reached.borrow() < *number)
    }
}

/// The right to send one read, and what its answer has to be checked against.
#[derive(Debug)]
pub(crate) struct ReadTicket {
    pub(crate) permit: Permit,
    behind: Behind,
}

/// While something is owed: losses so far, and the connection a read went out on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behind(Option<(u64, u64)>);

impl Behind {
    /// Nothing is owed.
    pub(crate) const NOTHING: Behind = Behind(None);
}

impl ReadTicket {
    pub(crate) fn behind(&self) -> Behind {
        self.behind
    }
}

impl Keeper {
    pub(crate) fn new(
        guard: Arc<Guard>,
        clock: Clock,
        observer: Arc<dyn Observer>,
        stir: Arc<Notify>,
        journal: Journal,
        file: Option<JournalFile>,
    ) -> Keeper {
        let owing = AtomicBool::new(!journal.is_empty());
        Keeper {
            guard,
            clock,
            observer,
            counts: Counts::default(),
            journal: Mutex::new(Ledger { journal, file, replays: Vec::new() }),
            owing,
            stir,
            purged: Generations::default(),
        }
    }

    /// May a read of this database go out on this lane now? What it has to go behind is sent.
    pub(crate) fn read(
        self: &Arc<Self>,
        now: Moment,
        lane: &Lane,
        database: u32,
    ) -> Option<ReadTicket> {
        let permit = match self.guard.read(now) {
            ReadDecision::Call(permit) => permit,
            ReadDecision::Shed => {
                self.stirred();
                return None;
            }
        };
        if !self.owing.load(Ordering::Acquire) {
            return Some(ReadTicket { permit, behind: Behind::NOTHING });
        }
        self.read_behind(lane, database, permit)
    }

    #[cold]
    fn read_behind(
        self: &Arc<Self>,
        lane: &Lane,
        database: u32,
        permit: Permit,
    ) -> Option<ReadTicket> {
        let connection = lane.connection();
        let mut ledger = self.ledger();
        let losses = ledger.journal.losses();
        let order = ledger.journal.on_read(database, connection);
        // Sent under the lock: what the journal hands out goes out in that order.
        let clear = match order {
            ReadOrder::Clear => true,
            ReadOrder::Behind(batch) => self.replay(lane, batch, &mut ledger),
            ReadOrder::Shed => {
                if let Some(batch) = ledger.journal.next_batch(database, connection) {
                    self.replay(lane, batch, &mut ledger);
                }
                false
            }
        };
        drop(ledger);
        if clear {
            return Some(ReadTicket { permit, behind: Behind(Some((losses, connection))) });
        }
        self.settle(permit, Outcome::Shed);
        None
    }

    /// Whether the answer of a read that was sent counts.
    pub(crate) fn still_counts(&self, lane: &Lane, behind: Behind) -> bool {
        behind.0.is_none_or(|(losses, connection)| {
            // What the read went behind was answered before it, maybe with an error; whoever waits
            // for that answer may not have run yet.
            self.settle_replays();
            lane.connection() == connection && self.ledger().journal.losses() == losses
        })
    }

    /// Sends a replay; false if it could not be. Whoever asked need not wait: the lane keeps order.
    fn replay(self: &Arc<Self>, lane: &Lane, batch: Batch, ledger: &mut Ledger) -> bool {
        let mut out = BytesMut::new();
        let replies = write_batch(&batch, &mut out);
        let slot = Slot::next(None, replies);
        if lane.submit(out.freeze(), replies, &slot).is_err() {
            ledger.journal.on_lost(batch);
            return false;
        }
        ledger.replays.push(Replay { slot: slot.clone(), batch });
        let keeper = self.clone();
        tokio::spawn(async move {
            slot.settled().await;
            keeper.settle_replays();
        });
        true
    }

    /// Settles the replays whose answers have come.
    fn settle_replays(&self) {
        let _ = self.with_ledger(|journal, replays| {
            for Replay { slot, batch } in replays.extract_if(.., |replay| replay.slot.is_settled())
            {
                let mut frames = Vec::new();
                let fault = slot.take(&mut frames);
                settle(journal, batch, fault.is_none() && carried_out(&frames));
            }
        });
    }

    /// May a write go out now?
    pub(crate) fn write(&self, now: Moment) -> Option<Permit> {
        match self.guard.write(now) {
            WriteDecision::Call(permit) => Some(permit),
            WriteDecision::Skip => {
                self.stirred();
                None
            }
        }
    }

    /// Whether anything is owed at all.
    pub(crate) fn owing(&self) -> bool {
        self.owing.load(Ordering::Acquire)
    }

    /// What has to be sent ahead of a save of these, in the same piece.
    pub(crate) fn ahead_of_save(&self, database: u32, items: &[Item]) -> Option<Batch> {
        if !self.owing() {
            return None;
        }
        self.ledger().journal.on_save(database, items)
    }

    /// Whether a leased save of this key has to be refused.
    pub(crate) fn refuses_leased(&self, database: u32, item: &Item) -> bool {
        self.owing() && self.ledger().journal.refuses_leased(database, item)
    }

    /// A batch has been carried out, or not.
    pub(crate) fn settle_batch(&self, batch: Batch, delivered: bool) {
        // What leaves the journal need not be on the disk before anything else happens.
        let _ = self.with_journal(|journal| settle(journal, batch, delivered));
    }

    /// A client of the port invalidates keys: what Rust callers began to compute before is void.
    pub(crate) fn void_leases(&self, row: &Row, args: &Args<'_>) {
        match row.name {
            "FLUSHDB" | "FLUSHALL" => self.purged.step_all(),
            _ if row.class == Class::Invalidation => {
                row.keys_of(args).for_each(|key| self.purged.step(hash(key)));
            }
            _ => {}
        }
    }

    /// The journal's present point, for an invalidation that is about to be sent.
    pub(crate) fn mark(&self) -> Option<Mark> {
        self.owing().then(|| self.ledger().journal.mark())
    }

    /// An invalidation was carried out.
    pub(crate) fn invalidated(&self, database: u32, items: &[Item], mark: Option<Mark>) {
        let Some(mark) = mark else { return };
        let _ = self.with_journal(|journal| {
            items.iter().for_each(|item| journal.on_invalidated(database, item, mark));
        });
    }

    /// A flush was carried out; `None` for all databases.
    pub(crate) fn flushed(&self, database: Option<u32>, mark: Option<Mark>) {
        if let Some(mark) = mark {
            let _ = self.with_journal(|journal| journal.on_flushed(database, mark));
        }
    }

    /// An invalidation was not carried out, or nobody knows.
    pub(crate) fn undelivered(&self, database: u32, items: &[Item]) -> (Noted, OnDisk) {
        let mut noted = Noted::Kept;
        let on_disk = self.with_journal(|journal| {
            for item in items {
                if journal.on_undelivered(database, item) == Noted::Overflowed {
                    noted = Noted::Overflowed;
                }
            }
        });
        if noted == Noted::Overflowed {
            self.observer.on(&Event::Cache(CacheEvent::JournalOverflowed { database }));
        }
        (noted, on_disk)
    }

    /// A flush was not carried out; `None` for all databases.
    pub(crate) fn undelivered_flush(&self, database: Option<u32>) -> OnDisk {
        self.with_journal(|journal| match database {
            Some(database) => journal.on_undelivered_flush(database),
            None => journal.on_undelivered_flush_all(),
        })
    }

    /// Somebody removed all that an overflowed database may have lost track of.
    pub(crate) fn resumed(&self, database: u32, mark: Mark) -> OnDisk {
        self.with_journal(|journal| journal.on_resumed(database, mark))
    }

    /// The present point, whether anything is owed or not.
    pub(crate) fn mark_now(&self) -> Mark {
        self.ledger().journal.mark()
    }

    pub(crate) fn journal_snapshot(&self) -> hedgerow_policy::journal::JournalSnapshot {
        self.ledger().journal.snapshot()
    }

    fn with_journal(&self, change: impl FnOnce(&mut Journal)) -> OnDisk {
        self.with_ledger(|journal, _| change(journal))
    }

    fn with_ledger(&self, change: impl FnOnce(&mut Journal, &mut Vec<Replay>)) -> OnDisk {
        let mut ledger = self.ledger();
        let Ledger { journal, file, replays } = &mut *ledger;
        change(journal, replays);
        self.owing.store(!journal.is_empty(), Ordering::Release);
        match file {
            None => OnDisk::NOW,
            Some(file) => {
                let number = file.take(journal);
                OnDisk(Some((file.reached(), number)))
            }
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call has ended.
    pub(crate) fn settle(&self, permit: Permit, outcome: Outcome) {
        self.settle_at(self.clock.now(), permit, outcome);
    }

    /// A call has ended, at a moment that is known already.
    pub(crate) fn settle_at(&self, now: Moment, permit: Permit, outcome: Outcome) {
        if permit.role() == Role::Repair {
            self.counts.repair(outcome);
        }
        let change = self.guard.settle(now, permit, outcome);
        if change != GateChange::None {
            self.observer.on(&Event::Cache(CacheEvent::Repair { change }));
            self.stir.notify_one();
        }
        self.stirred();
    }

    /// Wakes the warden if the guard's next wake may have moved.
    pub(crate) fn stirred(&self) {
        if self.guard.moved() {
            self.stir.notify_one();
        }
    }
}

fn settle(journal: &mut Journal, batch: Batch, delivered: bool) {
    if delivered {
        journal.on_delivered(batch);
    } else {
        journal.on_lost(batch);
    }
}

/// Appends a batch's commands; returns how many.
pub(crate) fn write_batch(batch: &Batch, out: &mut BytesMut) -> u32 {
    for command in &batch.commands {
        match command {
            Command::Remove(Item { key, field: None }) => reply::command(out, &[b"UNLINK", key]),
            Command::Remove(Item { key, field: Some(field) }) => {
                reply::command(out, &[b"HDEL", key, field]);
            }
            Command::Flush => reply::command(out, &[b"FLUSHDB"]),
            Command::FlushAll => reply::command(out, &[b"FLUSHALL"]),
        }
    }
    u32::try_from(batch.commands.len()).unwrap_or(u32::MAX)
}

/// Whether these replies say that every removal was carried out.
pub(crate) fn carried_out(frames: &[Frame]) -> bool {
    // A key that is no hash has no such field.
    frames.iter().all(|f| f.kind != Kind::Error || f.bytes.starts_with(b"-WRONGTYPE"))
}

/// What a reply says of the store. `write`: a null is then a refusal, not a miss.
pub(crate) fn outcome(kind: Kind, bytes: &Bytes, write: bool) -> Outcome {
    match kind {
        Kind::Null if write => Outcome::Refused,
        Kind::Null => Outcome::Miss,
        Kind::Error => error_outcome(bytes),
        _ => Outcome::Ok,
    }
}

fn error_outcome(bytes: &Bytes) -> Outcome {
    const CANNOT: [&[u8]; 5] =
        [b"-LOADING", b"-MASTERDOWN", b"-CLUSTERDOWN", b"-BUSY ", b"-TRYAGAIN"];
    const NO_WRITES: [&[u8]; 4] = [b"-OOM", b"-READONLY", b"-MISCONF", b"-NOREPLICAS"];
    if CANNOT.iter().any(|code| bytes.starts_with(code)) {
        Outcome::ServerError
    } else if NO_WRITES.iter().any(|code| bytes.starts_with(code)) {
        Outcome::WriteDenied
    } else {
        Outcome::Ok
    }
}

/// What a fault says of the store.
pub(crate) fn fault_outcome(fault: &Fault) -> Outcome {
    match fault {
        Fault::Timeout => Outcome::Timeout,
        Fault::Lost(_) | Fault::Unconnected(_) => Outcome::Connection,
        // We are full because the store does not answer.
        Fault::Busy => Outcome::Timeout,
        Fault::Answered(_) | Fault::Protocol(_) => Outcome::ServerError,
    }
}
