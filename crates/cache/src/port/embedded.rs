//! Commands without a store: the embedded one, and transactions that cannot be carried out.
//!
//! Invariant: a transaction answers exactly as many replies as it has commands. One that began
//! while the circuit was not closed is discarded at its end, never carried out in part.

use super::client::Client;
use super::dispatch::Look;
use crate::memory::{self, Asked, Memory};
use bytes::{Bytes, BytesMut};
use hedgerow_wire::resp::{Protocol, reply};

/// Commands of one transaction, and keys watched for it. (Bytes of them: what a client may send.)
const MOST_COMMANDS: usize = 100_000;

/// What it costs to keep an argument, whatever its length.
const KEPT_FOR_EACH: usize = 2 * size_of::<Bytes>();

/// A transaction that is not at the store.
#[derive(Default)]
pub(super) struct Transaction {
    /// MULTI was said; before it there may be keys that are watched.
    begun: bool,
    /// Carried out by the embedded store at its end; else discarded.
    here: bool,
    /// A command in it was wrong: it is discarded.
    wrong: bool,
    commands: Vec<Vec<Bytes>>,
    /// Bytes of their arguments, and of the keys that are watched; with what it costs to keep them.
    bytes: usize,
    /// Keys and their versions.
    watched: Vec<(u32, Bytes, u64)>,
}

impl Transaction {
    /// Bytes that are kept for it.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What it costs to keep these arguments.
fn cost<'a>(args: impl Iterator<Item = &'a [u8]>) -> usize {
    args.map(|arg| arg.len() + KEPT_FOR_EACH).sum::<usize>() + KEPT_FOR_EACH
}

impl Client {
    /// MULTI. `here`: the embedded store will carry it out.
    pub(super) fn begin_transaction(&mut self, here: bool) {
        let transaction = self.transaction.get_or_insert_default();
        transaction.begun = true;
        transaction.here = here;
    }

    /// A command inside it.
    pub(super) fn in_transaction(&mut self, look: &Look<'_>) {
        let args = &look.args;
        let begun = self.transaction.as_ref().is_some_and(|t| t.begun);
        match look.row.name {
            "MULTI" if begun => self.error("ERR MULTI calls can not be nested"),
            "MULTI" => {
                self.begin_transaction(true);
                self.answer(|out, _| reply::status(out, "OK"));
            }
            "WATCH" if begun => self.error("ERR WATCH inside MULTI is not allowed"),
            "EXEC" if begun => self.execute(look),
            "DISCARD" if begun => {
                self.transaction = None;
                self.answer(|out, _| reply::status(out, "OK"));
            }
            "UNWATCH" if !begun => {
                self.transaction = None;
                self.answer(|out, _| reply::status(out, "OK"));
            }
            "QUIT" | "RESET" => {
                self.transaction = None;
                self.local(look);
            }
            // Keys are watched, and nothing has begun: as if there were no transaction.
            _ if !begun => self.embedded(look),
            _ => {
                let Some(transaction) = self.transaction.as_mut() else { return };
                let bytes = transaction.bytes + cost(args.from(0));
                let full = transaction.commands.len() >= MOST_COMMANDS
                    || bytes > self.shared.settings.input_limit;
                let mut wrong = BytesMut::new();
                let copied = copy(args.from(0));
                let slices: Vec<&[u8]> = copied.iter().map(|arg| &arg[..]).collect();
                let probe = Asked {
                    args: &slices,
                    database: self.database,
                    protocol: self.protocol,
                    now: look.now,
                    unix_ms: 0,
                };
                if full {
                    reply::error(&mut wrong, "ERR too many commands in a transaction");
                } else if transaction.here {
                    memory::known(&probe, &mut wrong);
                }
                if wrong.is_empty() {
                    if transaction.here {
                        transaction.bytes = bytes;
                        transaction.commands.push(copied);
                    }
                    self.answer(|out, _| reply::status(out, "QUEUED"));
                } else {
                    transaction.wrong = true;
                    self.answer(|out, _| out.extend_from_slice(&wrong));
                }
            }
        }
    }

