//! The driver of `hedgerow_policy::pool`: it carries out what the policy decides.
//!
//! Invariant: every event and the actions that follow from it are taken under one short lock, never
//! held across an await, so actions are carried out in the order in which they were decided.

mod actions;
mod directory;
mod lease;

pub use lease::Lease;

use crate::guard::Guard;
use crate::settings::{Settings, Source};
use crate::snapshot::{Snapshot, WorkerSnapshot};
use crate::worker::Worker;
use directory::Directory;
use hedgerow_clock::Clock;
use hedgerow_policy::observe::Event;
use hedgerow_policy::pool::{self as policy, Admission, Outcome, Permit, WorkerId};
use hedgerow_policy::queue::Ticket;
use hedgerow_policy::{Deadline, Failure, Moment, Observer};
use lease::Seed;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot, watch};

/// A supervised pool of workers. Clones share it.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

/// Why a pool could not be started or reloaded.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The directory for the sockets cannot be used.
    #[error("the socket directory {path}: {reason}")]
    Directory {
        /// The directory.
        path: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Another reload is under way, or the pool is stopping.
    #[error("another reload is under way")]
    Busy,
    /// A new worker did not boot; the old ones serve on.
    #[error("{0}")]
    Abandoned(String),
}

pub(crate) struct Inner {
    pub(crate) clock: Clock,
    pub(crate) observer: Arc<dyn Observer>,
    guard: Option<Arc<Guard>>,
    state: Mutex<State>,
    /// The policy's next wake may have changed.
    replan: Notify,
    /// Something that [`Pool::start`] or [`Pool::stop`] waits for may have come.
    progress: watch::Sender<()>,
}

struct State {
    policy: policy::Pool,
    workers: HashMap<WorkerId, Arc<Worker>>,
    waiters: HashMap<Ticket, oneshot::Sender<Seed>>,
    loads: BTreeMap<u64, Load>,
    reload: Option<oneshot::Sender<Result<(), PoolError>>>,
    processes: usize,
    /// The last process is reaped and nothing is left to do.
    stopped: bool,
}

/// The settings of one load and where its sockets are.
#[derive(Clone)]
struct Load {
    settings: Arc<Settings>,
    directory: Arc<Directory>,
}

impl Pool {
    /// Starts all workers and returns once the first is ready, or has failed to boot.
    ///
    /// # Errors
    /// When the socket directory cannot be used. A worker that does not boot is not an error here:
    /// requests get a failure that says so, and the start is tried again.
    pub async fn start(
        settings: Settings,
        observer: Arc<dyn Observer>,
        guard: Option<Arc<Guard>>,
        clock: Clock,
    ) -> Result<Pool, PoolError> {
        let load = Load::new(settings, guard.clone())?;
        let seed = u64::from(std::process::id());
        let policy = policy::Pool::new(load.settings.pool.clone(), clock.now(), seed);
        let state = State {
            policy,
            workers: HashMap::new(),
            waiters: HashMap::new(),
            loads: BTreeMap::from([(0, load)]),
            reload: None,
            processes: 0,
            stopped: false,
        };
        let (progress, mut progressed) = watch::channel(());
        let (state, replan) = (Mutex::new(state), Notify::new());
        let inner = Arc::new(Inner { clock, observer, guard, state, replan, progress });
        inner.with(|_, _| ());
        tokio::spawn(wake_when_due(inner.clone()));
        while !inner.state().policy.settled_once() {
            let _ = progressed.changed().await;
        }
        Ok(Pool { inner })
    }

    /// A worker for one request, at once or after a wait in the queue.
    ///
    /// Dropping the future gives up the place. The wait never exceeds `deadline`.
    ///
    /// # Errors
    /// The failure that the policy's refusal stands for.
    pub async fn acquire(&self, deadline: Deadline) -> Result<Lease, Failure> {
        self.acquire_with(deadline, None).await
    }

    /// The same with a `patience` in place of the queue's timeout. Zero: not to wait.
    ///
    /// # Errors
    /// As [`Pool::acquire`].
    pub async fn acquire_with(
        &self,
        deadline: Deadline,
        patience: Option<Duration>,
    ) -> Result<Lease, Failure> {
        self.admitted(|policy, now| policy.on_arrive_with(now, deadline, patience)).await
    }

    /// A worker for a request that had one before and goes on: in front of the queue, and whatever
    /// its capacity, until `deadline`.
    ///
    /// # Errors
    /// As [`Pool::acquire`].
    pub async fn resume(&self, deadline: Deadline) -> Result<Lease, Failure> {
        self.admitted(|policy, now| policy.on_resume(now, deadline)).await
    }

