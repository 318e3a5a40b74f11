//! An HTTP/1 connection without a task of its own: whoever uses it drives it.
//!
//! Invariant: while a call waits, what happens on the wire wakes that call and nobody else; what
//! the library's own parts say to each other during a poll wakes nobody, it is seen before the
//! poll ends. At rest nothing is polled until something happens, and then the pool is told.
//!
//! A task for the connection would cost each call some four more turns of the scheduler, and each
//! open stream the room of a task.

use crate::body::Reader;
use crate::coalescing::Coalescing;
use crate::dial::Io;
use crate::turn::EndOfTurn;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

/// Rounds of one poll. The library needs two; more are left to the next turn, since the runtime
/// makes a task that has done much in one turn wait by waking it at once.
const ROUNDS: u32 = 4;

type Connection = http1::Connection<TokioIo<Coalescing<Box<dyn Io>>>, Reader>;
type Sender = http1::SendRequest<Reader>;

/// A response that is waited for.
pub(crate) type Sent = Pin<Box<dyn Future<Output = Result<Response<Incoming>, Refused>> + Send>>;
pub(crate) type Refused = TrySendError<Request<Reader>>;

/// See the module's head.
pub(crate) struct Driven {
    sender: Sender,
    /// `None` once it has ended.
    connection: Option<Box<Connection>>,
    bell: Arc<Bell>,
    /// The bell, as the library knows it.
    waker: Waker,
    /// A request was given to the connection that it has not seen.
    given: bool,
    turn: EndOfTurn,
}

/// Who is to be woken.
#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    /// Somebody is polling and will see that it rang.
    attended: AtomicBool,
    to: Mutex<Wakers>,
}

#[derive(Default)]
struct Wakers {
    /// The call's, or the pool's.
    own: Option<Waker>,
    /// That of the task that sends on beside the call.
    beside: Option<Waker>,
}

impl Bell {
    fn to(&self, waker: &Waker) {
        match &mut self.wakers().own {
            Some(known) => known.clone_from(waker),
            own => *own = Some(waker.clone()),
        }
    }

    /// Somebody polls from here on, and sees what rings.
    fn attend(&self) {
        self.attended.store(true, SeqCst);
    }

    /// Nobody sees any more what rings.
    fn leave(&self) {
        self.attended.store(false, SeqCst);
    }

    fn silence(&self) {
        self.rung.store(false, SeqCst);
    }

    fn has_rung(&self) -> bool {
        self.rung.load(SeqCst)
    }

    /// The same as [`Bell::leave`], by one who waits: what has rung since the last look is passed on.
    fn leave_waiting(&self) {
        self.leave();
        if self.has_rung() {
            self.pass_on();
        }
    }

    fn pass_on(&self) {
        let Wakers { own, beside } = &*self.wakers();
        own.iter().chain(beside).for_each(Waker::wake_by_ref);
    }

    fn wakers(&self) -> MutexGuard<'_, Wakers> {
        self.to.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.wake_by_ref();
    }

    // Rung is written before attended is read here, and the other way round in `leave_waiting`: one of
    // the two sees the other.
    fn wake_by_ref(self: &Arc<Bell>) {
        self.rung.store(true, SeqCst);
        if !self.attended.load(SeqCst) {
            self.pass_on();
        }
    }
}

impl Driven {
    /// Takes the client's side of a new connection.
    pub(crate) async fn handshake(stream: Box<dyn Io>, max_head: usize) -> io::Result<Driven> {
        let mut builder = http1::Builder::new();
        builder.max_header_size(max_head);
        let begun = builder.handshake(TokioIo::new(Coalescing(stream))).await;
        let (sender, connection) = begun.map_err(io::Error::other)?;
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        let (given, turn) = (false, EndOfTurn::default());
        Ok(Driven { sender, connection: Some(Box::new(connection)), bell, waker, given, turn })
    }

    /// Sends a request, at the end of the turn in which it is first polled for. That it is there the
    /// connection sees then: nobody is woken.
    pub(crate) fn send(&mut self, request: Request<Reader>) -> Sent {
        self.bell.attend();
        let sent = Box::pin(self.sender.try_send_request(request));
        self.bell.leave();
        self.given = true;
        sent
    }

