//! One client on its own store connection.
//!
//! Invariant: `owed` is the replies that are awaited, in the order in which the client is to see
//! them; some of them are known already. While the client is subscribed, the store also speaks when
//! it likes, and all of it is passed on. Behind a command that is answered once for each name in it
//! none is taken before it is answered: only then is it known whether the client is subscribed.

mod close;

use super::subscriptions::{Change, Said, Subscriptions};
use super::{Client, Own, Remote};
use crate::commands::{self, Args, Class};
use crate::fault::Fault;
use crate::keeper::outcome;
use crate::lane::doubt::Doubts;
use crate::port::client::MOST_IN_FLIGHT;
use crate::port::dispatch::Look;
use bytes::{Buf, Bytes, BytesMut};
use hedgerow_policy::Moment;
use hedgerow_policy::guard::Permit;
use hedgerow_wire::resp::{Kind, Limits, Parsed, Parser, Scanner, reply};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const READ: usize = 16 << 10;
/// Bytes for the store that it has not taken yet, before more commands are taken.
const MOST_UNSENT: usize = 64 << 10;

/// What the store says of a transaction in which it has refused something.
const ABORTED: &[u8] = b"-EXECABORT Transaction discarded because of previous errors.\r\n";

enum Owed {
    /// From the store, by then. If it is a good one, the client is in that database afterwards.
    Store(Moment, Option<u32>),
    /// From the store, by then: that a transaction is discarded, which the client wanted carried out.
    Aborted(Moment),
    /// From the store, by then, once for each name; unknown how often where none was given.
    Counted(Moment, Change, Option<u64>),
    /// Known already.
    Known(Bytes),
}

/// How a session ended.
pub(super) enum End {
    /// The client needs no connection of its own any more.
    Done,
    /// The client left, or is to be closed.
    Gone,
    /// The store did not answer, or closed the connection.
    Failed(Fault),
}

pub(super) struct Session {
    own: Own,
    remote: Arc<Remote>,
    permit: Option<Permit>,
    scanner: Scanner,
    to_store: BytesMut,
    from_store: BytesMut,
    owed: VecDeque<Owed>,
    /// Bytes of those that are known.
    known: usize,
    transaction: bool,
    /// A command inside it was refused here.
    spoilt: bool,
    /// A SELECT inside it, which means nothing before its EXEC.
    selects: Option<u32>,
    watching: bool,
    subscriptions: Subscriptions,
    /// The connection is not as it was opened: it is not given back.
    used_up: bool,
    /// What the commands since the last rest may have written.
    doubts: Doubts,
    /// The client asked to be closed.
    leaving: bool,
}

impl Session {
    pub(super) fn new(own: Own, remote: Arc<Remote>, permit: Permit) -> Session {
        Session {
            own,
            remote,
            permit: Some(permit),
            scanner: Scanner::new(Limits::STORE),
            to_store: BytesMut::new(),
            from_store: BytesMut::new(),
            owed: VecDeque::new(),
            known: 0,
            transaction: false,
            spoilt: false,
            selects: None,
            watching: false,
            subscriptions: Subscriptions::default(),
            used_up: false,
            doubts: Doubts::default(),
            leaving: false,
        }
    }

    /// Nothing of the client is left on the connection.
    fn at_rest(&self) -> bool {
        !self.transaction && !self.watching && !self.subscriptions.any()
    }

    pub(super) async fn run(&mut self, client: &mut Client) -> End {
        let clock = self.remote.keeper.clock;
        let mut first = true;
        let mut fresh = true;
        loop {
            if fresh && (first || !self.at_rest()) && !self.leaving && self.may_take() {
                fresh = self.take_command(client, &mut first);
            }
            self.pass_known(client);
            if client.closing && !self.leaving {
                return End::Gone;
            }
            if self.owed.is_empty() && self.to_store.is_empty() {
                if self.leaving {
                    return End::Gone;
                }
                if self.at_rest() && !first {
                    return End::Done;
                }
            }
            client.held.elsewhere = self.held();
            client.tell();
            if client.has_overflowed() {
                return End::Gone;
            }
            // The same as above: else this would turn for ever, and with it the thread that listens for
            // what the store says.
            let more = fresh && !self.at_rest() && !self.leaving && self.may_take();
            let deadline = self.owed.iter().find_map(|owed| match owed {
                Owed::Store(by, _) | Owed::Aborted(by) | Owed::Counted(by, ..) => Some(*by),
                Owed::Known(_) => None,
            });
            let stays_until = client.stays_until();
            self.from_store.reserve(READ);
            client.input.reserve(1 << 10);
            let (mut client_reads, mut client_writes) = client.stream.split();
            let (mut store_reads, mut store_writes) = tokio::io::split(&mut self.own.stream);
            tokio::select! {
                biased;
                read = store_reads.read_buf(&mut self.from_store) => match read {
                    Ok(0) => return End::Failed(Fault::Lost("it closed the connection".into())),
                    Err(error) => return End::Failed(Fault::Lost(error.to_string())),
                    Ok(count) => {
                        if !client.has_room(count) {
                            return End::Gone;
                        }
                        if let Err(fault) = self.pass_on(client) {
                            return End::Failed(fault);
                        }
                    }
                },
                wrote = store_writes.write_buf(&mut self.to_store), if !self.to_store.is_empty() => {
                    if let Err(error) = wrote {
                        return End::Failed(Fault::Lost(error.to_string()));
                    }
                }
                wrote = client_writes.write_buf(&mut client.out), if !client.out.is_empty() => {
                    if wrote.is_err() {
                        return End::Gone;
                    }
                    client.held.moved = true;
                }
                read = client_reads.read_buf(&mut client.input) => match read {
                    Ok(0) | Err(_) => return End::Gone,
                    Ok(_) => {
                        fresh = true;
                        client.took_in();
                    }
                },
                () = std::future::ready(()), if more => {}
                () = clock.sleep_until(stays_until), if stays_until < Moment::NEVER => {
                    if client.overstays() {
                        return End::Gone;
                    }
                }
                () = clock.sleep_until(deadline.unwrap_or(Moment::NEVER)) => {
                    return End::Failed(Fault::Timeout);
                }
            }
        }
    }