    /// A worker for the next step of a stream that is asked for in steps: in its turn, whatever the
    /// queue's capacity, until `deadline`.
    ///
    /// # Errors
    /// As [`Pool::acquire`].
    pub async fn step(&self, deadline: Deadline) -> Result<Lease, Failure> {
        self.admitted(|policy, now| policy.on_step(now, deadline)).await
    }

    async fn admitted(
        &self,
        admit: impl FnOnce(&mut policy::Pool, Moment) -> Admission,
    ) -> Result<Lease, Failure> {
        let inner = &self.inner;
        let (waiting, granted) = {
            let mut state = inner.state();
            match admit(&mut state.policy, inner.clock.now()) {
                Admission::Granted(permit) => return Ok(self.lease(&mut state, permit)),
                Admission::Refused(refusal) => {
                    drop(state);
                    if refusal.kind == policy::RefusalKind::QueueFull {
                        inner.observer.on(&Event::QueueRejected);
                    }
                    return Err(refusal.into());
                }
                Admission::Queued(waiting) => {
                    let (grant, granted) = oneshot::channel();
                    state.waiters.insert(waiting.ticket, grant);
                    (waiting, granted)
                }
            }
        };
        inner.observer.on(&Event::QueueWait);
        let mut place = Place { inner, ticket: Some(waiting.ticket), granted };
        let seed = inner.clock.until(waiting.until, &mut place.granted).await;
        let Some(ticket) = place.ticket.take() else { return Err(lost()) };
        match seed {
            Some(Ok(seed)) => {
                inner.observer.on(&Event::QueueGranted { waited: seed.waited });
                Ok(Lease::new(inner.clone(), seed))
            }
            Some(Err(_)) => Err(lost()),
            None => inner.expire(ticket, &mut place.granted),
        }
    }

    /// Everything there is to show. Reads /proc for each worker: for admin pages, not for requests.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let now = self.inner.clock.now();
        let (shown, workers) = {
            let state = self.inner.state();
            (state.policy.snapshot(), state.workers.clone())
        };
        let slots = shown.slots.iter().map(|slot| {
            let worker = slot.worker.and_then(|id| workers.get(&id));
            let pid = worker.and_then(|w| w.pid());
            WorkerSnapshot {
                id: slot.slot,
                socket: worker.map(|w| w.socket.clone()).unwrap_or_default(),
                phase: slot.phase,
                phase_for: now - slot.since,
                pid,
                rss: pid.and_then(crate::rss::resident_bytes),
                draining: slot.replacing,
                in_flight: u32::from(slot.phase == policy::SlotPhase::Busy),
                served: slot.served,
                restarts: slot.restarts,
                next_start_in: slot.next_start.map(|at| at - now),
                capabilities: worker
                    .map(|w| w.capabilities().names().collect())
                    .unwrap_or_default(),
            }
        });
        Snapshot {
            size: shown.slots.len(),
            queue_depth: shown.queue_depth,
            queue_capacity: if shown.config.queue.enabled() {
                shown.config.queue.capacity
            } else {
                0
            },
            queue_timeout: shown.config.queue.timeout,
            in_flight: shown.in_flight,
            retiring: shown.retiring,
            ready: shown.ready,
            supervised: shown.config.supervised,
            max_requests: shown.config.max_requests,
            workers: slots.collect(),
        }
    }

    /// Whether a request could be served now.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.inner.state().policy.ready()
    }

    /// Replaces one worker, its successor first. False if there is no such slot.
    #[must_use]
    pub fn restart(&self, slot: u32) -> bool {
        self.inner.with(|policy, now| policy.on_restart(now, slot))
    }

    /// Replaces every worker.
    pub fn restart_all(&self) {
        self.inner.with(policy::Pool::on_restart_all);
    }

    /// Boots a whole new set of workers beside the old one and changes over when all are ready.
    ///
    /// # Errors
    /// [`PoolError::Abandoned`] when one did not boot: the old ones serve on.
    pub async fn reload(&self, settings: Settings) -> Result<(), PoolError> {
        let load = Load::new(settings, self.inner.guard.clone())?;
        let config = load.settings.pool.clone();
        let (done, ended) = oneshot::channel();
        {
            let mut state = self.inner.state();
            let now = self.inner.clock.now();
            let number = state.policy.on_reload(now, config).ok_or(PoolError::Busy)?;
            state.loads.insert(number, load);
            state.reload = Some(done);
            self.inner.carry_out(&mut state);
        }
        ended.await.unwrap_or(Err(PoolError::Busy))
    }

    /// Ends all workers: idle ones now, busy ones after their request. Past `until` everything
    /// that is left is killed. Returns when every process is reaped.
    pub async fn stop(&self, until: Moment) {
        let inner = &self.inner;
        let mut progressed = inner.progress.subscribe();
        inner.with(policy::Pool::on_stop);
        let gone = async {
            while inner.state().processes > 0 {
                let _ = progressed.changed().await;
            }
        };
        if inner.clock.until(until, gone).await.is_none() {
            let left: Vec<Arc<Worker>> = inner.state().workers.values().cloned().collect();
            for worker in left {
                worker.end(crate::worker::End::Kill(hedgerow_policy::observe::EndReason::Shutdown));
            }
            let mut progressed = inner.progress.subscribe();
            while inner.state().processes > 0 {
                let _ = progressed.changed().await;
            }
        }
        {
            let mut state = inner.state();
            state.stopped = true;
            state.loads.clear();
        }
        inner.replan.notify_one();
    }

    fn lease(&self, state: &mut State, permit: Permit) -> Lease {
        let seed = state.seed(permit, Duration::ZERO);
        Lease::new(self.inner.clone(), seed)
    }
}

