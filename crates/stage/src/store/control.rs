//! The HTTP port on which the store is told what to do.

use super::Shared;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering::Relaxed;

/// The most that a request may hold.
const LIMIT: u64 = 16 << 10;

/// The note at a control port, if there is one.
pub(crate) fn note(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(b"GET /note HTTP/1.1\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (_, note) = answer.split_once("\r\n\r\n")?;
    Some(note.trim_end().to_owned()).filter(|note| !note.is_empty())
}

/// Answers one request and closes.
pub(super) fn converse(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?.take(LIMIT));
    let (mut first, mut line) = (String::new(), String::new());
    reader.read_line(&mut first)?;
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let status = match (method, path) {
        ("POST", "/stall") => {
            shared.gate.stall(query.strip_prefix("ms=").and_then(|ms| ms.parse().ok()));
            "200 OK"
        }
        ("POST", "/wake") => {
            shared.gate.wake();
            "200 OK"
        }
        ("GET", "/" | "/note") => "200 OK",
        _ => "404 Not Found",
    };
    let body = match status {
        _ if path == "/note" => shared.note().clone(),
        "200 OK" => serde_json::json!({
            "stalled": shared.gate.is_stalled(),
            "keys": shared.data().keys(),
            "connections": shared.connections.load(Relaxed),
            "commands": shared.commands.load(Relaxed),
        })
        .to_string(),
        _ => super::CONTROL.to_owned(),
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}\n",
        body.len() + 1
    )
}