    /// Bytes between the client and the store.
    fn held(&self) -> usize {
        self.to_store.len() + self.from_store.len() + self.known
    }

    /// Whether another command may be taken: not while much of what was taken has not been sent.
    fn may_take(&self) -> bool {
        self.to_store.len() < MOST_UNSENT
            && self.owed.len() < MOST_IN_FLIGHT
            && !matches!(self.owed.back(), Some(Owed::Counted(..)))
    }

    /// Takes one command from the client's input. False if there is no whole one.
    fn take_command(&mut self, client: &mut Client, first: &mut bool) -> bool {
        let mut parser = std::mem::take(&mut client.parser);
        let parsed = parser.parse(&client.input, Limits::STORE);
        let more = match parsed {
            Ok(Parsed::Partial) => false,
            Ok(Parsed::Nothing(length)) => {
                client.input.advance(length);
                true
            }
            Ok(Parsed::Inline(length, array)) => {
                let behind = client.input.split_off(length);
                client.input = array;
                client.input.extend_from_slice(&behind);
                true
            }
            Ok(Parsed::Command(length)) => {
                let bytes = client.input.split_to(length).freeze();
                self.command(client, &bytes, &parser);
                *first = false;
                true
            }
            Err(error) => {
                client.refuse(&error);
                false
            }
        };
        client.parser = parser;
        more
    }

    fn command(&mut self, client: &mut Client, bytes: &Bytes, parser: &Parser) {
        let args = Args::new(bytes, parser.args());
        let row = commands::row_of(&args);
        let mut selects = None;
        // What the store will refuse for its arguments changes nothing.
        let plain = args.len() == 1;
        let changes = Change::of(row.name);
        match row.name {
            "QUIT" => {
                self.leaving = true;
                return self.owe(Bytes::from_static(b"+OK\r\n"));
            }
            "RESET" | "AUTH" | "HELLO" | "CLIENT"
                if self.transaction || self.subscriptions.any() =>
            {
                let text = format!("ERR {} is not supported here through the guard", row.name);
                return self.owe_error(&text);
            }
            // The connection would go on in the version and the database it was opened for.
            "RESET" | "HELLO" if self.watching => {
                let text = format!("ERR {} is not supported here through the guard", row.name);
                return self.owe_error(&text);
            }
            // It would be carried out by EXEC, on a connection that others get afterwards.
            _ if changes.is_some() && self.transaction => {
                let text = format!("ERR {} is not supported here through the guard", row.name);
                return self.owe_error(&text);
            }
            "MULTI" if plain => self.transaction = true,
            "EXEC" if plain && self.transaction && self.spoilt => {
                (self.transaction, self.watching, self.spoilt) = (false, false, false);
                self.selects = None;
                reply::command(&mut self.to_store, &[b"DISCARD"]);
                let by = self.due();
                return self.owed.push_back(Owed::Aborted(by));
            }
            "EXEC" | "DISCARD" if plain && self.transaction => {
                self.spoilt = false;
                (self.transaction, self.watching) = (false, false);
                selects = self.selects.take().filter(|_| row.name == "EXEC");
            }
            "WATCH" if !plain && !self.transaction => self.watching = true,
            "UNWATCH" if plain && !self.transaction => self.watching = false,
            _ if changes.is_some_and(|change| change.joins) && !plain => self.used_up = true,
            "SELECT" => {
                self.used_up = true;
                let number = std::str::from_utf8(args.get(1)).ok().and_then(|n| n.parse().ok());
                let number = number.filter(|&n| self.remote.lanes.has(n));
                if self.transaction {
                    self.selects = number.or(self.selects);
                } else {
                    selects = number;
                }
            }
            "PING" | "ECHO" => {}
            _ if row.class == Class::Foreign => {
                client.closing = true;
                return;
            }
            _ if row.class == Class::Refused => {
                return self.owe_error(&commands::refusal(&args));
            }
            _ if row.class == Class::Local && !self.transaction => {
                let now = client.shared.clock.now();
                let look = Look { input: bytes, args, row, now };
                let before = client.out.len();
                client.local(&look);
                let answer = client.out.split_off(before).freeze();
                return self.owe(answer);
            }
            _ => {}
        }
        self.note(client, &args);
        self.to_store.extend_from_slice(bytes);
        let waits = row.class == Class::Pinned && is_wait(row.name) && !self.transaction;
        let by = if waits { Moment::NEVER } else { self.due() };
        self.owed.push_back(match changes {
            // Without a name it is a wrong command.
            Some(change) if !(change.joins && plain) => {
                let names = args.len() as u64 - 1;
                Owed::Counted(by, change, (names > 0).then_some(names))
            }
            _ => Owed::Store(by, selects),
        });
    }

