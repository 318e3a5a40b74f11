//! One client: reads commands, writes replies, in order.
//!
//! Invariants:
//! - `pending` is the replies that are not written yet, oldest first; only its front is waited for;
//! - nothing is taken while a thousand commands are unanswered, while more replies than may wait are
//!   behind one that has not come, or while a command cannot go on; nothing is read that is not taken;
//! - what was read and belongs to no whole command is in `input`, and nowhere else.

use super::Shared;
use super::dispatch::Run;
use super::embedded::Transaction;
use super::finish::{Batch, Item};
use super::held::Held;
use crate::lane::Slot;
use crate::share::Share;
use bytes::{Buf, Bytes, BytesMut};
use hedgerow_policy::Moment;
use hedgerow_wire::resp::{Frame, Parser, Protocol, reply};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Sleep;

/// Commands of one client that may be unanswered before no more are read.
pub(super) const MOST_IN_FLIGHT: usize = 1024;
/// The first read of a client; more is made room for when that was filled.
const SMALL: usize = 1 << 10;
const LARGE: usize = 64 << 10;
/// Replies made here that are not written yet, before more are made: who asks for much and reads as
/// it comes is not taken for one who does not read.
const PORTION: usize = 1 << 20;
/// How long a client may take to close behind its last reply.
const LINGER: Duration = Duration::from_secs(2);

/// A reply, or several, that come later.
pub(super) enum Pending {
    /// From a lane.
    Batch(Batch),
    /// Whenever this is done; it holds so many bytes.
    Later(usize, Pin<Box<dyn Future<Output = Bytes> + Send>>),
    /// Written already, but not its turn.
    Ready(Bytes),
}

/// Which place among the pending a reply has.
#[derive(Clone, Copy)]
pub(super) enum At {
    Front,
    Back,
}

/// What a client has said of itself.
#[derive(Debug, Default)]
pub(super) struct About {
    pub(super) name: Bytes,
    pub(super) library: Bytes,
    pub(super) library_version: Bytes,
}

pub(super) struct Client {
    pub(super) shared: Arc<Shared>,
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) id: i64,
    pub(super) since: Moment,
    pub(super) about: About,
    pub(super) protocol: Protocol,
    pub(super) database: u32,
    pub(super) known: bool,
    pub(super) input: BytesMut,
    pub(super) parser: Parser,
    pub(super) out: BytesMut,
    pub(super) pending: VecDeque<Pending>,
    /// Commands in batches that are pending.
    pub(super) in_flight: usize,
    /// What all of this comes to.
    pub(super) held: Held,
    pub(super) share: Arc<Share>,
    /// The lane of the last batch; another one has to wait for it.
    pub(super) last_lane: Option<(u32, Protocol)>,
    /// Something was read that was not looked at yet.
    pub(super) fresh: bool,
    /// No more is read; what is pending is still answered.
    pub(super) closing: bool,
    /// The next command needs a connection of its own.
    pub(super) wants_pin: bool,
    /// A transaction that is not at the store: shed, or of the embedded store.
    pub(super) transaction: Option<Transaction>,
    pub(super) spare_slot: Option<Arc<Slot>>,
    pub(super) frames: Vec<Frame>,
    pub(super) spare_items: Vec<Item>,
    /// Commands at the front of the input that go to a lane together.
    pub(super) run: Run,
    room: usize,
    timer: Option<Pin<Box<Sleep>>>,
    stopped: watch::Receiver<bool>,
}

/// Why a client's loop came to a rest.
enum Rest {
    /// It is over.
    Over,
    /// The command at the front of the input needs a connection of its own.
    Pin,
}

impl Client {
    pub(super) fn new(
        shared: Arc<Shared>,
        stream: TcpStream,
        peer: SocketAddr,
        stopped: watch::Receiver<bool>,
    ) -> Client {
        let id = shared.next_id.fetch_add(1, Relaxed);
        let known = shared.settings.password.is_empty();
        let share = Arc::new(Share::of(&shared.room));
        let remote = shared.guarded.remote();
        let database = remote.map_or(0, |remote| remote.lanes.store.settings.database);
        Client {
            since: shared.clock.now(),
            shared,
            stream,
            peer,
            id,
            about: About::default(),
            protocol: Protocol::Resp2,
            database,
            known,
            input: BytesMut::new(),
            parser: Parser::new(),
            out: BytesMut::new(),
            pending: VecDeque::new(),
            in_flight: 0,
            held: Held::default(),
            share,
            last_lane: None,
            fresh: false,
            closing: false,
            wants_pin: false,
            transaction: None,
            spare_slot: None,
            frames: Vec::new(),
            spare_items: Vec::new(),
            run: Run::default(),
            room: SMALL,
            timer: None,
            stopped,
        }
    }

