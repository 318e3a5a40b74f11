//! `to = "upstream:NAME"`: a route whose requests go through a hedged call.

use crate::models::{Models, closed_port, egress, through};
use crate::server::Server;
use hedgerow_testkit::http::Client;
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use serde_json::Value;

/// Everything but `/hello` leads to the scripted upstream, whose calls get a twin after 200 ms.
fn server(models: &Models, route: &str, lines: &str) -> Server {
    let upstream = models.config("hedge = { after_ms = 200 }");
    let worker = "[[route]]\npath = \"/hello\"\n";
    let route = format!("\n{worker}[[route]]\npath = \"/*\"\nto = \"upstream:models\"\n{route}");
    Server::start_in(Scratch::new(), &format!("{upstream}{lines}{route}"), &[])
}

#[test]
fn a_request_is_proxied_and_the_answer_is_the_upstreams() {
    let models = Models::start();
    let server = server(&models, "", "");
    let mut client = server.connect();
    client.send(
        "POST /a/b?c=d HTTP/1.1\r\nhost: shop.example\r\ncontent-length: 4\r\nx-own: 1\r\n\
         x-forwarded-for: 9.9.9.9\r\nx-vhttpd-trace-id: forged\r\nte: trailers\r\n\
         x-request-id: r-7\r\n\r\nbody",
    );
    let answer = client.response();
    assert_eq!(answer.status(), 200, "{answer:?}");
    assert_eq!(answer.header("hedgerow-attempts"), Some("1"));
    assert_eq!(answer.header("hedgerow-winner"), Some("primary"));
    assert_eq!(answer.header("x-request-id"), Some("r-7"));
    let seen: Value = serde_json::from_slice(&answer.body).expect("what it saw");
    assert_eq!((&seen["path"], &seen["method"]), (&"/a/b".into(), &"POST".into()), "{seen}");
    let headers = &seen["headers"];
    assert_eq!(headers["x-forwarded-for"], "127.0.0.1", "{seen}");
    assert_eq!(headers["x-forwarded-host"], "shop.example", "{seen}");
    assert_eq!(headers["x-forwarded-proto"], "http", "{seen}");
    assert_eq!((&headers["x-own"], &headers["x-request-id"]), (&"1".into(), &"r-7".into()));
    assert!(headers["x-vhttpd-trace-id"].is_null() && headers["te"].is_null(), "{seen}");
    assert_eq!(server.get("/hello").status(), 200, "the worker has the rest");
    let event = server.request_event("/a/b");
    assert_eq!((&event["upstream"], &event["attempts"]), (&"models".into(), &1.into()), "{event}");
    assert_eq!((&event["winner"], &event["bytes_in"]), (&"primary".into(), &4.into()), "{event}");
}

