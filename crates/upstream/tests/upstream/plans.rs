//! Cases 29–34 of cases/workers.md: plans.

use crate::batches::{context, plan_settings};
use crate::calls::{client, rules, settings};
use crate::network::{End, Network, refuses, says, silent, streams};
use hedgerow_policy::failure::Class;
use hedgerow_upstream::{AllowList, Opened, Piece, PlanFailure, PlanSettings, PlanStream};
use serde_json::{Value, json};
use std::sync::Arc;

fn opened(network: &Arc<Network>, plan: PlanSettings) -> Opened {
    Opened::new(client(network, settings(rules())), plan).unwrap()
}

async fn open(opened: &Opened, extra: Value) -> Result<PlanStream, PlanFailure> {
    let mut frame = json!({
        "strategy": "upstream_plan", "id": "T", "upstream": "models", "path": "/x",
        "codec": "ndjson", "meta": {"field_path": "t"},
    });
    for (name, value) in extra.as_object().unwrap() {
        frame[name] = value.clone();
    }
    opened.open_frame(frame.to_string().as_bytes(), context()).await
}

/// The output, and whether it failed.
async fn output(mut stream: PlanStream) -> (String, Option<Class>) {
    let mut text = String::new();
    while let Some(piece) = stream.next().await {
        match piece {
            Piece::Bytes(bytes) => text.push_str(std::str::from_utf8(&bytes).unwrap()),
            Piece::Failed { failure, ending } => {
                text.push_str(std::str::from_utf8(&ending.unwrap_or_default()).unwrap());
                assert!(stream.next().await.is_none());
                return (text, Some(failure.class));
            }
        }
    }
    (text, None)
}

const ROWS: &[(u64, &str)] = &[(0, "{\"t\":\"a\"}\n{\"t\""), (5, ":\"b\"}\n")];

