//! Where events are read: a file, line by line, or the newest ones of the running gateway.
//!
//! Invariant: a file of any length is read in bounded memory; an answer of the gateway is bounded,
//! in bytes and in time.

use crate::config::Config;
use crate::progress::Progress;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

/// The largest answer that is read, and how long the gateway may take for a part of it.
const ANSWER: u64 = 256 << 20;
const WAIT: Duration = Duration::from_secs(5);
/// How often it is shown how far a file has been read, in bytes.
const SHOWN: u64 = 4 << 20;
/// The longest line that is looked at.
const LINE: u64 = 1 << 20;

/// Events that can be gone through, more than once.
pub(crate) enum Events {
    File(PathBuf),
    /// What a gateway at that address answered.
    Answer(SocketAddr, Vec<u8>),
}

impl Events {
    /// How it is called in sentences.
    pub(crate) fn name(&self) -> String {
        match self {
            Events::File(path) => path.display().to_string(),
            Events::Answer(addr, _) => format!("the newest events of the gateway at {addr}"),
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self, Events::Answer(..))
    }

    /// Shows every line, in order.
    pub(crate) fn each(&self, mut see: impl FnMut(&[u8])) -> Result<(), String> {
        let path = match self {
            Events::Answer(_, bytes) => {
                bytes.split(|&byte| byte == b'\n').for_each(see);
                return Ok(());
            }
            Events::File(path) => path,
        };
        let refused = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
        let file = File::open(path).map_err(refused)?;
        let size = file.metadata().map_err(refused)?.len();
        let mut reader = BufReader::with_capacity(256 << 10, file);
        let mut progress = Progress::new();
        let (mut line, mut read, mut next) = (Vec::new(), 0, SHOWN);
        loop {
            line.clear();
            let length =
                reader.by_ref().take(LINE).read_until(b'\n', &mut line).map_err(refused)?;
            if length == 0 {
                progress.clear();
                return Ok(());
            }
            see(&line);
            read += length as u64;
            if read >= next {
                next = read + SHOWN;
                progress.show("reading the event log", read as f64 / size.max(1) as f64);
            }
        }
    }
}

/// The admin listener of a running gateway.
pub(crate) struct Gateway {
    addr: SocketAddr,
    token: Option<String>,
}

impl Gateway {
    /// The one that this configuration is of.
    pub(crate) fn of(config: &Config) -> Gateway {
        let mut addr = config.admin.listen;
        if addr.ip().is_unspecified() {
            addr.set_ip(match addr.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        Gateway { addr, token: config.admin.token.as_ref().map(|t| t.reveal().to_owned()) }
    }

    /// Its newest events.
    pub(crate) fn events(&self) -> Result<Events, String> {
        Ok(Events::Answer(self.addr, self.get("/admin/events")?))
    }

    /// The body of what is at that path.
    pub(crate) fn get(&self, path: &str) -> Result<Vec<u8>, String> {
        let addr = self.addr;
        let broke = |error: std::io::Error| format!("no gateway answers at {addr}: {error}");
        let mut tcp = TcpStream::connect_timeout(&addr, WAIT).map_err(broke)?;
        tcp.set_read_timeout(Some(WAIT)).map_err(broke)?;
        tcp.set_write_timeout(Some(WAIT)).map_err(broke)?;
        let token = self.token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n"));
        // To HTTP/1.0 the body is answered as it is, and its end is that of the connection.
        let head =
            format!("GET {path} HTTP/1.0\r\nhost: {addr}\r\n{}\r\n", token.unwrap_or_default());
        tcp.write_all(head.as_bytes()).map_err(broke)?;
        let mut answer = Vec::new();
        tcp.take(ANSWER).read_to_end(&mut answer).map_err(broke)?;
        let split = answer.windows(4).position(|window| window == b"\r\n\r\n");
        let (head, body) = split
            .and_then(|at| Some((answer.get(..at)?, answer.get(at + 4..)?)))
            .ok_or_else(|| format!("what answers at {addr} is no gateway"))?;
        let status = head.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
        match status {
            b"200" => Ok(body.to_vec()),
            b"403" => Err(format!("the gateway at {addr} wants another admin.token")),
            _ => {
                let status = String::from_utf8_lossy(status);
                Err(format!("the gateway at {addr} answered {path} with {status}"))
            }
        }
    }
}