    /// Serves the client until it leaves, is closed, or the port stops.
    pub(super) async fn run(mut self) {
        loop {
            let mut stopped = self.stopped.clone();
            let rest = {
                let stop = stopped.wait_for(|stop| *stop);
                let mut stop = pin!(stop);
                let mut told = false;
                poll_fn(|context| {
                    if !told && stop.as_mut().poll(context).is_ready() {
                        // What was sent is still answered.
                        told = true;
                        self.closing = true;
                    }
                    self.poll(context)
                })
                .await
            };
            match rest {
                // On the heap: idle clients are many, and this is for the last moment of one.
                Rest::Over => return Box::pin(self.linger()).await,
                Rest::Pin => {
                    self.wants_pin = false;
                    if super::pinned::serve(&mut self).await.is_err() {
                        return;
                    }
                    self.fresh = true;
                }
            }
        }
    }

    /// Reads what the client still sends, and lets it go, until it has closed too or a moment has
    /// passed: a connection that is closed with something unread is reset, and the last reply may be
    /// lost with it (RFC 1122, 4.2.2.13). Not where the port stops, or where replies are left over.
    async fn linger(mut self) {
        if *self.stopped.borrow() || !self.out.is_empty() {
            return;
        }
        let clock = self.shared.clock;
        let until = clock.now() + LINGER;
        let mut left = BytesMut::new();
        let closed = async {
            let _ = self.stream.shutdown().await;
            // Who sends more than a farewell leaves behind is not waited for.
            let mut more = LARGE;
            while more > 0
                && let Ok(count @ 1..) = self.stream.read_buf(&mut left).await
            {
                more = more.saturating_sub(count);
                left.clear();
            }
        };
        clock.until(until, closed).await;
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Rest> {
        loop {
            let mut moved = self.poll_pending(context);
            if self.fresh && !self.closing && !self.wants_pin {
                moved |= self.take_commands();
            }
            if self.wants_pin && self.pending.is_empty() && self.out.is_empty() {
                return Poll::Ready(Rest::Pin);
            }
            match self.poll_write(context) {
                Poll::Ready(Ok(true)) => moved = true,
                Poll::Ready(Ok(false)) | Poll::Pending => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Rest::Over),
            }
            self.tell();
            if self.has_overflowed() || self.poll_overstay(context).is_ready() {
                return Poll::Ready(Rest::Over);
            }
            if self.closing && self.pending.is_empty() && self.out.is_empty() {
                return Poll::Ready(Rest::Over);
            }
            if !moved && self.may_read() {
                match self.poll_read(context) {
                    Poll::Ready(Ok(0)) => self.closing = true,
                    Poll::Ready(Ok(_)) => {
                        self.fresh = true;
                        self.took_in();
                    }
                    Poll::Ready(Err(_)) => return Poll::Ready(Rest::Over),
                    Poll::Pending => {
                        if self.poll_timer(context).is_pending() {
                            self.let_go();
                            self.tell();
                            return Poll::Pending;
                        }
                    }
                }
            } else if !moved && self.poll_timer(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// More commands may be read only when those that were read have been taken.
    fn may_read(&self) -> bool {
        !self.closing && !self.fresh && !self.wants_pin
    }

    /// Whether another command may be looked at, with `gathered` more on their way.
    pub(super) fn may_take(&self, gathered: usize) -> bool {
        self.in_flight + gathered < MOST_IN_FLIGHT
            && self.pending.len() < MOST_IN_FLIGHT
            && self.held.back < self.shared.settings.output_limit
            && (self.shared.guarded.remote().is_some() || self.out.len() < PORTION)
    }

    fn poll_pending(&mut self, context: &mut Context<'_>) -> bool {
        let mut moved = false;
        loop {
            let ready = match self.pending.front_mut() {
                None => return moved,
                Some(Pending::Ready(_)) => true,
                Some(Pending::Batch(batch)) => {
                    batch.slot.poll(context).is_ready()
                        || self.timer.as_ref().is_some_and(|timer| timer.is_elapsed())
                            && self.shared.clock.now() >= batch.deadline
                }
                Some(Pending::Later(held, later)) => match later.as_mut().poll(context) {
                    Poll::Pending => false,
                    Poll::Ready(bytes) => {
                        self.held.back = self.held.back.saturating_sub(*held);
                        self.out.extend_from_slice(&bytes);
                        self.pending.pop_front();
                        moved = true;
                        continue;
                    }
                },
            };
            if !ready {
                return moved;
            }
            moved = true;
            match self.pending.pop_front() {
                Some(Pending::Ready(bytes)) => {
                    self.held.back = self.held.back.saturating_sub(bytes.len());
                    self.out.extend_from_slice(&bytes);
                }
                Some(Pending::Batch(batch)) => self.finish(batch),
                _ => {}
            }
        }
    }

    /// A timer for the oldest batch. Later ones have later deadlines, so it is set anew only when
    /// it has fired, or when a reload has made deadlines shorter.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(Pending::Batch(batch)) = self.pending.front() else { return Poll::Pending };
        let (clock, deadline) = (self.shared.clock, batch.deadline);
        let timer = self.timer.get_or_insert_with(|| Box::pin(clock.timer(deadline)));
        if timer.deadline() > clock.instant(deadline) {
            timer.as_mut().reset(clock.instant(deadline));
        }
        loop {
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            if clock.now() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(clock.instant(deadline));
        }
    }

    /// True if something was written.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<std::io::Result<bool>> {
        if self.out.is_empty() {
            return Poll::Ready(Ok(false));
        }
        match Pin::new(&mut self.stream).poll_write(context, &self.out) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(0)) => Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(count)) => {
                if count == self.out.len() {
                    self.out.clear();
                } else {
                    self.out.advance(count);
                }
                self.held.moved = true;
                Poll::Ready(Ok(true))
            }
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        self.input.reserve(self.room);
        let room = self.input.capacity() - self.input.len();
        let read = pin!(self.stream.read_buf(&mut self.input)).poll(context);
        if let Poll::Ready(Ok(count)) = read
            && count == room
        {
            self.room = (self.room * 4).min(LARGE);
        }
        read
    }

    /// An idle client keeps no buffers.
    fn let_go(&mut self) {
        if !self.pending.is_empty() {
            return;
        }
        if self.input.is_empty() && self.input.capacity() > SMALL {
            (self.input, self.room) = (BytesMut::new(), SMALL);
        }
        if self.input.is_empty() && self.parser.held() > SMALL {
            self.parser = Parser::new();
        }
        if self.out.is_empty() && self.out.capacity() > SMALL {
            self.out = BytesMut::new();
        }
    }

    /// A reply that is not the next one.
    pub(super) fn hold_back(&mut self, bytes: BytesMut) {
        self.held.back += bytes.len();
        self.pending.push_back(Pending::Ready(bytes.freeze()));
    }

    /// Replies that come together once something is done.
    pub(super) fn later(
        &mut self,
        held: usize,
        at: At,
        later: impl Future<Output = Bytes> + Send + 'static,
    ) {
        self.held.back += held;
        let later = Pending::Later(held, Box::pin(later));
        match at {
            At::Front => self.pending.push_front(later),
            At::Back => self.pending.push_back(later),
        }
    }

    /// The client broke the protocol: it is told, and closed.
    pub(super) fn refuse(&mut self, error: &hedgerow_wire::resp::Error) {
        let text = format!("ERR Protocol error: {error}");
        self.answer(|out, _| reply::error(out, &text));
        self.input.clear();
        self.closing = true;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.counts.clients.fetch_sub(1, Relaxed);
        self.let_all_go();
        // What was in flight is settled: an invalidation is not forgotten because its client left.
        while let Some(pending) = self.pending.pop_front() {
            if let Pending::Batch(batch) = pending {
                self.abandon(batch);
            }
        }
    }
}
