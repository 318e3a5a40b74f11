//! What `Hedgerow\Upstream\Plan` builds, carried out.

use crate::models::{Models, php};
use crate::server::Server;
use hedgerow_testkit::http::Client;

const APP: &str = r#"
use Hedgerow\Upstream\Plan;

return function (array $request) {
    $url = fn (string $path): string => getenv('MODELS') . $path;
    $said = [['role' => 'user', 'content' => 'one two three']];
    return match ($request['path']) {
        '/ndjson' => Plan::ndjson(upstream: 'models', path: '/model?n=3&ms=1', fieldPath: 'message.content'),
        '/ndjson-events' => Plan::ndjson(url: $url('/model?n=2&ms=1'), fieldPath: 'nowhere', fallbackFieldPath: 'response', output: 'sse', sseEvent: 'word'),
        '/sse' => Plan::sse(upstream: 'models', path: '/model?n=2&ms=1&format=events'),
        '/sse-text' => Plan::sse(upstream: 'models', path: '/model?n=3&ms=1&format=events', fieldPath: 'response'),
        '/chat' => Plan::ollama(model: 'llama', messages: $said, upstream: 'models'),
        '/generate' => Plan::ollama(model: 'llama', prompt: 'four five', url: $url('/api/generate?ms=1'), output: 'sse'),
        '/openai' => Plan::openAiChat(model: 'gpt', messages: $said, upstream: 'models'),
        '/openai-events' => Plan::openAiChat(model: 'gpt', messages: $said, url: $url('/v1/chat/completions?ms=1'), output: 'sse'),
        '/hedged' => Plan::openAiChat(
            model: 'gpt', messages: $said, upstream: 'models',
            path: '/v1/chat/completions?stall&attempt=1', hedge: ['after_ms' => 100],
        ),
        '/held' => Plan::ollama(model: 'llama', prompt: 'late', upstream: 'models', path: '/api/generate?stall=700'),
        '/breaks' => Plan::ollama(model: 'llama', messages: $said, upstream: 'models', path: '/api/chat?break=2'),
        '/elsewhere' => Plan::ollama(model: 'llama', prompt: 'x', url: 'http://192.0.2.1/api/generate'),
        '/who' => (string) getmypid(),
    };
};
"#;

/// One worker, no queue: what is answered while a plan runs shows that the worker is free.
fn server(models: &Models) -> Server {
    let lines = format!(
        "worker.env = {{ MODELS = {:?} }}\nplan.allow_hosts = [\"{}\"]\n{}",
        models.url(),
        models.address(),
        models.config("")
    );
    php(APP, &lines)
}

#[test]
fn every_builder_streams_what_it_says() {
    let models = Models::start();
    let server = server(&models);
    for (path, kind, body) in [
        ("/ndjson", "text/plain; charset=utf-8", "The hedge is"),
        ("/sse-text", "text/plain; charset=utf-8", "The hedge is"),
        ("/chat", "text/plain; charset=utf-8", "one two three"),
        ("/openai", "text/plain; charset=utf-8", "one two three"),
        (
            "/ndjson-events",
            "text/event-stream",
            "id: tok-1\nevent: word\ndata: The\n\nid: tok-2\nevent: word\ndata:  hedge\n\n\
             id: done-3\nevent: done\ndata: done\n\n",
        ),
        (
            "/generate",
            "text/event-stream",
            "id: tok-1\nevent: token\ndata: four \n\nid: tok-2\nevent: token\ndata: five\n\n\
             id: done-3\nevent: done\ndata: done\n\n",
        ),
    ] {
        let response = server.get(path);
        assert_eq!((response.status(), response.complete), (200, true), "{path}: {response:?}");
        assert_eq!(response.header("content-type"), Some(kind), "{path}: {response:?}");
        assert_eq!(response.text(), body, "{path}");
    }
    let same = server.get("/sse");
    assert!(same.text().contains("id: 2\nevent: token\ndata: {"), "as they came: {same:?}");
    let events = server.get("/openai-events");
    assert!(events.text().contains("id: tok-3\nevent: token\ndata: three\n\n"), "{events:?}");
    assert!(events.text().ends_with("event: done\ndata: done\n\n"), "{events:?}");
    // What the service was asked: the scripted ones refuse anything else than their POST.
    let call = &models.calls("/v1/chat/completions")[0];
    assert_eq!(call["ended"], "served", "{call}");
}

#[test]
fn a_model_that_stalls_is_rescued_by_the_hedge_that_its_plan_asks_for() {
    let models = Models::start();
    let server = server(&models);
    assert_eq!(server.get("/hedged").text(), "one two three");
    models.wait("the loser's end", "/v1/chat/completions", |calls| {
        let ended = |n: usize| calls[n]["ended"].as_str();
        calls.len() == 2 && (ended(0), ended(1)) == (Some("cancelled"), Some("served"))
    });
}

#[test]
fn the_worker_is_free_while_a_plan_waits() {
    let models = Models::start();
    let server = server(&models);
    let mut held = server.begin("/held");
    models.wait("the call", "/api/generate", |calls| calls.len() == 1);
    assert_eq!(server.get("/who").status(), 200, "one worker, no queue");
    assert_eq!(models.calls("/api/generate")[0]["ended"], "open", "the plan still waits");
    assert_eq!(held.response().text(), "late");
}

#[test]
fn a_plan_that_fails_has_its_form() {
    let models = Models::start();
    let server = server(&models);
    let mut client = Client::connect(server.addr);
    client.send("GET /breaks HTTP/1.1\r\nhost: a\r\nx-trace-id: T9\r\n\r\n");
    let broken = client.response();
    assert_eq!(broken.text(), "one two \n[upstream_error T9]\n", "{broken:?}");
    let refused = server.get("/elsewhere");
    assert_eq!(refused.status(), 502, "{refused:?}");
    assert_eq!(refused.header("x-vhttpd-error-class"), Some("upstream_forbidden"));
}