    fn execute(&mut self, look: &Look<'_>) {
        let Some(transaction) = self.transaction.take() else { return };
        let memory = self.shared.guarded.embedded().cloned();
        let Some(memory) = memory.filter(|_| transaction.here) else {
            let text = "EXECABORT Transaction discarded because the cache is shedding";
            return self.error(text);
        };
        if transaction.wrong {
            return self.error("EXECABORT Transaction discarded because of previous errors.");
        }
        let (database, unix_ms) = (self.database, hedgerow_clock::unix_ms());
        let now = look.now;
        let (room, limit) = (self.shared.room.clone(), self.shared.settings.output_limit);
        self.answer(|out, protocol| {
            memory.alone(|| {
                let moved =
                    |(d, key, version): &(u32, Bytes, u64)| memory.version(*d, key) > *version;
                if transaction.watched.iter().any(moved) {
                    return reply::null_array(out, protocol);
                }
                reply::array(out, transaction.commands.len());
                let begin = out.len();
                for command in &transaction.commands {
                    let args: Vec<&[u8]> = command.iter().map(|arg| &arg[..]).collect();
                    let asked = Asked { args: &args, database, protocol, now, unix_ms };
                    let before = out.len();
                    memory::execute_alone(&memory, &asked, out);
                    if before > begin && out.len() - begin > limit {
                        out.truncate(before);
                        out.extend_from_slice(room.withhold());
                    }
                }
            });
        });
    }

    /// A command for the embedded store.
    pub(super) fn embedded(&mut self, look: &Look<'_>) {
        let Some(memory) = self.shared.guarded.embedded().cloned() else { return };
        let args = &look.args;
        match look.row.name {
            "MULTI" => {
                self.begin_transaction(true);
                return self.answer(|out, _| reply::status(out, "OK"));
            }
            "EXEC" | "DISCARD" => {
                return self.error(&format!("ERR {} without MULTI", look.row.name));
            }
            "UNWATCH" => return self.answer(|out, _| reply::status(out, "OK")),
            "WATCH" => return self.watch(look, &memory),
            "INFO" | "ROLE" => return self.informed(look),
            _ => {}
        }
        let keeper = self.shared.guarded.keeper().clone();
        let slices: Vec<&[u8]> = args.from(0).collect();
        let (database, unix_ms) = (self.database, hedgerow_clock::unix_ms());
        let mut start = None;
        self.answer(|out, protocol| {
            let asked = Asked { args: &slices, database, protocol, now: look.now, unix_ms };
            let before = out.len();
            memory::execute(&memory, &asked, out);
            start = out.get(before..).and_then(|reply| reply.get(..3)).map(<[u8]>::to_vec);
        });
        if look.row.class == crate::commands::Class::Read {
            let null = start.as_deref().is_some_and(|s| s == b"$-1" || s == b"_\r\n");
            use crate::counts::ReadResult::{Hit, Miss};
            keeper.counts.read(if null { Miss } else { Hit });
        }
    }

    fn watch(&mut self, look: &Look<'_>, memory: &Memory) {
        if look.args.len() < 2 {
            return self.error("ERR wrong number of arguments for 'watch' command");
        }
        let database = self.database;
        let watched = look
            .args
            .from(1)
            .map(|key| (database, Bytes::copy_from_slice(key), memory.version(database, key)));
        let limit = self.shared.settings.input_limit;
        let transaction = self.transaction.get_or_insert_default();
        if transaction.watched.len() + look.args.len() > MOST_COMMANDS
            || transaction.bytes + cost(look.args.from(1)) > limit
        {
            return self.error("ERR too many keys are watched");
        }
        transaction.watched.extend(watched);
        transaction.bytes += cost(look.args.from(1));
        self.answer(|out, _| reply::status(out, "OK"));
    }

    pub(super) fn error(&mut self, text: &str) {
        self.answer(|out: &mut BytesMut, _: Protocol| reply::error(out, text));
    }
}

fn copy<'a>(args: impl Iterator<Item = &'a [u8]>) -> Vec<Bytes> {
    args.map(Bytes::copy_from_slice).collect()
}
