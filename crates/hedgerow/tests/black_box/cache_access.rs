//! A store behind TLS and an access list: what is needed to reach it, and what is said when it
//! turns Hedgerow away. Never with the password in it.

use crate::cache::port_of;
use crate::server::Server;
use hedgerow_testkit::redis::{Redis, free_port};
use hedgerow_testkit::resp::Raw;
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::path::Path;

/// Letters that mean something in a URL.
const PASSWORD: &str = "s3/cr@et?7#Kx";

/// An authority, and a certificate of it for 127.0.0.1: `ca.pem`, `cert.pem`, `key.pem`.
fn certificates(scratch: &Scratch) {
    let authority = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    scratch.file("ca.pem", params.self_signed(&authority).unwrap().pem());
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let signed = own.signed_by(&key, &Issuer::new(params, authority)).unwrap();
    scratch.file("cert.pem", signed.pem());
    scratch.file("key.pem", key.serialize_pem());
}

/// A store that can be reached through TLS on the port beside it, and only by `app`.
struct Store {
    redis: Redis,
    tls: u16,
}

impl Store {
    fn start(scratch: &Scratch) -> Store {
        certificates(scratch);
        let path = |name: &str| scratch.path().join(name).display().to_string();
        let tls = free_port();
        let redis = Redis::start_with(&[
            "--tls-port",
            &tls.to_string(),
            "--tls-cert-file",
            &path("cert.pem"),
            "--tls-key-file",
            &path("key.pem"),
            "--tls-ca-cert-file",
            &path("ca.pem"),
            "--tls-auth-clients",
            "no",
        ]);
        let store = Store { redis, tls };
        // What docs/cache.md says is enough.
        store.allow(&format!(">{PASSWORD} ~* &* +@all -@dangerous +client|kill +info"));
        store
    }

    fn allow(&self, rules: &str) {
        assert_eq!(self.redis.ask(&format!("ACL SETUSER app reset on {rules}")), "+OK");
    }

    /// Hedgerow in front of it, told to trust this file.
    fn guarded(&self, ca: &Path, more: &str) -> Server {
        let lines = format!(
            "cache.resp.listen = \"127.0.0.1:0\"\n\
             cache.store = \"rediss://app:${{env.STORE_PASSWORD}}@127.0.0.1:{}/3\"\n\
             cache.tls_ca = {ca:?}\n{more}",
            self.tls
        );
        Server::start_among(Scratch::new(), &lines, &[], &[("STORE_PASSWORD", PASSWORD)])
    }
}

/// Asks until so many calls have failed that the circuit is open.
fn opens(server: &Server, caller: &mut Raw) {
    until("the circuit opens", || {
        assert_eq!(caller.ask("GET greeting"), "$-1", "a read that cannot be had is a miss");
        (server.admin("/admin/cache")["state"] == "open").then_some(())
    });
    let line = "hedgerow: the circuit of cache is open: rate";
    until("the line of the circuit", || server.stderr().contains(line).then_some(()));
}

/// Nothing that is written or shown anywhere holds the password.
fn keeps_the_secret(server: &Server) {
    let mut all = server.stderr();
    for path in ["/admin/cache", "/admin/breakers", "/admin/runtime", "/metrics"] {
        all.push_str(server.admin_request(&format!("GET {path}")).text());
    }
    all.extend(server.events().iter().map(ToString::to_string));
    for secret in [PASSWORD, "s3/cr", "7#Kx"] {
        assert!(!all.contains(secret), "{all}");
    }
}

#[test]
fn tls_a_user_and_a_database_and_a_password_that_is_changed() {
    let scratch = Scratch::new();
    let store = Store::start(&scratch);
    let server = store.guarded(&scratch.path().join("ca.pem"), "cache.breaker.open_ms = 500");
    let mut caller = Raw::connect(port_of(&server));
    server.event("cache.connected", |event| event["database"] == 3);
    assert_eq!(caller.ask("SET greeting hello"), "+OK");
    assert_eq!(caller.ask("GET greeting"), "$5\r\nhello");
    let mut direct = store.redis.raw();
    direct.check(&[("GET greeting", "$-1"), ("SELECT 3", "+OK"), ("GET greeting", "$5 hello")]);
    let clients = store.redis.ask("CLIENT LIST");
    let own = clients.lines().find(|line| line.contains("name=hedgerow")).expect("our connection");
    assert!(own.contains("user=app") && own.contains(&format!("laddr=127.0.0.1:{}", store.tls)));
    let shown = server.admin("/admin/cache");
    assert_eq!(shown["store"], format!("rediss://127.0.0.1:{}/3", store.tls));
    assert_eq!(shown["lanes"][0]["user"], "app", "{shown}");
    assert_eq!(shown["order_guaranteed"], true, "{shown}");

    store.allow(">another ~* &* +@all");
    assert_eq!(store.redis.ask("CLIENT KILL USER app"), ":1");
    let refused = |event: &serde_json::Value| {
        event["error"].as_str().is_some_and(|error| error.contains("WRONGPASS"))
    };
    server.event("cache.lost", refused);
    opens(&server, &mut caller);
    assert_eq!(caller.ask("SET greeting later"), "$-1");
    let said = "hedgerow: cache, database 3: the store answered WRONGPASS";
    until("the line of the store", || server.stderr().contains(said).then_some(()));
    let told = server.events().iter().filter(|event| refused(event)).count();
    assert_eq!(told, 1, "once, however often it is tried");

    store.allow(&format!(">{PASSWORD} ~* &* +@all"));
    until("it serves again", || (caller.ask("GET greeting") == "$5\r\nhello").then_some(()));
    keeps_the_secret(&server);
    server.stop();
}

#[test]
fn a_store_whose_authority_is_unknown_is_not_spoken_to() {
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let store = Store::start(&scratch);
    certificates(&other);
    let server = store.guarded(&other.path().join("ca.pem"), "");
    let lost = server.event("cache.lost", |_| true);
    let error = lost["error"].as_str().unwrap();
    assert!(error.contains("the TLS handshake failed: invalid peer certificate"), "{error}");
    opens(&server, &mut Raw::connect(port_of(&server)));
    let clients = store.redis.ask("ACL LOG");
    assert_eq!(clients, "*0", "no password was sent to a stranger");
    keeps_the_secret(&server);
    server.stop();
}

#[test]
fn case_48_a_user_that_may_not_end_connections_is_said_at_once() {
    let scratch = Scratch::new();
    let store = Store::start(&scratch);
    store.allow(&format!(">{PASSWORD} ~app:* &* +@all -client|kill"));
    let server = store.guarded(&scratch.path().join("ca.pem"), "cache.key_prefix = \"app:\"");
    let connected = server.event("cache.connected", |_| true);
    assert_eq!(connected["order_guaranteed"], false, "{connected}");
    let line = "the store does not allow CLIENT KILL: order is not guaranteed";
    until("the line", || server.stderr().contains(line).then_some(()));
    let mut caller = Raw::connect(port_of(&server));
    caller.check(&[("SET app:a 1", "+OK"), ("GET app:a", "$1 1")]);
    // What the store says of a command is the client's business, and no failure of the store.
    assert!(caller.ask("GET other").starts_with("-NOPERM"));
    assert_eq!(server.admin("/admin/breakers")["breakers"][0]["failures"], 0);
    keeps_the_secret(&server);
    server.stop();
}
