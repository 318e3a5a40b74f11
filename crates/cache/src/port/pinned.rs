//! A store connection of one's own: for transactions, subscriptions, and waits.
//!
//! Invariants:
//! - a client has one only as long as it needs it: until EXEC, until the last subscription has gone,
//!   until the wait is over; nobody else is held up by it;
//! - one that is given back is as it was when it was opened;
//! - one that owes a reply when it is given up is ended at the store, where the store allows it, and
//!   what its commands may have written is removed.

mod session;
mod subscriptions;

use super::client::Client;
use super::fallback::{self, Why};
use crate::commands::{self, Args};
use crate::fault::Fault;
use crate::guarded::Remote;
use crate::keeper::fault_outcome;
use crate::lane::stream::Stream;
use crate::lane::{Identity, connect};
use bytes::Buf;
use hedgerow_policy::guard::{Permit, ReadDecision};
use hedgerow_wire::resp::{Limits, Parsed, Protocol};
use session::Session;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, ReadBuf};

/// Connections kept for the next who needs one of the same database and version.
const KEPT: usize = 32;

type Of = (u32, Protocol);

/// Connections that nobody has at the moment.
#[derive(Default)]
pub(super) struct Idle(Mutex<HashMap<Of, Vec<Own>>>);

/// A connection that belongs to one client.
pub(super) struct Own {
    pub(super) stream: Stream,
    pub(super) identity: Identity,
    pub(super) of: Of,
}

impl Idle {
    fn take(&self, of: Of) -> Option<Own> {
        loop {
            let mut own = {
                let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                kept.get_mut(&of)?.pop()?
            };
            if own.is_quiet() {
                return Some(own);
            }
        }
    }

    pub(super) fn keep(&self, own: Own) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_its_kind = kept.entry(own.of).or_default();
        if of_its_kind.len() < KEPT {
            of_its_kind.push(own);
        }
    }
}

impl Own {
    /// Whether the store has neither closed it nor said anything unasked.
    fn is_quiet(&mut self) -> bool {
        let mut one = [0u8; 1];
        let mut context = Context::from_waker(Waker::noop());
        let mut buf = ReadBuf::new(&mut one);
        matches!(Pin::new(&mut self.stream).poll_read(&mut context, &mut buf), Poll::Pending)
    }
}

/// Serves a client whose next command, at the front of its input, needs a connection of its own,
/// until it needs none any more.
///
/// # Errors
/// When the client is gone or to be closed.
pub(super) async fn serve(client: &mut Client) -> Result<(), ()> {
    let Some(remote) = client.shared.guarded.remote().cloned() else { return Ok(()) };
    let of = (client.database, client.protocol);
    let permit = match remote.keeper.guard.read(client.shared.clock.now()) {
        ReadDecision::Call(permit) => permit,
        ReadDecision::Shed => {
            remote.keeper.stirred();
            return refuse(client, Why::Shed);
        }
    };
    let own = match client.shared.pinned.take(of) {
        Some(own) => own,
        None => match open(&remote, of).await {
            Ok(own) => own,
            Err(fault) => {
                remote.keeper.settle(permit, fault_outcome(&fault));
                return refuse(client, Why::Fault(&fault));
            }
        },
    };
    client.shared.counts.pinned.fetch_add(1, Relaxed);
    let result = with(client, &remote, own, permit).await;
    client.shared.counts.pinned.fetch_sub(1, Relaxed);
    result
}

async fn with(
    client: &mut Client,
    remote: &Arc<Remote>,
    own: Own,
    permit: Permit,
) -> Result<(), ()> {
    let mut session = Session::new(own, remote.clone(), permit);
    let end = session.run(client).await;
    session.close(client, end)
}

async fn open(remote: &Remote, of: Of) -> Result<Own, Fault> {
    let store = &remote.lanes.store;
    let greeted = connect(store, of.0, of.1).await?;
    Ok(Own { stream: greeted.stream, identity: greeted.identity, of })
}

/// Takes the command off the input and answers that it cannot be.
fn refuse(client: &mut Client, why: Why<'_>) -> Result<(), ()> {
    let mut parser = std::mem::take(&mut client.parser);
    let parsed = parser.parse(&client.input, Limits::STORE);
    if let Ok(Parsed::Command(length)) = parsed {
        let args = Args::new(&client.input, parser.args());
        if commands::row_of(&args).name == "MULTI" {
            // Its end will say so: a client that pipelines expects a reply to each.
            client.begin_transaction(false);
            client.answer(|out, _| hedgerow_wire::resp::reply::status(out, "OK"));
        } else {
            client.answer(|out, _| fallback::error(out, why));
        }
        client.input.advance(length);
    }
    client.parser = parser;
    Ok(())
}