fn lost() -> Failure {
    use hedgerow_policy::Class;
    use hedgerow_policy::failure::At;
    Failure::new(Class::Draining, At::Gateway, "the pool went away")
}

/// A place in the queue; dropped with its ticket, the place is given up.
struct Place<'a> {
    inner: &'a Arc<Inner>,
    ticket: Option<Ticket>,
    granted: oneshot::Receiver<Seed>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            {
                let mut state = self.inner.state();
                state.waiters.remove(&ticket);
                state.policy.on_leave(ticket);
            }
            // A grant that crossed with the leaving is in the channel: a lease that nobody uses.
            if let Ok(seed) = self.granted.try_recv() {
                drop(Lease::new(self.inner.clone(), seed));
            }
        }
    }
}

impl Inner {
    /// One event, and everything that follows from it.
    pub(crate) fn with<T>(
        self: &Arc<Self>,
        event: impl FnOnce(&mut policy::Pool, Moment) -> T,
    ) -> T {
        let mut state = self.state();
        let result = event(&mut state.policy, self.clock.now());
        self.carry_out(&mut state);
        result
    }

    /// Takes back a place in the queue. A grant that crossed with it is used after all.
    fn expire(
        self: &Arc<Self>,
        ticket: Ticket,
        granted: &mut oneshot::Receiver<Seed>,
    ) -> Result<Lease, Failure> {
        let refusal = {
            let mut state = self.state();
            state.waiters.remove(&ticket);
            state.policy.on_expired(self.clock.now(), ticket)
        };
        if let Ok(seed) = granted.try_recv() {
            return Ok(Lease::new(self.clone(), seed));
        }
        self.observer.on(&Event::QueueTimeout);
        Err(refusal.into())
    }

    pub(crate) fn settle(self: &Arc<Self>, permit: Permit, outcome: Outcome) {
        self.with(|policy, now| policy.settle(now, permit, outcome));
    }

    fn second_try(self: &Arc<Self>) -> Option<Seed> {
        let mut state = self.state();
        let permit = state.policy.on_second_try(self.clock.now())?;
        Some(state.seed(permit, Duration::ZERO))
    }

    pub(crate) fn watch_group(&self, pid: u32) {
        if let Some(guard) = &self.guard {
            guard.watch(pid);
        }
    }

    pub(crate) fn forget_group(&self, pid: u32) {
        if let Some(guard) = &self.guard {
            guard.forget(pid);
        }
    }

    /// Something happened to a worker that somebody may wait for, though it asked for no action.
    pub(crate) fn progressed(&self) {
        self.progress.send_replace(());
    }

    /// A process that was counted is reaped, or was never started.
    pub(crate) fn worker_gone(&self, id: WorkerId) {
        let mut state = self.state();
        state.processes -= 1;
        state.workers.remove(&id);
        drop(state);
        self.progressed();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a defect that tests show; serving on beats ending every request.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn seed(&mut self, permit: Permit, waited: Duration) -> Seed {
        let worker = self.workers.get(&permit.worker).cloned();
        Seed { permit, worker, waited }
    }
}

impl Load {
    fn new(settings: Settings, guard: Option<Arc<Guard>>) -> Result<Load, PoolError> {
        let directory = match &settings.source {
            Source::Supervised(launch) => Directory::open(launch.socket_dir.as_deref(), guard)?,
            Source::Sockets(_) => Directory::none(),
        };
        Ok(Load { settings: Arc::new(settings), directory: Arc::new(directory) })
    }
}

async fn wake_when_due(pool: Arc<Inner>) {
    loop {
        let wake = {
            let state = pool.state();
            if state.stopped {
                return;
            }
            state.policy.next_wake().unwrap_or(Moment::NEVER)
        };
        if pool.clock.until(wake, pool.replan.notified()).await.is_none() {
            pool.with(policy::Pool::on_wake);
        }
    }
}
