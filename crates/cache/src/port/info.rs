//! What the guard says of itself to clients.

use super::client::Client;
use super::dispatch::Look;
use crate::commands::{self, Args, Class, Keys};
use bytes::BytesMut;
use hedgerow_wire::resp::{Protocol, reply};
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// The server's version as clients see it: they choose commands by it.
const VERSION: &str = "7.0.0";

/// The answer to HELLO.
pub(super) fn hello(out: &mut BytesMut, protocol: Protocol, id: i64) {
    reply::map(out, protocol, 7);
    let text = |out: &mut BytesMut, name: &str, value: &str| {
        reply::bulk(out, name.as_bytes());
        reply::bulk(out, value.as_bytes());
    };
    text(out, "server", "redis");
    text(out, "version", VERSION);
    reply::bulk(out, b"proto");
    reply::integer(out, if protocol == Protocol::Resp3 { 3 } else { 2 });
    reply::bulk(out, b"id");
    reply::integer(out, id);
    text(out, "mode", "standalone");
    text(out, "role", "master");
    reply::bulk(out, b"modules");
    reply::array(out, 0);
}

/// The line of CLIENT INFO.
pub(super) fn client(client: &Client) -> String {
    let age = (client.shared.clock.now() - client.since).as_secs();
    let text = |bytes: &bytes::Bytes| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "id={} addr={} laddr={} fd=0 name={} age={age} idle=0 flags=N db={} resp={} lib-name={} \
         lib-ver={}\n",
        client.id,
        client.peer,
        client.stream.local_addr().map(|a| a.to_string()).unwrap_or_default(),
        text(&client.about.name),
        client.database,
        if client.protocol == Protocol::Resp3 { 3 } else { 2 },
        text(&client.about.library),
        text(&client.about.library_version),
    )
}

/// COMMAND: from the one table.
pub(super) fn command(out: &mut BytesMut, protocol: Protocol, args: &Args<'_>) {
    match args.get(1).to_ascii_uppercase().as_slice() {
        b"" => {
            reply::array(out, commands::all().len());
            commands::all().iter().for_each(|row| describe(out, row));
        }
        b"COUNT" => reply::integer(out, commands::all().len() as i64),
        b"DOCS" => reply::map(out, protocol, 0),
        b"INFO" if args.len() > 2 => {
            reply::array(out, args.len() - 2);
            for name in args.from(2) {
                match commands::named(name) {
                    row if row.name.is_empty() => reply::null_array(out, protocol),
                    row => describe(out, row),
                }
            }
        }
        b"INFO" => {
            reply::array(out, commands::all().len());
            commands::all().iter().for_each(|row| describe(out, row));
        }
        b"LIST" => {
            reply::array(out, commands::all().len());
            for row in commands::all() {
                reply::bulk(out, row.name.to_ascii_lowercase().as_bytes());
            }
        }
        _ => reply::error(out, "ERR this COMMAND is not supported through the guard"),
    }
}

fn describe(out: &mut BytesMut, row: &commands::Row) {
    let Keys(first, last, step) = row.keys;
    reply::array(out, 6);
    reply::bulk(out, row.name.to_ascii_lowercase().as_bytes());
    // At least its name and first key: the table does not count further.
    reply::integer(out, -(1 + i64::from(first)));
    reply::array(out, 1);
    reply::status(out, if row.class == Class::Read { "readonly" } else { "write" });
    reply::integer(out, i64::from(first));
    reply::integer(out, i64::from(last));
    reply::integer(out, i64::from(step));
}

impl Client {
    /// INFO and ROLE, answered here.
    pub(super) fn informed(&mut self, look: &Look<'_>) {
        if look.row.name == "ROLE" {
            self.answer_in_turn(look, |out, _| {
                reply::array(out, 3);
                reply::bulk(out, b"master");
                reply::integer(out, 0);
                reply::array(out, 0);
            });
            return;
        }
        let text = self.info(!look.args.is(1, "hedgerow"));
        self.answer_in_turn(look, |out, protocol| reply::text(out, protocol, &text));
    }

    fn info(&self, with_server: bool) -> String {
        let (shown, counts) = (self.shared.guarded.snapshot(), &self.shared.counts);
        let mut text = String::new();
        if with_server {
            let _ = write!(
                text,
                "# Server\r\nredis_version:{VERSION}\r\nredis_mode:standalone\r\n\r\n"
            );
        }
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            let _ = write!(text, "{name}:{value}\r\n");
        };
        let reads = shown.counts;
        line("# Hedgerow\r\nstore", &shown.store);
        line("breaker_state", &shown.breaker.state.name());
        line("breaker_episode", &shown.breaker.episode);
        line("repair_gate", &shown.repair_gate.name());
        line("journal_depth", &shown.journal.depth);
        let named = [
            ("reads", &reads.reads()[..]),
            ("repairs", &reads.repairs()),
            ("canaries", &reads.canaries()),
        ];
        for (what, counts) in named {
            counts.iter().for_each(|(name, count)| line(&format!("{what}_{name}"), count));
        }
        line("reconnects", &shown.reconnects);
        line("order_guaranteed", &u8::from(shown.order_guaranteed));
        line("clients", &counts.clients.load(Relaxed));
        line("commands", &counts.commands.load(Relaxed));
        text
    }
}
