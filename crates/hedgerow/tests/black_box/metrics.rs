//! The metrics of a gateway that has seen traffic of every kind: what promtool says of the page, that
//! the reference is the page's, and that dashboard and alerts name nothing else.

use crate::curl::curl;
use crate::server::{HEDGEROW, Server};
use hedgerow_stage::upstream::Upstream;
use hedgerow_testkit::http::{Client, Response};
use hedgerow_testkit::redis::Redis;
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn in_the_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The labels of each metric, by its name on the page.
type Known = BTreeMap<String, BTreeSet<String>>;

/// What the reference on disk says.
fn reference() -> Known {
    let text = std::fs::read_to_string(in_the_repository("docs/metrics.md")).expect("a page");
    let rows = text.lines().filter(|line| line.starts_with("| `hedgerow_"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let plain = |cell: &str| cell.trim_matches([' ', '|', '`']).to_owned();
        let labels = cells[2].split_whitespace().map(plain).collect();
        (plain(cells[0]), labels)
    })
    .collect()
}

/// The samples of a page: name, and the names of the labels.
fn samples(page: &str) -> Vec<(String, BTreeSet<String>)> {
    let lines = page.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (series, _) = line.rsplit_once(' ').expect("a value");
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            // No value here holds a quote or a comma: they are names of a configuration.
            let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
            let labels = labels.map(|label| label.split('=').next().unwrap_or("").to_owned());
            (name.to_owned(), labels.collect())
        })
        .collect()
}

/// The name under which a sample's metric stands in the reference.
fn family<'n>(known: &Known, sample: &'n str) -> &'n str {
    if known.contains_key(sample) {
        return sample;
    }
    let ends = ["_bucket", "_sum", "_count"];
    ends.iter().find_map(|end| sample.strip_suffix(end)).unwrap_or(sample)
}

