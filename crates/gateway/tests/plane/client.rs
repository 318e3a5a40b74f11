//! A client that sends bytes, not requests: what a library would refuse to send must arrive too.

use hedgerow_worker::Clock;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection.
pub(crate) struct Client {
    pub(crate) tcp: TcpStream,
    clock: Clock,
    got: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(addr: SocketAddr, clock: Clock) -> Client {
        let tcp = TcpStream::connect(addr).await.unwrap();
        tcp.set_nodelay(true).unwrap();
        Client { tcp, clock, got: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // The other side may have refused already; what it said is what the test looks at.
        let _ = self.tcp.write_all(bytes.as_ref()).await;
    }

    pub(crate) async fn get(&mut self, path: &str) {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
    }

    /// One more read. False at the end of the connection, orderly or not.
    async fn more(&mut self) -> bool {
        let limit = self.clock.now() + Duration::from_secs(10);
        let mut buf = [0; 16 << 10];
        let read = self.clock.until(limit, self.tcp.read(&mut buf)).await;
        let count = read.expect("the other side sends or closes").unwrap_or(0);
        self.got.extend_from_slice(&buf[..count]);
        count > 0
    }

    /// Everything until the connection ends.
    pub(crate) async fn rest(&mut self) -> String {
        while self.more().await {}
        String::from_utf8_lossy(&std::mem::take(&mut self.got)).into_owned()
    }

    /// Everything up to and with `end`.
    pub(crate) async fn up_to(&mut self, end: &str) -> String {
        loop {
            let text = String::from_utf8_lossy(&self.got);
            if let Some(at) = text.find(end) {
                let found = text[..at + end.len()].to_owned();
                self.got.drain(..found.len());
                return found;
            }
            assert!(
                self.more().await,
                "the connection ended at {:?}",
                String::from_utf8_lossy(&self.got)
            );
        }
    }

    /// Whether the connection ends with a reset, after what is still to come.
    pub(crate) async fn ends_with_reset(&mut self) -> bool {
        let limit = self.clock.now() + Duration::from_secs(10);
        let mut buf = Vec::new();
        let read = self.clock.until(limit, self.tcp.read_to_end(&mut buf)).await;
        read.expect("an end").is_err()
    }
}

/// The status of a response.
pub(crate) fn status(response: &str) -> u16 {
    response.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

/// A header of a response.
pub(crate) fn header<'a>(response: &'a str, name: &str) -> Option<&'a str> {
    let head = response.split("\r\n\r\n").next().unwrap_or("");
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// The body of a response.
pub(crate) fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}
