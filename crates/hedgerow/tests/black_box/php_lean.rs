//! The PHP worker is sent a lean envelope, and its application sees the whole one.

use crate::php::serving;
use crate::server::{HEDGEROW, Server, json};
use serde_json::Value;

/// The envelope as the application has it; what is empty and a map stays one.
const APP: &str = r#"
return function (array $r): array {
    foreach (['query', 'headers', 'cookies', 'attributes', 'server'] as $map) {
        $r[$map] = (object) $r[$map];
    }
    return ['headers' => ['content-type' => 'application/json'], 'body' => json_encode($r)];
};
"#;

/// What differs between two servers that are asked the same a moment apart.
fn settled(mut envelope: Value) -> Value {
    let at = &mut envelope["deadline_unix_ms"];
    assert!(at.is_u64(), "{at}");
    *at = 0.into();
    let at = &mut envelope["attributes"]["deadline_unix_ms"];
    assert!(at.as_str().is_some_and(|text| text.parse::<u64>().is_ok()), "{at}");
    *at = "0".into();
    envelope
}

fn ask(server: &Server, request: &[u8]) -> Value {
    let mut client = server.connect();
    client.send(request);
    settled(json(client.response().text()))
}

#[test]
fn what_a_lean_frame_leaves_out_the_application_sees_all_the_same() {
    let whole =
        Server::start(&format!("worker.command = \"{HEDGEROW} stage worker --mode /envelope\""));
    let lean = serving(APP, "");
    let requests: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nHost: a.example\r\nX-Request-Id: R\r\nX-Trace-Id: T\r\n\r\n",
        b"GET /a%20b?x=%2F+y&x=2&z HTTP/1.1\r\nHost: a.example:81\r\nX-Request-Id: R\r\nX-Trace-Id: T\r\nCookie: a=1; b=%20\r\n\r\n",
        b"GET /q? HTTP/1.1\r\nHost: [::1]:8080\r\nX-Request-Id: R\r\nX-Trace-Id: T\r\nX-Twice: one\r\nx-twice: two\r\nCookie: a=1\r\ncookie: b=2\r\n\r\n",
        b"GET /odd HTTP/1.1\r\nHost: a.example\r\nX-Request-Id: R\r\nX-Trace-Id: T\r\n7: number\r\nX-Latin: gr\xfcn\r\nX-Utf8: \xe2\x80\xa8\xf0\x9f\x8c\xbf/\r\nX-Quoted: a \"b\\c\"\tz\r\nX-Empty:\r\n\r\n",
        b"POST /p HTTP/1.1\r\nHost: a.example\r\nX-Request-Id: R\r\nX-Trace-Id: T\r\nContent-Length: 2\r\n\r\nhi",
    ];
    for request in requests {
        let (full, seen) = (ask(&whole, request), ask(&lean, request));
        let shown = String::from_utf8_lossy(request);
        for (name, value) in full.as_object().expect("an object") {
            assert_eq!(seen[name], *value, "{name} of {shown}");
        }
        let fields = |of: &Value| of.as_object().expect("an object").len();
        assert_eq!(fields(&seen), fields(&full));
    }
}
