//! What the data plane is told at start, and again at every reload. Plain values.
//!
//! Invariant: nothing here is parsed or defaulted from text; where the values come from is the
//! binary's business. A request keeps the settings it began with until it is over.

use crate::route::Route;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// How clients reach the gateway, what it accepts from them, and how it says no.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where clients connect. Read at start only.
    pub listen: SocketAddr,
    /// Certificate and key; `None` is plain HTTP. The files are read again with every new settings.
    pub tls: Option<Tls>,
    /// Whether HTTP/2 is offered: by ALPN over TLS, by its preface over plain TCP.
    pub http2: bool,
    /// Client connections at once. Read at start only.
    pub max_connections: usize,
    /// How long a request head may take, from its first byte.
    pub header_timeout: Duration,
    /// How long a request body may take.
    pub body_timeout: Duration,
    /// How long an idle connection is kept, and how long a client may take no byte of an answer.
    pub keep_alive: Duration,
    /// From the complete request until the head of the answer.
    pub request_timeout: Duration,
    /// How long a drain waits for requests in flight.
    pub drain: Duration,
    /// Largest request body, in bytes.
    pub body_limit: u64,
    /// Bytes of request bodies held in memory at once; past it they go to unlinked files.
    pub body_memory: u64,
    /// Where those files are made; `None`: the system's temporary folder.
    pub spool_dir: Option<PathBuf>,
    /// Peers whose forwarding headers are believed.
    pub trusted_proxies: Vec<Network>,
    /// First part of the gateway's own header names, lower case, without the last hyphen.
    pub header_prefix: String,
    /// Whether a failure is `application/problem+json` where `Accept` names it.
    pub problem_json: bool,
    /// Whether a failure carries `Proxy-Status`.
    pub proxy_status: bool,
    /// Whether the class name of a worker's exception is sent to the client.
    pub expose_worker_exception: bool,
    /// Whether, and how, requests are offered to workers as streams in steps.
    pub dispatch: Option<Dispatch>,
    /// Looked through in order; where none fits the request goes to the worker.
    pub routes: Vec<Route>,
}

/// Streams that workers make step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// Such streams at once, those that are being closed included.
    pub max_open: usize,
    /// Largest state that one carries from step to step, in bytes.
    pub state_limit: u64,
    /// What the pool's own read timeout is: how long one step may take.
    pub read_timeout: Duration,
    /// Longest time in which no step brings anything, and longest wait of a step for a worker.
    pub silence: Duration,
}

/// Certificate and key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Addresses that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// One of the addresses.
    pub addr: IpAddr,
    /// How many of its first bits they share.
    pub prefix: u8,
}

impl Network {
    /// Whether `addr` is one of them. An IPv4 address that arrives inside IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, addr: IpAddr) -> bool {
        match (self.addr.to_canonical(), addr.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(addr)) => {
                let shift = 32 - u32::from(self.prefix.min(32));
                (net.to_bits() ^ addr.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(net), IpAddr::V6(addr)) => {
                let shift = 128 - u32::from(self.prefix.min(128));
                (net.to_bits() ^ addr.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl Default for Settings {
    /// The contract's defaults.
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            tls: None,
            http2: true,
            max_connections: 10_000,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(75),
            request_timeout: Duration::from_secs(5),
            drain: Duration::from_secs(10),
            body_limit: 10 << 20,
            body_memory: 256 << 20,
            spool_dir: None,
            trusted_proxies: Vec::new(),
            header_prefix: "x-vhttpd".to_owned(),
            problem_json: true,
            proxy_status: true,
            expose_worker_exception: true,
            dispatch: None,
            routes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_what_shares_its_first_bits() {
        let net = |addr: &str, prefix| Network { addr: addr.parse().unwrap(), prefix };
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(net("10.0.0.0", 8).contains(ip("10.255.1.2")));
        assert!(!net("10.0.0.0", 8).contains(ip("11.0.0.1")));
        assert!(net("0.0.0.0", 0).contains(ip("8.8.8.8")));
        assert!(!net("0.0.0.0", 0).contains(ip("::1")));
        assert!(net("127.0.0.1", 32).contains(ip("::ffff:127.0.0.1")));
        assert!(net("2001:db8::", 32).contains(ip("2001:db8:1::1")));
        assert!(!net("2001:db8::", 128).contains(ip("2001:db8::1")));
        assert!(net("::", 0).contains(ip("2001:db8::1")));
    }
}
