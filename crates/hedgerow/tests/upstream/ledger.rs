//! The file of the ledger, and what else is written down of calls.

use crate::models::{Models, egress};
use crate::server::{Server, json};
use hedgerow_testkit::http::Client;
use hedgerow_testkit::until::until;
use serde_json::Value;

fn lines(server: &Server, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(server.scratch.path().join(name)).unwrap_or_default();
    text.lines().map(json).collect()
}

#[test]
fn every_key_is_a_line_and_a_file_that_was_moved_away_is_let_go() {
    let models = Models::start();
    let config = models.config("hedge = { after_ms = 200 }\nprice = { per_call = 0.5 }");
    let server = Server::start(&format!("log.ledger = \"ledger.ndjson\"\n{config}"));
    let egress = egress(&server);
    let call = |path: &str| {
        let mut client = Client::connect(egress);
        client.send(format!("GET {path} HTTP/1.1\r\nhost: h\r\nx-trace-id: t-7\r\n\r\n"));
        client.response()
    };
    assert_eq!(call("/models/silent?attempt=1").header("hedgerow-winner"), Some("hedge"));
    let first = until("its line", || lines(&server, "ledger.ndjson").into_iter().next());
    assert_eq!((&first["upstream"], &first["trace_id"]), (&"models".into(), &"t-7".into()));
    let attempts = first["attempts"].as_array().unwrap();
    let outcomes: Vec<_> =
        attempts.iter().map(|a| (&a["role"], &a["outcome"], &a["cost"])).collect();
    assert_eq!(outcomes[0], (&"primary".into(), &"lost".into(), &Value::Null), "{first}");
    assert_eq!(outcomes[1], (&"hedge".into(), &"won".into(), &0.5.into()), "{first}");
    // The same call in the event log.
    let event = server.event("egress.request", |event| event["trace_id"] == "t-7");
    assert_eq!((&event["upstream"], &event["attempts"]), (&"models".into(), &2.into()), "{event}");
    assert!(event["hedged_after_ms"].as_f64().unwrap() >= 200.0, "{event}");

    let at = |name: &str| server.scratch.path().join(name);
    std::fs::rename(at("ledger.ndjson"), at("old.ndjson")).unwrap();
    server.reload();
    server.event("reload.done", |_| true);
    call("/models/x");
    until("a line in the new file", || (lines(&server, "ledger.ndjson").len() == 1).then_some(()));
    assert_eq!(lines(&server, "old.ndjson").len(), 1);
    let counted = "egress_requests_total{method=\"GET\",status=\"200\",error_class=\"none\"}";
    assert_eq!(server.metric(counted), Some(2.0));
    call("/models/y");
    let ended = server.stop();
    let access: Vec<_> = ended.access.iter().map(|line| (&line["path"], &line["winner"])).collect();
    assert_eq!(access[0], (&"/models/silent".into(), &"hedge".into()));
    assert_eq!(access.len(), 3);
}