/// A base path and the start of a route hold what is beneath them, however a dot is spelt.
#[test]
fn a_path_stays_beneath_the_start_of_its_route() {
    let models = Models::start();
    let upstream = format!(
        "egress.listen = \"127.0.0.1:0\"\nupstream.models.url = \"http://{}/base\"\n",
        models.address()
    );
    let route = |path: &str, to: &str| format!("[[route]]\npath = {path:?}\nto = {to:?}\n");
    let routes = route("/api/*", "upstream:models") + &route("/bounds/*", "worker");
    let server = Server::start_in(Scratch::new(), &format!("{upstream}\n{routes}"), &[]);
    let sent = |path: &str| {
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n"));
        client.response()
    };
    let ways_up = [
        "../x",
        "..",
        ".",
        "./x",
        "a/../x",
        "%2e%2e/x",
        ".%2E/x",
        "..%2fx",
        "a%2F..%2f..%2fx",
        "..\\x",
        "..%5cx",
        "..;/x",
        "..;a=b/x?c=d",
    ];
    for up in ways_up {
        for start in ["/api/", "/bounds/"] {
            let answer = sent(&format!("{start}{up}"));
            assert_eq!(answer.status(), 400, "{start}{up}: {answer:?}");
            assert_eq!(answer.header("x-vhttpd-error-class"), Some("bad_request"), "{up}");
        }
    }
    for up in ways_up {
        let mut client = Client::connect(egress(&server));
        client.send(format!("GET /models/{up} HTTP/1.1\r\nhost: h\r\n\r\n"));
        let answer = client.response();
        assert_eq!(answer.status(), 400, "/models/{up}: {answer:?}");
        assert_eq!(answer.header("x-vhttpd-error-class"), Some("bad_request"), "{up}");
    }
    let seen: Value = serde_json::from_slice(&sent("/api/-/seen").body).expect("what it saw");
    assert!(!seen.to_string().contains("bounds") && !seen.to_string().contains("/x"), "{seen}");
    // Everything else goes on as it came.
    for path in ["/api/a%2Fb", "/api/...", "/api/v1...v2", "/api//x", "/api/%252e%252e/x?y=../z"] {
        let answer = sent(path);
        let (plain, query) = path.split_once('?').unwrap_or((path, ""));
        assert_eq!(answer.status(), 200, "{path}: {answer:?}");
        let seen: Value = serde_json::from_slice(&answer.body).expect("what it saw");
        assert_eq!(seen["path"], format!("/base{plain}"), "{seen}");
        assert!(query.is_empty() || seen.to_string().contains("../z"), "{seen}");
    }
    // Without a route the worker is asked, and sees what came.
    for path in ["/envelope/../x", "/x/%2e%2e/api/y"] {
        let answer = sent(path);
        assert_ne!(answer.status(), 400, "{path}: {answer:?}");
        assert_eq!(server.request_event(path)["worker_id"], 0, "{path}");
    }
}

/// What was never reached did not break off, and what broke off was reached.
#[test]
fn proxy_status_tells_an_upstream_that_is_not_there_from_one_that_breaks() {
    let models = Models::start();
    let nobody = format!("upstream.nobody.url = \"http://127.0.0.1:{}\"\n", closed_port());
    // A label of more than 63 letters: the resolver asks nobody for it.
    let nameless = format!("upstream.nameless.url = \"http://{}.invalid\"\n", "n".repeat(64));
    let route = |name: &str| format!("[[route]]\npath = \"/{name}\"\nto = \"upstream:{name}\"\n");
    let routes = route("nobody") + &route("nameless");
    let server = server(&models, "", "");
    let gone = Server::start_in(Scratch::new(), &format!("{nobody}{nameless}\n{routes}"), &[]);
    for (answer, kind) in [
        (gone.get("/nobody"), "connection_refused"),
        (gone.get("/nameless"), "dns_error"),
        (server.get("/reset"), "connection_terminated"),
    ] {
        assert_eq!(answer.header("x-vhttpd-error-class"), Some("upstream_error"), "{answer:?}");
        let said = format!("hedgerow; error={kind}; details=\"upstream_error\"");
        assert_eq!(answer.header("proxy-status"), Some(said.as_str()), "{answer:?}");
    }
}

#[test]
fn large_bodies_go_both_ways_and_a_request_past_its_bounds_is_refused() {
    let models = Models::start();
    let long: Vec<u8> = (0..300_000).map(|n| (n % 251) as u8).collect();
    // Past this much they wait on disk.
    let server =
        self::server(&models, "body_limit = \"1MiB\"\n", "server.body_memory = \"64KiB\"\n");
    let answer = server.post("/echo", &long);
    assert_eq!((answer.status(), answer.complete), (200, true), "{}", answer.head);
    assert!(answer.body == long, "{} bytes", answer.body.len());
    let refused = server.post("/echo", &vec![0; (1 << 20) + 1]);
    assert_eq!(refused.header("x-vhttpd-error-class"), Some("request_too_large"));
}

