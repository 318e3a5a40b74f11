//! TLS to upstreams, and the versions of HTTP: against another Hedgerow, and against Python's own
//! server.

use crate::models::egress;
use crate::server::{HEDGEROW, Server, json};
use hedgerow_testkit::http::{Client, Response};
use hedgerow_testkit::processes::Leashed;
use hedgerow_testkit::scratch::Scratch;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A new certificate and its key in the directory.
fn certificate(scratch: &Scratch) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    scratch.file("cert.pem", cert.pem());
    scratch.file("key.pem", signing_key.serialize_pem());
}

fn call(server: &Server, path: &str) -> Response {
    let mut client = Client::connect(egress(server));
    client.get(path);
    client.response()
}

#[test]
fn its_own_authorities_and_its_version_of_http() {
    let scratch = Scratch::new();
    certificate(&scratch);
    let ca = scratch.path().join("cert.pem");
    let tls = "server.tls = { cert = \"cert.pem\", key = \"key.pem\" }";
    let back = Server::start_in(scratch, tls, &[]);
    let plain = Server::start("");
    let secure = format!("https://localhost:{}", back.addr.port());
    let front = Server::start(&format!(
        "egress.listen = \"127.0.0.1:0\"\n\
         upstream.own = {{ url = {secure:?}, tls_ca = {ca:?} }}\n\
         upstream.one = {{ url = {secure:?}, tls_ca = {ca:?}, protocol = \"http1\" }}\n\
         upstream.two = {{ url = {secure:?}, tls_ca = {ca:?}, protocol = \"http2\" }}\n\
         upstream.public = {{ url = {secure:?} }}\n\
         upstream.plain = {{ url = \"http://{0}\" }}\n\
         upstream.prior = {{ url = \"http://{0}\", protocol = \"http2\" }}\n",
        plain.addr
    ));
    for (name, spoken, scheme) in [
        ("own", "2", "https"),
        ("one", "1.1", "https"),
        ("two", "2", "https"),
        ("plain", "1.1", "http"),
        ("prior", "2", "http"),
    ] {
        let answer = call(&front, &format!("/{name}/envelope"));
        assert_eq!(answer.status(), 200, "{name}: {answer:?}");
        let seen = json(answer.text());
        assert_eq!((&seen["protocol_version"], &seen["scheme"]), (&spoken.into(), &scheme.into()));
    }
    let stranger = call(&front, "/public/envelope");
    assert_eq!(stranger.status(), 502, "an authority that nobody vouches for: {stranger:?}");
    assert_eq!(stranger.header("x-vhttpd-error-class"), Some("upstream_error"));
    let said = stranger.header("proxy-status").unwrap_or_default();
    assert!(said.contains("error=tls_certificate_error;"), "{stranger:?}");
}

const PYTHON: &str = r#"
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = ("python " + self.path).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

#[test]
fn a_server_that_speaks_the_older_version_alone() {
    let scratch = Scratch::new();
    certificate(&scratch);
    let mut python = Command::new("python3");
    python.args(["-c", PYTHON]).current_dir(scratch.path()).stdout(Stdio::piped());
    let mut python = Leashed(python.spawn().expect("python3 is installed"));
    let mut port = String::new();
    BufReader::new(python.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let (ca, port) = (scratch.path().join("cert.pem"), port.trim());
    let front = Server::start(&format!(
        "egress.listen = \"127.0.0.1:0\"\n\
         upstream.own = {{ url = \"https://localhost:{port}\", tls_ca = {ca:?} }}\n"
    ));
    for _ in 0..2 {
        let answer = call(&front, "/own/x");
        assert_eq!((answer.status(), answer.text()), (200, "python /x"), "{answer:?}");
    }
}

#[test]
fn a_file_of_authorities_that_is_not_there_is_said_before_the_start() {
    let scratch = Scratch::new();
    let lines = "upstream.own = { url = \"https://a\", tls_ca = \"nowhere.pem\" }\n";
    scratch.file("hedgerow.toml", format!("worker.command = \"true\"\n{lines}"));
    let check = Command::new(HEDGEROW).arg("check").current_dir(scratch.path()).output().unwrap();
    let said = String::from_utf8_lossy(&check.stderr);
    assert_eq!(check.status.code(), Some(2), "{said}");
    assert!(said.contains("upstream.own.tls_ca") && said.contains("nowhere.pem"), "{said}");
}
