//! What the guard answers itself, always.
//!
//! Invariant: nothing here waits for the store, so it is answered while the store is down. The
//! port's password never reaches the store, and the store's never the client.

use super::client::{About, Client};
use super::dispatch::Look;
use super::info;
use bytes::Bytes;
use hedgerow_wire::resp::{Protocol, reply};

/// The longest name a client may give itself.
const LONGEST_NAME: usize = 512;

impl Client {
    pub(super) fn local(&mut self, look: &Look<'_>) {
        let args = &look.args;
        match look.row.name {
            "PING" => match args.len() {
                1 => self.answer(|out, _| reply::status(out, "PONG")),
                2 => self.answer(|out, _| reply::bulk(out, args.get(1))),
                _ => self.arity("ping"),
            },
            "ECHO" if args.len() == 2 => self.answer(|out, _| reply::bulk(out, args.get(1))),
            "ECHO" => self.arity("echo"),
            "SELECT" if args.len() == 2 => self.select(args.get(1)),
            "SELECT" => self.arity("select"),
            "AUTH" => self.auth(look),
            "HELLO" => self.hello(look),
            "QUIT" => {
                self.ok();
                self.closing = true;
            }
            "RESET" => {
                self.known = self.shared.settings.password.is_empty();
                self.protocol = Protocol::Resp2;
                self.database = self.first_database();
                self.about = About::default();
                self.answer(|out, _| reply::status(out, "RESET"));
            }
            "CLIENT" => self.client(look),
            "COMMAND" => self.answer(|out, protocol| info::command(out, protocol, args)),
            _ => self.ok(),
        }
    }

    fn ok(&mut self) {
        self.answer(|out, _| reply::status(out, "OK"));
    }

    fn arity(&mut self, name: &str) {
        self.error(&format!("ERR wrong number of arguments for '{name}' command"));
    }

    fn first_database(&self) -> u32 {
        self.shared.guarded.remote().map_or(0, |remote| remote.lanes.store.settings.database)
    }

    fn select(&mut self, number: &[u8]) {
        let number: Option<u32> = std::str::from_utf8(number).ok().and_then(|n| n.parse().ok());
        let Some(number) = number else {
            return self.error("ERR value is not an integer or out of range");
        };
        let there = match self.shared.guarded.remote() {
            Some(remote) => remote.lanes.has(number),
            None => number < 16,
        };
        if !there {
            return self.error("ERR DB index is out of range");
        }
        self.database = number;
        self.ok();
    }

    /// Whether this is the password, looked at in the same time whatever it is.
    fn opens(&self, user: Option<&[u8]>, password: &[u8]) -> bool {
        let own = self.shared.settings.password.as_bytes();
        let different = own.iter().zip(password).fold(0, |all, (a, b)| all | (a ^ b));
        own.len() == password.len() && different == 0 && user.is_none_or(|user| user == b"default")
    }

    fn auth(&mut self, look: &Look<'_>) {
        let args = &look.args;
        let (user, password) = match args.len() {
            2 => (None, args.get(1)),
            3 => (Some(args.get(1)), args.get(2)),
            _ => return self.arity("auth"),
        };
        if self.shared.settings.password.is_empty() {
            if user == Some(b"default") {
                return self.ok();
            }
            return self.error(
                "ERR AUTH <password> called without any password configured for the port. \
                 Are you sure your configuration is correct?",
            );
        }
        if self.opens(user, password) {
            self.known = true;
            self.ok();
        } else {
            self.error("WRONGPASS invalid username-password pair or user is disabled.");
        }
    }

    fn hello(&mut self, look: &Look<'_>) {
        let args = &look.args;
        let protocol = match (args.len(), args.get(1)) {
            (1, _) => self.protocol,
            (_, b"2") => Protocol::Resp2,
            (_, b"3") => Protocol::Resp3,
            (_, text) if text.iter().all(u8::is_ascii_digit) => {
                return self.error("NOPROTO unsupported protocol version");
            }
            _ => return self.error("ERR Protocol version is not an integer or out of range"),
        };
        let (mut known, mut name, mut at) = (self.known, None, 2);
        while at < args.len() {
            if args.is(at, "AUTH") && at + 2 < args.len() {
                let open = self.shared.settings.password.is_empty();
                if !open && !self.opens(Some(args.get(at + 1)), args.get(at + 2)) {
                    let text = "WRONGPASS invalid username-password pair or user is disabled.";
                    return self.error(text);
                }
                known = true;
                at += 3;
            } else if args.is(at, "SETNAME") && at + 1 < args.len() {
                name = Some(args.get(at + 1));
                at += 2;
            } else {
                return self.error("ERR Syntax error in HELLO option");
            }
        }
        if !known {
            return self.error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                 HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client \
                 and select the RESP protocol version at the same time",
            );
        }
        if name.is_some_and(|name| !nameable(name)) {
            return self.error(UNNAMEABLE);
        }
        self.known = true;
        self.protocol = protocol;
        if let Some(name) = name {
            self.about.name = Bytes::copy_from_slice(name);
        }
        let id = self.id;
        self.answer(|out, protocol| info::hello(out, protocol, id));
    }

    fn client(&mut self, look: &Look<'_>) {
        let args = &look.args;
        match args.get(1).to_ascii_uppercase().as_slice() {
            b"ID" => {
                let id = self.id;
                self.answer(|out, _| reply::integer(out, id));
            }
            b"INFO" => {
                let line = info::client(self);
                self.answer(|out, protocol| reply::text(out, protocol, &line));
            }
            b"GETNAME" => {
                let name = self.about.name.clone();
                self.answer(|out, protocol| match name.is_empty() {
                    true => reply::null(out, protocol),
                    false => reply::bulk(out, &name),
                });
            }
            b"SETNAME" if args.len() == 3 => {
                if !nameable(args.get(2)) {
                    return self.error(UNNAMEABLE);
                }
                self.about.name = Bytes::copy_from_slice(args.get(2));
                self.ok();
            }
            b"SETINFO" if args.len() == 4 => {
                if !nameable(args.get(3)) {
                    return self.error("ERR lib-name or lib-ver cannot contain spaces or newlines");
                }
                let value = Bytes::copy_from_slice(args.get(3));
                if args.is(2, "LIB-NAME") {
                    self.about.library = value;
                } else if args.is(2, "LIB-VER") {
                    self.about.library_version = value;
                } else {
                    return self.error("ERR Unrecognized option");
                }
                self.ok();
            }
            b"NO-EVICT" | b"NO-TOUCH" => self.ok(),
            other => {
                let name: String =
                    String::from_utf8_lossy(other).chars().take(64).collect::<String>();
                self.error(&format!("ERR CLIENT {name} is not supported through the guard"));
            }
        }
    }
}

const UNNAMEABLE: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

fn nameable(name: &[u8]) -> bool {
    name.len() <= LONGEST_NAME && name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}
