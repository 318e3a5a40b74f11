//! A scripted upstream, and a server that calls it `models`.

use crate::server::Server;
use hedgerow_stage::upstream::Upstream;
use hedgerow_testkit::http::{Client, Response};
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};

/// The upstream. It lives as long as the test program; nothing of it is shared with other tests.
pub(crate) struct Models(SocketAddr);

impl Models {
    pub(crate) fn start() -> Models {
        Models::named("models")
    }

    pub(crate) fn named(name: &str) -> Models {
        Models(Upstream::start("127.0.0.1:0", name).expect("a port").address())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0)
    }

    /// What it has received and what became of it.
    pub(crate) fn seen(&self) -> Value {
        let mut client = Client::connect(self.0);
        client.get("/-/seen");
        serde_json::from_slice(&client.response().body).expect("a table")
    }

    /// The calls to a path, in the order in which they came.
    pub(crate) fn calls(&self, path: &str) -> Vec<Value> {
        let seen = self.seen();
        let calls = seen["calls"].as_array().expect("a list");
        calls.iter().filter(|call| call["path"] == path).cloned().collect()
    }

    /// Waits until that holds of the calls to a path.
    pub(crate) fn wait(&self, what: &str, path: &str, holds: impl Fn(&[Value]) -> bool) {
        until(what, || holds(&self.calls(path)).then_some(()));
    }

    /// The lines that make it the upstream `models`; `more` are the lines behind its name.
    pub(crate) fn config(&self, more: &str) -> String {
        let own = more.lines().map(str::trim).filter(|line| !line.is_empty());
        let own: String = own.map(|line| format!("upstream.models.{line}\n")).collect();
        format!("egress.listen = \"127.0.0.1:0\"\nupstream.models.url = \"{}\"\n{own}", self.url())
    }
}

/// Where the server's egress port listens.
pub(crate) fn egress(server: &Server) -> SocketAddr {
    until("the address of the egress port", || {
        let said = server.stderr();
        let (_, rest) = said.split_once("egress on http://")?;
        rest.lines().next()?.parse().ok()
    })
}

/// A server on this PHP application (the file behind `<?php`).
pub(crate) fn php(app: &str, lines: &str) -> Server {
    let scratch = Scratch::new();
    scratch.file("app.php", format!("<?php\n{app}"));
    let worker = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/php/bin/hedgerow-worker");
    let own = format!("php.app = \"app.php\"\nphp.worker = {worker:?}\n");
    // A machine that runs other tests beside this one is slow to answer at times.
    let own = format!("{own}worker.start_timeout_ms = 20000\n{lines}");
    Server::start_in(scratch, &own, &[])
}

/// One GET through the egress port.
pub(crate) fn through(server: &Server, target: &str) -> Response {
    let mut client = Client::connect(egress(server));
    client.get(target);
    client.response()
}

/// What came of the calls: the upstream's page, and the newest keys.
pub(crate) fn usage(server: &Server) -> (Value, Vec<Value>) {
    let usage = server.admin("/admin/usage");
    let recent = usage["recent"].as_array().expect("a list").clone();
    (usage["upstreams"]["models"].clone(), recent)
}

/// How calls ended, in the order in which they came.
pub(crate) fn endings(calls: &[Value]) -> Vec<&str> {
    calls.iter().filter_map(|call| call["ended"].as_str()).collect()
}

/// Where nobody listens.
pub(crate) fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}