fn promtool(args: &[&str], input: &str) -> Output {
    let mut command = Command::new("promtool");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool is installed (scripts/tools)");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

/// promtool is content, and has nothing to say.
fn accepted(output: &Output) {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (said(&output.stdout), said(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert!(!err.contains("hedgerow_"), "{err}");
}

fn named(server: &Server, before: &str) -> SocketAddr {
    until(before, || {
        let said = server.stderr();
        let (_, rest) = said.split_once(before)?;
        rest.lines().next()?.split(',').next()?.parse().ok()
    })
}

fn through(egress: SocketAddr, target: &str) -> Response {
    let mut client = Client::connect(egress);
    client.get(target);
    client.response()
}

/// Replies to these inline commands, whatever they are.
fn redis(port: SocketAddr, commands: &[&str]) {
    let mut stream = TcpStream::connect(port).expect("the port listens");
    for command in commands {
        stream.write_all(format!("{command}\r\n").as_bytes()).expect("a command");
        assert!(stream.read(&mut [0; 512]).expect("a reply") > 0);
    }
}

/// Traffic of every kind: methods that exist and one that does not, every protocol, failures,
/// streams, a body on disk, a worker that dies and one that floods its output, calls that are
/// hedged, retried and shed, a batch, plans, and a cache with clients.
fn busy(redis_server: &Redis) -> Server {
    let upstream = Upstream::start("127.0.0.1:0", "models").expect("a port").address();
    let server = Server::start(&format!(
        "cache.store = \"redis://127.0.0.1:{}\"
cache.resp.listen = \"127.0.0.1:0\"
cache.stale_ms = 1000
egress.listen = \"127.0.0.1:0\"
worker.read_timeout_ms = 300
worker.queue_capacity = 5
worker.queue_timeout_ms = 5000
server.body_memory = 100000
plan.allow_hosts = [\"{upstream}\"]
upstream.models.url = \"http://{upstream}\"
upstream.models.hedge.after_ms = 50
upstream.models.retry.max = 1
upstream.models.retry.backoff_ms = 10
upstream.models.breaker.min_throughput = 4
upstream.models.budget.burst = 100",
        redis_server.port
    ));
    assert_eq!(server.get("/hello").status(), 200);
    let mut client = server.connect();
    client.send("BREW /hello HTTP/1.1\r\nhost: a\r\n\r\n");
    client.response();
    assert_eq!(
        curl(&["--http2-prior-knowledge", &format!("http://{}/hello", server.addr)]).status,
        200
    );
    assert_eq!(server.get("/error").status(), 500);
    assert_eq!(server.get("/hang").status(), 504);
    assert_eq!(server.post("/sha1", &vec![b'x'; 500_000]).status(), 200);
    assert_eq!(server.get("/stream/sse?n=2").status(), 200);
    server.begin("/stream/die").rest();
    server.begin("\u{1}").rest();
    let plan = format!("/plan?url=http://{upstream}/model?n=2");
    assert_eq!(server.get(&plan).status(), 200);
    assert_eq!(server.get("/batch?upstream=models&paths=/echo").status(), 200);

    let egress = named(&server, "egress on http://");
    let hedged = through(egress, "/models/silent?ms=300&attempt=1");
    assert_eq!(hedged.header("hedgerow-winner"), Some("hedge"));
    for _ in 0..8 {
        through(egress, "/models/status/503");
    }
    redis(named(&server, "cache on redis://"), &["SET a b", "GET a", "GET none", "DEL a"]);
    server
}

#[test]
fn promtool_reads_the_page_of_a_busy_gateway_and_has_nothing_to_say() {
    let store = Redis::start();
    let server = busy(&store);
    let page = server.admin_request("GET /metrics").text().to_owned();
    accepted(&promtool(&["check", "metrics"], &page));

    let value = |series: &str| {
        let line = page.lines().find(|line| line.starts_with(&format!("hedgerow_{series} ")));
        let line = line.unwrap_or_else(|| panic!("{series} is missing:\n{page}"));
        line.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok()).expect("a number")
    };
    let other = "method=\"OTHER\",status=\"200\",error_class=\"none\"";
    assert!(value(&format!("http_requests_total{{{other}}}")) >= 1.0);
    assert!(value("bodies_spooled_total") >= 1.0);
    assert!(value("body_spool_bytes") < 1.0, "a body that is over is gone");
    assert!(value("hedges_total{upstream=\"models\",outcome=\"won\"}") >= 1.0);
    assert!(value("upstream_calls_total{upstream=\"url\",outcome=\"success\"}") >= 1.0);
    assert!(value("upstream_calls_total{upstream=\"models\",outcome=\"shed\"}") >= 1.0);
    assert!(value("breaker_state{name=\"models\"}") >= 2.0);
    assert!(value("hedge_threshold_seconds{upstream=\"models\"}") > 0.0499);
    assert!(value("plans_total") >= 2.0);
    assert!(value("ledger_keys") >= 3.0);
    assert!(value("cache_reads_total{result=\"hit\"}") >= 1.0);
    assert!(value("cache_commands_total") >= 4.0);
    assert!(
        value("connections_limit") >= 10_000.0 && value("egress_connections_limit") >= 10_000.0
    );
    assert!(value("worker_restarts_total{reason=\"timeout\"}") >= 1.0);
    assert!(value("cache_store_lanes{state=\"connected\"}") >= 1.0);
    server.stop();
}

/// In both directions: the page has no series that the reference does not describe, with exactly its
/// labels, and everything the reference describes is on the page.
#[test]
fn the_reference_is_what_the_page_shows() {
    let store = Redis::start();
    let server = busy(&store);
    let page = server.admin_request("GET /metrics").text().to_owned();
    server.stop();
    let embedded = Server::start("cache.resp.listen = \"127.0.0.1:0\"");
    let embedded = embedded.admin_request("GET /metrics").text().to_owned();

    let known = reference();
    for (sample, mut labels) in samples(&page).into_iter().chain(samples(&embedded)) {
        let family = family(&known, &sample);
        let described = known.get(family).unwrap_or_else(|| panic!("{sample} is not described"));
        labels.remove("le");
        assert_eq!(&labels, described, "{sample}");
    }
    let typed = |page: &str| -> BTreeSet<String> {
        let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types.map(|line| line.split(' ').next().unwrap_or("").to_owned()).collect()
    };
    let shown: BTreeSet<String> = typed(&page).into_iter().chain(typed(&embedded)).collect();
    assert_eq!(shown, known.into_keys().collect());
}

#[test]
fn the_reference_on_disk_is_the_one_of_the_program() {
    let made = Command::new(HEDGEROW).args(["docs", "metrics"]).output().expect("it runs");
    let on_disk = std::fs::read(in_the_repository("docs/metrics.md")).unwrap_or_default();
    assert!(on_disk == made.stdout, "run: hedgerow docs metrics > docs/metrics.md");
}

#[test]
fn lines_that_a_worker_prints_too_fast_are_counted() {
    let scratch = Scratch::new();
    scratch.file("flood.sh", format!("seq 30000 >&2\nexec {HEDGEROW} stage worker \"$@\"\n"));
    let server = Server::start_in(scratch, "worker.command = \"sh flood.sh\"", &[]);
    let lost = "worker_output_dropped_total{reason=\"too_fast\"}";
    until("lines are dropped", || server.metric(lost).filter(|lines| *lines > 0.0));
    let taken = "worker_output_lines_total{stream=\"stderr\"}";
    until("all lines are accounted for", || {
        let lines = server.metric(lost)? + server.metric(taken)?;
        (lines >= 30_000.0).then_some(())
    });
}