#[tokio::test(start_paused = true)]
async fn rows_are_streamed_as_they_come() {
    let network = Network::new();
    network.script("/x", vec![streams("application/x-ndjson", ROWS.to_vec(), End::Complete)]);
    let opened = opened(&network, plan_settings());
    let mut stream = open(&opened, json!({"name": "chat"})).await.unwrap();
    assert_eq!((network.second(), stream.content_type()), (1, "text/plain; charset=utf-8"));
    let Some(Piece::Bytes(first)) = stream.next().await else { panic!() };
    assert_eq!((&first[..], network.second()), (&b"a"[..], 1));
    let session = &opened.sessions().list(0, 10)[0];
    assert_eq!((session.name.as_str(), session.mapper), ("chat", "ndjson_text_field"));
    assert_eq!(output(stream).await, ("b".into(), None));
    assert_eq!(
        (network.second(), opened.sessions().active(), opened.sessions().opened()),
        (6, 0, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_plan_whose_call_stalls_gets_a_twin() {
    let network = Network::new();
    network.script(
        "/x",
        vec![silent(), streams("application/x-ndjson", ROWS.to_vec(), End::Complete)],
    );
    let stream = open(&opened(&network, plan_settings()), json!({})).await.unwrap();
    assert_eq!(network.second(), 101);
    assert_eq!(output(stream).await.0, "ab");
    // Or earlier, if the plan says so.
    let says = json!({"hedge": {"after_ms": 7000}});
    open(&opened(&network, plan_settings()), says).await.unwrap();
    assert_eq!(network.second(), 101 + 5 + 8);
}

#[tokio::test(start_paused = true)]
async fn case_29_what_nobody_does_is_named() {
    let network = Network::new();
    let opened = opened(&network, plan_settings());
    for (what, class) in [
        (json!({"transport": "ws"}), Class::UnsupportedTransport),
        (json!({"codec": "xml"}), Class::UnsupportedCodec),
        (json!({"mapper": "x"}), Class::UnsupportedMapper),
        (json!({"upstream": "nope"}), Class::UpstreamForbidden),
    ] {
        let failure = open(&opened, what).await.err().unwrap();
        assert_eq!((failure.failure.class, failure.events), (class, None));
    }
}

#[tokio::test(start_paused = true)]
async fn cases_30_and_33_early_failures_have_their_form() {
    let network = Network::new();
    network.script("/x", vec![refuses(1, 500)]);
    network.script("/302", vec![refuses(1, 302)]);
    let opened = opened(&network, plan_settings());
    for path in ["/x", "/302"] {
        let failure = open(&opened, json!({"path": path})).await.err().unwrap();
        assert_eq!((failure.failure.class, failure.events), (Class::UpstreamError, None));
    }
    let failure = open(&opened, json!({"mapper": "ndjson_sse_field"})).await.err().unwrap();
    let events = String::from_utf8(failure.events.unwrap().to_vec()).unwrap();
    let names: Vec<&str> = events.lines().filter(|line| line.starts_with("event")).collect();
    assert_eq!(names, ["event: error", "event: done"]);
    assert!(events.contains("{\"error_class\":\"upstream_error\",\"trace_id\":\"T\"}"), "{events}");
}

#[tokio::test(start_paused = true)]
async fn cases_31_and_32_late_failures_keep_the_status() {
    let network = Network::new();
    let nonsense = vec![(0, "{\"t\":\"a\"}\n{\"t\":\"b\"}\nnonsense\n")];
    // What is written last before a break may be lost with it: here that is an empty row.
    let rows = [ROWS, &[(6, "\n")]].concat();
    network.script("/x", vec![streams("application/x-ndjson", rows, End::Breaks)]);
    network.script("/y", vec![streams("application/x-ndjson", nonsense, End::Silence)]);
    let opened = opened(&network, plan_settings());
    for path in ["/x", "/y"] {
        let stream = open(&opened, json!({"path": path})).await.unwrap();
        let (text, class) = output(stream).await;
        assert_eq!(
            (text.as_str(), class),
            ("ab\n[upstream_error T]\n", Some(Class::UpstreamError))
        );
        let events = json!({"path": path, "mapper": "ndjson_sse_field"});
        let (text, _) = output(open(&opened, events).await.unwrap()).await;
        let ids: Vec<&str> = text.lines().filter(|line| line.starts_with("id")).collect();
        assert_eq!(ids, ["id: tok-1", "id: tok-2", "id: done-3"], "{text}");
        assert!(text.contains("event: error\n"));
    }
    assert_eq!(
        network.open().await,
        opened.client().view()[0].connections.iter().map(|c| c.idle).sum::<usize>(),
        "none is left"
    );
    let raw = json!({"codec": "raw", "mapper": "raw"});
    let mut stream = open(&opened, raw).await.unwrap();
    assert_eq!(stream.content_type(), "application/x-ndjson");
    while let Some(piece) = stream.next().await {
        if let Piece::Failed { ending, .. } = piece {
            assert!(ending.is_none(), "aborted");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_34_fixtures_and_bare_urls_have_their_gates() {
    let network = Network::new();
    let closed = opened(&network, plan_settings());
    let class = |failure: Option<PlanFailure>| failure.unwrap().failure.class;
    assert_eq!(
        class(open(&closed, json!({"fixture_path": "a"})).await.err()),
        Class::UpstreamForbidden
    );
    let bare = json!({"upstream": null, "url": "http://127.0.0.1:9/x"});
    assert_eq!(class(open(&closed, bare).await.err()), Class::UpstreamForbidden);
    for url in ["http://u:p@h/", "file:///etc/passwd", "nonsense", "http://[::1]:9/"] {
        let bare = json!({"upstream": null, "url": url});
        assert_eq!(class(open(&closed, bare).await.err()), Class::UpstreamForbidden, "{url}");
    }
}

#[tokio::test]
async fn a_listed_name_that_resolves_to_loopback_is_refused_and_a_listed_range_is_called() {
    let network = Network::new();
    let mut plan = plan_settings();
    // Nobody listens there: an error of another class shows that the gate let it through.
    plan.allow = AllowList::new(["127.0.0.0/8", "localhost.localdomain"]).unwrap();
    let opened = opened(&network, plan);
    let bare = json!({"upstream": null, "url": "http://127.0.0.1:9/x"});
    let failure = open(&opened, bare).await.err().unwrap();
    assert_eq!(failure.failure.class, Class::UpstreamError);
    assert_eq!(opened.client().ledger().recent()[0].upstream.as_ref(), "url");
}

#[tokio::test]
async fn fixtures_stay_inside_their_root() {
    let network = Network::new();
    let scratch = std::env::temp_dir().join(format!("hr-fixtures-{}", std::process::id()));
    std::fs::create_dir_all(scratch.join("root/dir")).unwrap();
    std::fs::write(scratch.join("root/a.ndjson"), "{\"t\":\"x\"}\n{\"t\":\"y\"}").unwrap();
    std::fs::write(scratch.join("secret"), "{\"t\":\"s\"}").unwrap();
    std::os::unix::fs::symlink(scratch.join("secret"), scratch.join("root/link")).unwrap();
    let mut plan = plan_settings();
    plan.fixture_root = Some(scratch.join("root"));
    let opened = opened(&network, plan);
    for path in ["a.ndjson", "/a.ndjson", "dir/../a.ndjson"] {
        let stream = open(&opened, json!({"upstream": null, "fixture_path": path})).await.unwrap();
        assert_eq!(output(stream).await, ("xy".into(), None));
    }
    for path in ["../secret", "link", "dir", "missing", "/etc/passwd", "."] {
        let failure = open(&opened, json!({"fixture_path": path})).await.err().unwrap();
        assert_eq!(failure.failure.class, Class::UpstreamForbidden, "{path}");
    }
    std::fs::remove_dir_all(scratch).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_dropped_tells_its_upstream_to_stop() {
    let network = Network::new();
    network.script("/x", vec![streams("application/x-ndjson", ROWS.to_vec(), End::Silence)]);
    network.script("/plain", vec![says(1, "x")]);
    let opened = opened(&network, plan_settings());
    let stream = open(&opened, json!({})).await.unwrap();
    assert_eq!(network.open().await, 1);
    drop(stream);
    assert_eq!((network.open().await, opened.sessions().active()), (0, 0));
}