    /// Drives the connection and asks `wanted`, until it is ready or nothing moves any more.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &Context<'_>,
        mut wanted: impl FnMut(&mut Sender, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if self.given {
            ready!(self.turn.poll(cx));
            self.given = false;
        }
        self.bell.to(cx.waker());
        self.bell.attend();
        for _ in 0..ROUNDS {
            self.bell.silence();
            self.turn();
            let found = wanted(&mut self.sender, &mut Context::from_waker(&self.waker));
            // What rang meanwhile is seen in the next poll: each begins with a turn.
            if found.is_ready() {
                self.bell.leave();
                return found;
            }
            if !self.bell.has_rung() {
                break;
            }
        }
        self.bell.leave_waiting();
        Poll::Pending
    }

    /// Drives it for somebody who waits for nothing on it, beside the call that uses it.
    pub(crate) fn poll_beside(&mut self, cx: &Context<'_>) {
        self.bell.wakers().beside = Some(cx.waker().clone());
        self.bell.attend();
        self.bell.silence();
        self.turn();
        // That may be for the call: it is told, and so is who is here.
        self.bell.leave_waiting();
    }

    /// The call may not come again soon: what rang in its last poll is told to who is beside it.
    pub(crate) fn tell_beside(&self) {
        if self.bell.has_rung()
            && let Some(beside) = &self.bell.wakers().beside
        {
            beside.wake_by_ref();
        }
    }

    /// Nobody is beside the call any more.
    pub(crate) fn alone(&self) {
        self.bell.wakers().beside = None;
    }

    /// Whether it can take another request now. What has happened on it is dealt with first.
    pub(crate) fn is_ready(&mut self) -> bool {
        self.attend();
        !self.is_over() && self.sender.is_ready()
    }

    /// It has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.connection.is_none()
    }

    /// It rests: what happens on it from now on is told to the pool.
    pub(crate) fn rest(&self, pool: &Waker) {
        self.bell.to(pool);
        if self.has_news() {
            self.bell.pass_on();
        }
    }

    /// Whether something has happened on it since it was last looked at. At rest that is its end,
    /// as good as always: nobody has asked the server for anything.
    pub(crate) fn has_news(&self) -> bool {
        self.bell.has_rung()
    }

    /// One turn; what rings meanwhile is left to be seen.
    fn attend(&mut self) {
        self.bell.attend();
        self.bell.silence();
        self.turn();
        self.bell.leave();
    }

    fn turn(&mut self) {
        if let Some(connection) = &mut self.connection {
            let mut cx = Context::from_waker(&self.waker);
            // How it ended is told to the request on it.
            if Pin::new(connection.as_mut()).poll(&mut cx).is_ready() {
                self.connection = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Counted>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn what_rings_is_seen_or_passed_on() {
        for round in 0..3_000 {
            let (bell, task) = (Arc::new(Bell::default()), Arc::new(Counted::default()));
            bell.to(&Waker::from(task.clone()));
            bell.attend();
            bell.silence();
            let ringing = std::thread::spawn({
                let bell = bell.clone();
                move || bell.wake_by_ref()
            });
            // The two meet at every distance from each other.
            for _ in 0..round % 100 {
                std::hint::spin_loop();
            }
            bell.leave_waiting();
            ringing.join().unwrap();
            assert!(task.0.load(SeqCst) >= 1, "in round {round}");
        }
    }

    #[test]
    fn what_rings_while_somebody_looks_wakes_nobody() {
        let (bell, task) = (Arc::new(Bell::default()), Arc::new(Counted::default()));
        bell.to(&Waker::from(task.clone()));
        bell.attend();
        bell.wake_by_ref();
        bell.silence();
        bell.leave_waiting();
        assert_eq!(task.0.load(SeqCst), 0);
        bell.wake_by_ref();
        assert!(bell.has_rung());
        assert_eq!(task.0.load(SeqCst), 1);
    }
}