    fn note(&mut self, client: &Client, args: &Args<'_>) {
        self.remote.keeper.void_leases(commands::row_of(args), args);
        self.doubts.note_command(args);
        if self.remote.near.on() {
            let row = commands::row_of(args);
            let now = client.shared.clock.now();
            row.keys_of(args).for_each(|k| self.remote.near.forget(client.database, k, now));
        }
    }

    /// When an answer to what is sent now is due. A subscriber stays as long as the store may be
    /// silent: it would lose its subscriptions.
    fn due(&self) -> Moment {
        let waits = &self.remote.lanes.store.waits;
        let subscribed = self.subscriptions.any();
        let within = if subscribed { waits.liveness() } else { waits.call() };
        self.remote.keeper.clock.now() + within
    }

    /// An answer of ours in the place of the store's. Inside a transaction that is then not carried
    /// out: the store does not know that a command of it was refused.
    fn owe_error(&mut self, text: &str) {
        self.spoilt |= self.transaction;
        let mut out = BytesMut::new();
        reply::error(&mut out, text);
        self.owe(out.freeze());
    }

    fn owe(&mut self, reply: Bytes) {
        self.known += reply.len();
        self.owed.push_back(Owed::Known(reply));
    }

    /// Passes replies on that are known already and whose turn it is.
    fn pass_known(&mut self, client: &mut Client) {
        while let Some(Owed::Known(bytes)) = self.owed.front() {
            client.out.extend_from_slice(bytes);
            self.known -= bytes.len();
            self.owed.pop_front();
        }
        if self.owed.is_empty() && !self.transaction {
            self.doubts = Doubts::default();
        }
    }

    /// Passes on what the store has said.
    fn pass_on(&mut self, client: &mut Client) -> Result<(), Fault> {
        let broken = |e: hedgerow_wire::resp::Error| Fault::Protocol(e.to_string());
        while let Some(whole) = self.scanner.scan(&self.from_store).map_err(broken)? {
            let bytes = self.from_store.split_to(whole.length).freeze();
            if let Some(permit) = self.permit.take() {
                self.remote.keeper.settle(permit, outcome(whole.kind, &bytes, false));
            }
            let aborted = matches!(self.owed.front(), Some(Owed::Aborted(_)));
            let bytes = match whole.kind {
                Kind::Push | Kind::Error => bytes,
                _ if aborted => Bytes::from_static(ABORTED),
                _ => bytes,
            };
            client.out.extend_from_slice(&bytes);
            client.grew(bytes.len());
            let speaks = self.subscriptions.any()
                || whole.kind == Kind::Push
                || matches!(self.owed.front(), Some(Owed::Counted(..)));
            match speaks.then(|| Said::of(&bytes)).flatten() {
                Some(Said::Message) => {}
                Some(Said::Counted(change, count)) => self.counted(change, count),
                // Something that answers nothing, and is no business of ours.
                None if whole.kind == Kind::Push => {}
                None => {
                    // What the store did not do may have left the connection as it was.
                    self.used_up |= whole.kind == Kind::Error;
                    if let Some(Owed::Store(_, Some(database))) = self.owed.pop_front()
                        && !matches!(whole.kind, Kind::Error | Kind::Null)
                    {
                        client.database = database;
                    }
                }
            }
            self.pass_known(client);
        }
        Ok(())
    }

    /// A subscription has begun or ended: one more answer to the command that is owed one for each
    /// name, unless the store has ended it by itself.
    fn counted(&mut self, change: Change, count: u64) {
        let before = self.subscriptions.of(change.kind);
        self.subscriptions.on_counted(change.kind, count);
        if let Some(Owed::Counted(_, asked, names)) = self.owed.front_mut()
            && *asked == change
        {
            // Without a name: all there were, or once that there were none.
            let left = names.unwrap_or(before.max(1)) - 1;
            *names = Some(left);
            if left == 0 {
                self.owed.pop_front();
            }
        }
    }
}

fn is_wait(name: &str) -> bool {
    name.starts_with('B') || matches!(name, "WAIT" | "WAITAOF" | "XREAD")
}
