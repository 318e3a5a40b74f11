//! Traces, read by OpenTelemetry's own types: what a collector gets, and what one that fails costs.

use crate::server::Server;
use hedgerow_testkit::http::Client;
use hedgerow_testkit::until::until;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// How a collector treats what it is sent.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Takes,
    Refuses,
    Hangs,
}

/// A collector on a thread of its own, until the test's process ends.
struct Collector {
    addr: SocketAddr,
    came: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

impl Collector {
    fn start(manner: Manner) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("an address");
        let came: Arc<Mutex<Vec<_>>> = Arc::default();
        let into = Arc::clone(&came);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let into = Arc::clone(&into);
                std::thread::spawn(move || converse(&stream, manner, &into));
            }
        });
        Collector { addr, came }
    }

    fn exports(&self) -> usize {
        self.came.lock().expect("no thread panicked").len()
    }

    fn spans(&self) -> Vec<Span> {
        let came = self.came.lock().expect("no thread panicked");
        let resources = came.iter().flat_map(|export| &export.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// Waits until the spans of this trace are so many.
    fn trace(&self, trace: &str, count: usize) -> Vec<Span> {
        until(&format!("{count} spans"), || {
            let mut spans = self.spans();
            spans.retain(|span| hex(&span.trace_id) == trace);
            (spans.len() >= count).then_some(spans)
        })
    }

    fn config(&self) -> String {
        format!("telemetry.otlp_endpoint = \"http://{}\"\n", self.addr)
    }
}

fn converse(
    stream: &TcpStream,
    manner: Manner,
    came: &Mutex<Vec<ExportTraceServiceRequest>>,
) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let lower = line.trim().to_ascii_lowercase();
            if lower.starts_with("post ") {
                assert_eq!(lower, "post /v1/traces http/1.1");
            }
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if lower.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let export = ExportTraceServiceRequest::decode(&body[..]).expect("OTLP");
        came.lock().expect("no thread panicked").push(export);
        let answer: &[u8] = match manner {
            Manner::Takes => b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            Manner::Refuses => b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
            // Until the other side gives up.
            Manner::Hangs => return reader.read_exact(&mut [0]).ok(),
        };
        { stream }.write_all(answer).ok()?;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(flag) => flag.to_string(),
        other => panic!("{other:?}"),
    })
}

fn named<'s>(spans: &'s [Span], name: &str) -> Vec<&'s Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn server_span(spans: &[Span]) -> &Span {
    let is = |span: &&Span| span.kind == i32::from(SpanKind::Server);
    let all: Vec<&Span> = spans.iter().filter(is).collect();
    assert_eq!(all.len(), 1, "{spans:?}");
    all[0]
}

fn lies_within(part: &Span, whole: &Span) {
    assert_eq!(part.parent_span_id, whole.span_id, "{part:?}");
    let (start, end) = (part.start_time_unix_nano, part.end_time_unix_nano);
    assert!(start <= end, "{part:?}");
    // The clocks of the two records are compared once each: what lies between is far below this.
    let slack = 5_000_000;
    assert!(start + slack >= whole.start_time_unix_nano, "{part:?} {whole:?}");
    assert!(end <= whole.end_time_unix_nano + slack, "{part:?} {whole:?}");
}

