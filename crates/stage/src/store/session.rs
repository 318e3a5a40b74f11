//! One connection of a Redis client.

use super::Shared;
use super::commands::{self, Asked};
use bytes::{Buf as _, BytesMut};
use hedgerow_wire::resp::reply;
use hedgerow_wire::resp::{Limits, Parsed, Parser, Protocol};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;

/// Databases a client may select.
const DATABASES: u8 = 16;

/// A connection as others can see, and end, it.
pub(super) struct Known {
    id: u64,
    peer: SocketAddr,
    stream: TcpStream,
}

struct Session<'a> {
    shared: &'a Shared,
    id: u64,
    peer: SocketAddr,
    database: u8,
    protocol: Protocol,
    leaving: bool,
}

/// Serves a connection to its end.
pub(super) fn converse(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let id = shared.connections.fetch_add(1, Relaxed) + 1;
    let peer = stream.peer_addr()?;
    shared.clients().push(Known { id, peer, stream: stream.try_clone()? });
    let mut session =
        Session { shared, id, peer, database: 0, protocol: Protocol::Resp2, leaving: false };
    let ended = session.serve(&mut stream);
    shared.clients().retain(|known| known.id != id);
    ended
}

impl Session<'_> {
    fn serve(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let (mut held, mut parser) = (BytesMut::new(), Parser::new());
        let mut out = BytesMut::new();
        loop {
            match parser.parse(&held, Limits::STORE) {
                Ok(Parsed::Nothing(length)) => held.advance(length),
                Ok(Parsed::Inline(length, array)) => {
                    let behind = held.split_off(length);
                    held = array;
                    held.extend_from_slice(&behind);
                }
                Ok(Parsed::Command(length)) => {
                    let bytes = held.split_to(length);
                    let args: Vec<&[u8]> =
                        parser.args().iter().map(|&(from, to)| &bytes[from..to]).collect();
                    self.shared.gate.wait();
                    if !self.shared.clients().iter().any(|known| known.id == self.id) {
                        // It was ended while it waited: nothing of it is carried out.
                        return Ok(());
                    }
                    self.shared.commands.fetch_add(1, Relaxed);
                    self.answer(&args, &mut out);
                }
                Ok(Parsed::Partial) => {
                    stream.write_all(&out)?;
                    out.clear();
                    let mut piece = [0; 16 << 10];
                    match stream.read(&mut piece)? {
                        0 => return Ok(()),
                        length => held.extend_from_slice(&piece[..length]),
                    }
                }
                Err(error) => {
                    reply::error(&mut out, &format!("ERR Protocol error: {error}"));
                    self.leaving = true;
                }
            }
            if self.leaving {
                return stream.write_all(&out);
            }
        }
    }

    fn answer(&mut self, args: &[&[u8]], out: &mut BytesMut) {
        let Some((name, args)) = args.split_first() else { return };
        let name = String::from_utf8_lossy(name).to_ascii_uppercase();
        let first = args.first().map(|arg| arg.to_ascii_uppercase()).unwrap_or_default();
        match (name.as_str(), first.as_slice()) {
            ("PING", b"") => reply::status(out, "PONG"),
            ("PING" | "ECHO", _) => reply::bulk(out, args.first().copied().unwrap_or_default()),
            ("QUIT", _) => {
                self.leaving = true;
                reply::status(out, "OK");
            }
            ("AUTH", _) | ("CLIENT", b"SETNAME" | b"SETINFO") => reply::status(out, "OK"),
            ("HELLO", version) => {
                match version {
                    b"3" => self.protocol = Protocol::Resp3,
                    _ => self.protocol = Protocol::Resp2,
                }
                reply::map(out, self.protocol, 2);
                reply::bulk(out, b"server");
                reply::bulk(out, b"scripted");
                reply::bulk(out, b"proto");
                reply::integer(out, if self.protocol == Protocol::Resp3 { 3 } else { 2 });
            }
            ("SELECT", number) => {
                let number = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok());
                match number.filter(|number| *number < DATABASES) {
                    Some(number) => {
                        self.database = number;
                        reply::status(out, "OK");
                    }
                    None => reply::error(out, "ERR DB index is out of range"),
                }
            }
            ("CLIENT", b"ID") => reply::integer(out, self.id.cast_signed()),
            ("CLIENT", b"INFO") => {
                let line = format!("id={} addr={} db={}\n", self.id, self.peer, self.database);
                reply::text(out, self.protocol, &line);
            }
            ("CLIENT", b"KILL") => self.end_others(&args[1..], out),
            ("INFO", _) => {
                // A run of the server is this process.
                let info = format!("# Server\r\nrun_id:scripted-{}\r\n", std::process::id());
                reply::text(out, self.protocol, &info);
            }
            ("CONFIG", b"GET") => {
                reply::map(out, self.protocol, 1);
                reply::bulk(out, b"databases");
                reply::bulk(out, DATABASES.to_string().as_bytes());
            }
            (name, _) => {
                let (database, protocol) = (self.database, self.protocol);
                let asked = Asked { name, args, database, protocol };
                commands::execute(&mut self.shared.data(), &asked, out);
            }
        }
    }

    /// `CLIENT KILL ID n [ADDR address]`: how many were ended.
    fn end_others(&self, options: &[&[u8]], out: &mut BytesMut) {
        let (mut id, mut address) = (None, None);
        for pair in options.chunks(2) {
            let value = pair.get(1).map(|value| String::from_utf8_lossy(value).into_owned());
            match pair[0].to_ascii_uppercase().as_slice() {
                b"ID" => id = value.and_then(|id| id.parse().ok()),
                b"ADDR" => address = value,
                _ => return reply::error(out, "ERR syntax error"),
            }
        }
        let mut ended = 0;
        self.shared.clients().retain(|known| {
            let meant = Some(known.id) == id
                && address.as_ref().is_none_or(|address| *address == known.peer.to_string());
            if meant {
                let _ = known.stream.shutdown(Shutdown::Both);
                ended += 1;
            }
            !meant
        });
        reply::integer(out, ended);
    }
}