#[test]
fn a_call_that_stalls_is_rescued_and_what_fails_is_a_failure() {
    let models = Models::start();
    let server = server(&models, "request_timeout_ms = 1500\n", "");
    let saved = server.get("/silent?attempt=1");
    assert_eq!((saved.status(), saved.header("hedgerow-winner")), (200, Some("hedge")));
    assert!(saved.header("hedgerow-hedged-after-ms").is_some(), "{}", saved.head);
    let own = server.get("/status/500");
    assert_eq!((own.status(), own.header("x-vhttpd-error-class")), (500, None), "its own");
    let switched = server.get("/status/101");
    assert_eq!(switched.status(), 502, "{}", switched.head);
    assert_eq!(switched.header("x-vhttpd-error-class"), Some("upstream_error"));
    let reset = server.get("/reset");
    assert_eq!((reset.status(), reset.text()), (502, "Bad Gateway"));
    assert_eq!(reset.header("x-vhttpd-error-class"), Some("upstream_error"));
    assert_eq!(reset.header("hedgerow-attempts"), Some("1"), "{}", reset.head);
    let silent = server.get("/silent");
    assert_eq!(silent.status(), 504, "{silent:?}");
    assert_eq!(silent.header("x-vhttpd-error-class"), Some("upstream_timeout"));
    let event = server.event("http.request", |event| event["status"] == 504);
    assert_eq!(event["timeout_phase"], "request", "{event}");
}

#[test]
fn a_stream_flows_and_a_client_that_leaves_ends_its_call() {
    let models = Models::start();
    let server = server(&models, "", "");
    let mut client = server.begin("/endless");
    client.up_to(b"\r\n\r\n");
    server.wait_phase("streaming", 1);
    drop(client);
    until("the upstream sees it", || {
        let calls = models.calls("/endless");
        (calls[0]["ended"] == "cancelled").then_some(())
    });
    server.wait_phase("streaming", 0);
}

#[test]
fn without_workers_the_routes_that_lead_elsewhere_are_served() {
    let models = Models::start();
    let upstream = models.config("");
    let route = "\n[[route]]\npath = \"/models/*\"\nto = \"upstream:models\"\n";
    let lines = format!("worker.command = \"\"\n{upstream}{route}");
    let server = Server::start_in(Scratch::new(), &lines, &[]);
    assert_eq!(server.admin_request("GET /ready").status(), 200);
    assert_eq!(server.get("/models/a").status(), 200);
    let mut client = server.connect();
    client.send("POST /hello HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n");
    let nowhere = client.response();
    assert_eq!(nowhere.status(), 404, "said before its body came: {nowhere:?}");
    assert_eq!(nowhere.header("x-vhttpd-error-class"), Some("not_found"));
    server.signal(rustix::process::Signal::HUP);
    server.event("reload.done", |_| true);
    assert_eq!(server.get("/models/b").status(), 200, "a reload changes nothing");
}

#[test]
fn an_upload_through_egress_that_stalls_ends_within_the_bodys_time() {
    let models = Models::start();
    let server = Server::start(&format!("server.body_timeout_ms = 300\n{}", models.config("")));
    for path in ["/models/echo", "/-/batch"] {
        let mut client = Client::connect(egress(&server));
        client.send(format!(
            "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nten bytes."
        ));
        let answer = client.response();
        assert_eq!(answer.status(), 408, "{path}: {answer:?}");
        assert_eq!(answer.header("x-vhttpd-error-class"), Some("request_timeout"));
    }
}

#[test]
fn an_upstream_cannot_speak_of_failures_of_this_gateway() {
    let models = Models::start();
    let near = Server::start(&models.config(""));
    let lines = format!(
        "egress.listen = \"127.0.0.1:0\"\n[upstream.far]\nurl = \"http://{}\"\n",
        egress(&near)
    );
    let server = Server::start(&lines.replace("\n[", "\n\n["));
    let own = through(&near, "/models/reset");
    assert_eq!(own.header("x-vhttpd-error-class"), Some("upstream_error"));
    let passed = through(&server, "/far/models/reset");
    assert_eq!((passed.status(), passed.header("x-vhttpd-error-class")), (502, None));
}