fn code(span: &Span) -> i32 {
    span.status.as_ref().map_or(0, |status| status.code)
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn get(server: &Server, target: &str, header: &str) -> hedgerow_testkit::http::Response {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nhost: shop.example:81\r\n{header}\r\n\r\n"));
    client.response()
}

#[test]
fn a_hedged_batch_is_a_tree() {
    let collector = Collector::start(Manner::Takes);
    let upstream = |name| {
        let upstream = hedgerow_stage::upstream::Upstream::start("127.0.0.1:0", name);
        format!("http://{}", upstream.expect("it runs").address())
    };
    let (one, two) = (upstream("one"), upstream("two"));
    let server = Server::start(&format!(
        "{}telemetry.service_name = \"shop\"\n
[upstream.demo]\nendpoints = [{one:?}, {two:?}]\nhedge = {{ after_ms = 60 }}\n",
        collector.config()
    ));
    let parent = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: vendor=1");
    let answer = get(&server, "/batch?paths=/silent%3Fattempt=1,/ok", &parent);
    assert_eq!(answer.status(), 200);
    // The request, two exchanges with a worker, and three attempts.
    let spans = collector.trace(TRACE, 6);
    assert_eq!(spans.len(), 6, "{spans:?}");
    let root = server_span(&spans);
    assert_eq!(hex(&root.parent_span_id), PARENT);
    assert_eq!((root.name.as_str(), root.trace_state.as_str(), code(root)), ("GET", "vendor=1", 0));
    for (key, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/batch"),
        ("url.scheme", "http"),
        ("http.response.status_code", "200"),
        ("client.address", "127.0.0.1"),
        ("server.address", "shop.example"),
        ("server.port", "81"),
        ("network.protocol.version", "1.1"),
        ("hedgerow.trace_id", TRACE),
    ] {
        assert_eq!(attribute(root, key).as_deref(), Some(value), "{key}");
    }
    let exchanges = named(&spans, "worker exchange");
    assert_eq!(exchanges.len(), 2);
    exchanges.iter().for_each(|exchange| lies_within(exchange, root));
    let attempts: Vec<&Span> =
        spans.iter().filter(|span| span.kind == i32::from(SpanKind::Client)).collect();
    assert_eq!(attempts.len(), 3);
    attempts.iter().for_each(|attempt| lies_within(attempt, root));
    let of = |outcome: &str, role: &str| {
        let is = |span: &&&Span| {
            attribute(span, "hedgerow.attempt.outcome").as_deref() == Some(outcome)
                && attribute(span, "hedgerow.attempt.role").as_deref() == Some(role)
        };
        attempts.iter().find(is).copied().unwrap_or_else(|| panic!("{outcome} {role}: {spans:?}"))
    };
    let loser = of("lost", "primary");
    assert_eq!(attribute(loser, "superseded").as_deref(), Some("true"));
    assert_eq!((code(loser), attribute(loser, "error.type")), (0, None));
    let winner = of("won", "hedge");
    assert_eq!(attribute(winner, "http.response.status_code").as_deref(), Some("200"));
    assert_eq!(attribute(winner, "superseded"), None);
    assert!(winner.start_time_unix_nano >= loser.start_time_unix_nano + 50_000_000);
    // The upstream was called as that span: its answer says what it was sent.
    let sent = answer.text().replace('\\', "");
    let span = hex(&winner.span_id);
    assert!(sent.contains(&format!("00-{TRACE}-{span}-01")), "{span}: {sent}");
    let came = collector.came.lock().expect("no thread panicked");
    let resource = came[0].resource_spans[0].resource.clone().expect("a resource");
    let name = resource.attributes.iter().find(|attribute| attribute.key == "service.name");
    assert!(format!("{name:?}").contains("shop"), "{resource:?}");
}

#[test]
fn a_wait_a_timeout_and_what_the_worker_is_told() {
    let collector = Collector::start(Manner::Takes);
    let server = Server::start(&format!(
        "{}worker.read_timeout_ms = 400\nworker.queue_capacity = 5\nworker.queue_timeout_ms = 20000",
        collector.config()
    ));
    let mut first = server.connect();
    first.send("GET /hang HTTP/1.1\r\nhost: a\r\nx-request-id: job:7\r\n\r\n");
    server.wait_phase("working", 1);
    let waits = "4bf92f3577b34da6a3ce929d0e0e4736";
    let answer = get(&server, "/envelope", &format!("x-trace-id: {waits}"));
    assert_eq!((first.response().status(), answer.status()), (504, 200));
    let spans = collector.trace(waits, 3);
    let root = server_span(&spans);
    assert!(root.parent_span_id.is_empty(), "{root:?}");
    let [wait] = named(&spans, "wait for a worker").try_into().expect("one wait");
    lies_within(wait, root);
    let [exchange] = named(&spans, "worker exchange").try_into().expect("one exchange");
    lies_within(exchange, root);
    assert!(wait.end_time_unix_nano <= exchange.start_time_unix_nano);
    let told = format!("00-{waits}-{}-01", hex(&root.span_id));
    assert!(answer.text().contains(&told), "{told}: {}", answer.text());
    // An id that is no trace id of OTLP is hashed, and told as it is.
    let hung = until("the trace of job:7", || {
        let is = |span: &Span| attribute(span, "hedgerow.trace_id").as_deref() == Some("job:7");
        collector.spans().into_iter().find(is)
    });
    assert_eq!(hung.trace_id.len(), 16);
    assert_eq!((code(&hung), attribute(&hung, "error.type").as_deref()), (2, Some("timeout")));
    let spans = collector.trace(&hex(&hung.trace_id), 2);
    let [exchange] = named(&spans, "worker exchange").try_into().expect("one exchange");
    assert_eq!(
        (code(exchange), attribute(exchange, "error.type").as_deref()),
        (2, Some("timeout"))
    );
}

#[test]
fn what_is_not_sampled_is_not_sent() {
    let collector = Collector::start(Manner::Takes);
    let server = Server::start(&format!("{}telemetry.otlp_sample = 0.0", collector.config()));
    let not = format!("traceparent: 00-{TRACE}-{PARENT}-00");
    assert_eq!(get(&server, "/hello", &not).status(), 200);
    assert_eq!(get(&server, "/hello", "x-trace-id: new").status(), 200);
    let wanted = "4bf92f3577b34da6a3ce929d0e0e4736";
    let sampled = format!("traceparent: 00-{wanted}-{PARENT}-01");
    assert_eq!(get(&server, "/hello", &sampled).status(), 200);
    collector.trace(wanted, 2);
    let all = collector.spans();
    assert!(all.iter().all(|span| hex(&span.trace_id) == wanted), "{all:?}");
}

/// So many requests are answered as if there were no collector.
fn unaffected(server: &Server, count: usize) {
    let mut client: Client = server.connect();
    for _ in 0..count {
        client.get("/hello");
        assert_eq!(client.response().status(), 200);
    }
}

#[test]
fn a_collector_that_hangs_costs_spans_and_nothing_else() {
    let collector = Collector::start(Manner::Hangs);
    let server = Server::start(&format!("{}telemetry.otlp_queue = 5", collector.config()));
    unaffected(&server, 1);
    until("an export under way", || (collector.exports() > 0).then_some(()));
    unaffected(&server, 40);
    let full = "trace_spans_dropped_total{reason=\"queue_full\"}";
    assert!(server.metric(full) >= Some(35.0), "{:?}", server.metric(full));
    assert_eq!(server.metric("trace_queue"), Some(5.0));
    assert_eq!(server.metric("trace_queue_limit"), Some(5.0));
    assert_eq!(server.metric("trace_spans_sent_total"), Some(0.0));
    // Neither does the end wait for it: the stop below is bounded by two seconds, the test by more.
    server.stop();
}

#[test]
fn a_collector_that_refuses_or_is_gone_costs_spans_and_nothing_else() {
    let refuses = Collector::start(Manner::Refuses).config();
    let gone = "telemetry.otlp_endpoint = \"http://127.0.0.1:1\"\n".to_owned();
    for config in [refuses, gone] {
        let server = Server::start(&config);
        unaffected(&server, 20);
        let lost = "trace_spans_dropped_total{reason=\"collector\"}";
        until("lost spans", || (server.metric(lost) > Some(0.0)).then_some(()));
        unaffected(&server, 20);
        assert_eq!(server.metric("trace_spans_sent_total"), Some(0.0));
        server.stop();
    }
}

#[test]
fn what_waits_at_the_end_is_sent() {
    let collector = Collector::start(Manner::Takes);
    let server = Server::start(&collector.config());
    unaffected(&server, 30);
    server.stop();
    let requests =
        collector.spans().iter().filter(|s| s.kind == i32::from(SpanKind::Server)).count();
    assert_eq!(requests, 30);
}
