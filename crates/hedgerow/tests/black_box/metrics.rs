//! The metrics of a gateway that has seen traffic of every kind: what promtool says of the page, that
//! the reference is the page's, and that dashboard and alerts name nothing else.

use crate::curl::curl;
use crate::server::{HEDGEROW, Server};
use hedgerow_stage::upstream::Upstream;
use hedgerow_testkit::http::{Client, Response};
use hedgerow_testkit::redis::Redis;
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use serde_json::{Value, json};
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

/// The metrics that a text names, each with the labels that stand in braces behind it.
fn named_in(text: &str) -> Vec<(String, BTreeSet<String>)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("hedgerow_") {
        let tail = &rest[at..];
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = tail.find(|c| !word(c)).unwrap_or(tail.len());
        let matchers = tail[end..].strip_prefix('{').and_then(|inner| inner.split('}').next());
        let labels = matchers.unwrap_or("").split(',').filter_map(|matcher| {
            let label = matcher.trim().split(['=', '!']).next()?;
            (!label.is_empty()).then(|| label.to_owned())
        });
        found.push((tail[..end].to_owned(), labels.collect()));
        rest = &tail[end..];
    }
    found
}

/// The labels that an expression groups by, and those that a template takes out of its result.
fn grouped_by(text: &str) -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    for before in ["by (", "on (", "group_left ("] {
        for part in text.split(before).skip(1) {
            let list = part.split(')').next().unwrap_or("");
            labels.extend(list.split(',').map(|label| label.trim().to_owned()));
        }
    }
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for part in text.split("$labels.").skip(1) {
        labels.insert(part.split(|c| !word(c)).next().unwrap_or("").to_owned());
    }
    labels
}

/// What Prometheus adds to each series, and to those of a histogram.
const ADDED: [&str; 3] = ["job", "instance", "le"];

/// Every metric that a text names is in the reference, and so is each label, of that metric or, for
/// those that are grouped by, of one of them.
fn all_there(known: &Known, whose: &str, text: &str) {
    let is_added = |label: &String| ADDED.contains(&label.as_str());
    let mut of_any = BTreeSet::new();
    for (name, labels) in named_in(text) {
        let family = family(known, &name);
        let described = known.get(family).unwrap_or_else(|| panic!("{whose}: {name} is not there"));
        for label in labels.iter().filter(|label| !is_added(label)) {
            assert!(described.contains(label), "{whose}: {name} has no label {label}");
        }
        of_any.extend(described);
    }
    for label in grouped_by(text).iter().filter(|label| !is_added(label)) {
        assert!(of_any.contains(label), "{whose}: nothing here has a label {label}");
    }
}

#[test]
fn alerts_are_tested_and_name_what_is_there() {
    let folder = in_the_repository("deploy/prometheus");
    let promtool = |args: [&str; 3]| {
        let mut command = Command::new("promtool");
        let output = command.args(args).current_dir(&folder).output();
        let output = output.expect("promtool is installed (scripts/tools)");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    };
    let rules = std::fs::read_to_string(folder.join("alerts.yml")).expect("a file");
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    let said = promtool(["check", "rules", "alerts.yml"]);
    assert!(said.contains(&format!("{} rules found", alerts.len())), "{said}");
    promtool(["test", "rules", "alerts_test.yml"]);

    let known = reference();
    all_there(&known, "alerts.yml", &rules);
    for alert in alerts {
        let name = alert.lines().next().unwrap_or("");
        all_there(&known, name, alert);
        for part in ["expr: ", "\n        for: ", "severity: ", "summary: ", "First: "] {
            assert!(alert.contains(part), "{name} has no {part:?}");
        }
    }
}

#[test]
fn the_dashboard_of_grafana_names_what_is_there() {
    let text = std::fs::read_to_string(in_the_repository("deploy/grafana/hedgerow.json"));
    let dashboard: Value = serde_json::from_str(&text.expect("a file")).expect("JSON");
    let known = reference();
    let (mut ids, mut places, mut rules) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64()), "{title}: the id of another panel");
        let at = |side: &str| panel["gridPos"][side].as_u64().expect("a place");
        for (x, y) in (0..at("w")).flat_map(|x| (0..at("h")).map(move |y| (x, y))) {
            assert!(places.insert((at("x") + x, at("y") + y)), "{title}: over another panel");
        }
        assert!(at("x") + at("w") <= 24, "{title}");
        if panel["type"] == "row" {
            continue;
        }
        let about = panel["description"].as_str().unwrap_or("");
        assert!(about.len() > 20, "{title} says nothing of itself");
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            let expr = target["expr"].as_str().expect("an expression");
            let shown = target["legendFormat"].as_str().expect("a legend");
            let legend = shown.replace("{{", "$labels.").replace("}}", " ");
            all_there(&known, title, &format!("{expr} {legend}"));
            let expr = expr.replace("$__rate_interval", "1m");
            rules.push(json!({"record": format!("panel:{}", rules.len()), "expr": expr}));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().expect("variables") {
        all_there(&known, "a variable", variable["definition"].as_str().unwrap_or(""));
    }
    // The expressions as rules, which is how promtool reads them. JSON is YAML.
    let scratch = Scratch::new();
    let file = json!({"groups": [{"name": "panels", "rules": rules}]});
    let file = scratch.file("panels.yml", file.to_string());
    accepted(&promtool(&["check", "rules", file.to_str().expect("a path")], ""));
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
