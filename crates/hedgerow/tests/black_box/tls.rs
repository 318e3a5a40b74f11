//! TLS and HTTP/2 with the client of everybody.

use crate::curl::curl;
use crate::server::{Server, json};
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use rcgen::{CertifiedKey, generate_simple_self_signed};

/// A new certificate and its key, under these names in the directory.
fn certificate(scratch: &Scratch) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    scratch.file("cert.pem", cert.pem());
    scratch.file("key.pem", signing_key.serialize_pem());
}

#[test]
fn both_versions_over_tls_and_a_new_certificate_by_a_reload() {
    let scratch = Scratch::new();
    certificate(&scratch);
    let lines = "server.tls = { cert = \"cert.pem\", key = \"key.pem\" }";
    let server = Server::start_in(scratch, lines, &[]);
    let old = server.scratch.path().join("old.pem");
    std::fs::copy(server.scratch.path().join("cert.pem"), &old).unwrap();
    let url = format!("https://localhost:{}/envelope", server.addr.port());
    let resolve = format!("localhost:{}:127.0.0.1", server.addr.port());
    let trusting = |pem: &str, version: &str| {
        let pem = server.scratch.path().join(pem);
        curl(&["--cacert", pem.to_str().unwrap(), "--resolve", &resolve, version, &url])
    };
    for (version, spoken) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let got = trusting("cert.pem", version);
        assert_eq!((got.code, got.status), (0, 200), "{got:?}");
        let envelope = json(got.text());
        assert_eq!(envelope["scheme"], "https", "{envelope}");
        assert_eq!(envelope["protocol_version"], spoken, "{envelope}");
    }
    // What is no handshake is one event and no request.
    let mut plain = server.begin("/hello");
    plain.rest();
    server.event("http.bad_head", |_| true);

    server.scratch.file("cert.pem", "no certificate");
    server.reload();
    let abandoned = server.event("reload.abandoned", |_| true);
    assert!(abandoned["error"].as_str().unwrap().contains("cert.pem"), "{abandoned}");
    assert_eq!(trusting("old.pem", "--http2").code, 0);
    certificate(&server.scratch);
    server.reload();
    until("the new certificate", || (trusting("cert.pem", "--http2").code == 0).then_some(()));
    assert_eq!(trusting("old.pem", "--http2").code, 60, "curl's word for an unknown issuer");
    let ended = server.stop();
    assert!(!ended.access.iter().any(|line| line["path"] == "/hello"));
}

#[test]
fn failures_look_the_same_over_http_2() {
    let server = Server::start("server.body_limit = 3");
    let over_2 = |args: &[&str], path: &str| {
        let url = format!("http://{}{path}", server.addr);
        // curl 7.88 loses an answer that comes while it still sends its request, and says 92; other
        // clients (nghttp) get it each time.
        until("an answer that curl has seen", || {
            let got = curl(&[&["--http2-prior-knowledge", url.as_str()], args].concat());
            (got.code != 92).then_some(got)
        })
    };
    let rows: [(&[&str], &str, u16, &str, &str); 3] = [
        (&[], "/error", 500, "worker_runtime_error", "Internal Server Error"),
        (&[], "/fault/half", 502, "transport_error", "Bad Gateway"),
        (&["--data", "four"], "/echo", 413, "request_too_large", "Payload Too Large"),
    ];
    for (args, path, status, class, body) in rows {
        let got = over_2(args, path);
        assert_eq!((got.status, got.text()), (status, body), "{got:?}");
        assert_eq!(got.header("x-vhttpd-error-class"), Some(class), "{got:?}");
        assert!(got.header("x-vhttpd-trace-id").is_some(), "{got:?}");
        server.wait_workers(1);
    }
    let head = over_2(&["--head"], "/hello");
    assert_eq!((head.code, head.status, head.header("content-length")), (0, 200, Some("6")));
    assert_eq!(head.text(), head.head, "curl shows the head alone");
}
