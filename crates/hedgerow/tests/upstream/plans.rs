//! Plans that go wrong, and fixtures (the plan cases of the failure model), asked for by the
//! scripted worker.

use crate::models::{Models, closed_port};
use crate::server::Server;
use hedgerow_testkit::http::{Client, Response};
use hedgerow_testkit::scratch::Scratch;

/// A plan for a path of `models` (escaped as a query value), as events or as text.
fn plan(server: &Server, path: &str, output: &str) -> Response {
    let path = path.replace('?', "%3F").replace('&', "%26");
    let codec = format!("codec=ndjson&mapper=ndjson_{output}_field&output_stream_type={output}");
    let mut client = Client::connect(server.addr);
    client.send(format!(
        "GET /plan?upstream=models&path={path}&{codec}&field_path=message.content HTTP/1.1\r\n\
         host: a\r\nx-trace-id: T-1\r\n\r\n"
    ));
    client.response()
}

/// What a client of events is told at the end of a failure: its class, its trace, no more.
const ERROR: &str =
    "event: error\ndata: {\"error_class\":\"upstream_error\",\"trace_id\":\"T-1\"}\n\n";

fn plan_errors(server: &Server) -> u64 {
    server.stats()["upstream_plan_errors_total"].as_u64().expect("a count")
}

#[test]
fn case_30_an_upstream_that_is_not_there() {
    let server =
        Server::start(&format!("upstream.models.url = \"http://127.0.0.1:{}\"\n", closed_port()));
    let events = plan(&server, "/x", "sse");
    assert_eq!(events.status(), 502, "{events:?}");
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    assert_eq!(events.header("x-vhttpd-error-class"), Some("upstream_error"));
    assert_eq!(events.text(), format!("{ERROR}id: done-1\nevent: done\ndata: done\n\n"));
    let text = plan(&server, "/x", "text");
    assert_eq!((text.status(), text.text()), (502, "Bad Gateway"), "{text:?}");
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(plan_errors(&server), 2);
    let event = server.request_event("/plan");
    assert_eq!((&event["status"], &event["error_class"]), (&502.into(), &"upstream_error".into()));
}

#[test]
fn case_31_an_upstream_that_dies_behind_two_rows() {
    let models = Models::start();
    let server = Server::start(&models.config(""));
    let events = plan(&server, "/model?n=5&ms=1&break=2", "sse");
    assert_eq!((events.status(), events.complete), (200, true), "{events:?}");
    let pieces = "id: tok-1\nevent: token\ndata: The\n\nid: tok-2\nevent: token\ndata:  hedge\n\n";
    let done = "id: done-3\nevent: done\ndata: done\n\n";
    assert_eq!(events.text(), format!("{pieces}{ERROR}{done}"));
    let text = plan(&server, "/model?n=5&ms=1&break=2", "text");
    assert_eq!((text.status(), text.text()), (200, "The hedge\n[upstream_error T-1]\n"));
    let failed = server.event("http.stream.error", |_| true);
    assert_eq!(failed["error_class"], "upstream_error", "{failed}");
}

#[test]
fn case_32_a_row_that_is_no_json_ends_like_an_upstream_that_dies() {
    let models = Models::start();
    let server = Server::start(&models.config(""));
    let text = plan(&server, "/model?n=5&ms=1&nonsense=3", "text");
    assert_eq!((text.status(), text.text()), (200, "The hedge\n[upstream_error T-1]\n"));
    let events = plan(&server, "/model?n=5&ms=1&nonsense=3", "sse");
    assert!(events.text().contains("id: tok-2\n") && events.text().contains(ERROR), "{events:?}");
    let failed = server.event("http.stream.error", |_| true);
    assert!(failed["error_message"].as_str().unwrap().contains("not JSON"), "{failed}");
    models.wait("nobody reads on", "/model", |calls| calls.iter().all(|c| c["ended"] != "open"));
}

#[test]
fn case_33_a_status_that_a_plan_does_not_accept() {
    let models = Models::start();
    let server = Server::start(&models.config(""));
    for path in ["/status/500", "/status/404", "/status/302"] {
        let response = plan(&server, path, "text");
        assert_eq!((response.status(), response.text()), (502, "Bad Gateway"), "{path}");
        assert_eq!(response.header("x-vhttpd-error-class"), Some("upstream_error"), "{path}");
    }
}

#[test]
fn case_34_a_bare_url_needs_its_place_on_the_list() {
    let models = Models::start();
    let at = models.address();
    let server = Server::start(&format!("plan.allow_hosts = [\"{at}\"]\n"));
    let get = |authority: &str| {
        server.get(&format!("/plan?url=http://{authority}/model%3Fn=1%26ms=1&field_path=response"))
    };
    assert_eq!(get(&at.to_string()).text(), "The");
    for other in [format!("127.0.0.1:{}", closed_port()), "169.254.169.254".to_owned()] {
        let response = get(&other);
        assert_eq!(response.header("x-vhttpd-error-class"), Some("upstream_forbidden"), "{other}");
        let status = response.header("proxy-status").unwrap_or_default();
        assert!(status.contains("error=destination_ip_prohibited"), "{response:?}");
    }
}

#[test]
fn case_34_a_fixture_is_read_inside_its_folder_alone() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path().join("fixtures")).expect("a directory");
    scratch.file("fixtures/rows.ndjson", "{\"a\":\"one \"}\n{\"a\":\"two\"}\n");
    scratch.file("secret.ndjson", "{\"a\":\"secret\"}\n");
    let lines = "plan.allow_fixtures = true\nplan.fixture_root = \"fixtures\"\n";
    let server = Server::start_in(scratch, lines, &[]);
    let fixture = |path: &str| server.get(&format!("/plan?field_path=a&fixture_path={path}"));
    assert_eq!(fixture("rows.ndjson").text(), "one two");
    for outside in ["../secret.ndjson", "/etc/passwd"] {
        let response = fixture(outside);
        assert_eq!(response.status(), 502, "{outside}: {response:?}");
        let class = response.header("x-vhttpd-error-class");
        assert_eq!(class, Some("upstream_forbidden"), "{outside}");
    }
}
