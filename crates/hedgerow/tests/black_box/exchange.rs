//! Cases 10, 29, 40 and 42 to 45: what is passed on in both directions, and what is not.

use crate::envelope::assert_failure;
use crate::server::{HEDGEROW, Server, json};
use hedgerow_testkit::http::Response;

#[test]
fn case_10_a_failure_that_the_worker_reports_keeps_its_class_and_exception_and_nothing_else() {
    let server = Server::start("");
    let response = server.get("/error?exception=RuntimeException&message=secret-42");
    assert_failure(&response, 500, "worker_runtime_error");
    assert_eq!(response.header("x-worker-error-class"), Some("worker_runtime_error"));
    assert_eq!(response.header("x-worker-exception"), Some("RuntimeException"));
    let all = format!("{response:?}");
    assert!(!all.contains("secret-42") && !all.contains("Stack trace"), "{all}");
    let event = server.request_event("/error");
    assert_eq!(event["error_message"], "secret-42", "{event}");
    // A class that only the application knows is a runtime error with a name of its own.
    let foreign = server.get("/error?class=app_contract_error&exception=TypeError");
    assert_failure(&foreign, 500, "app_contract_error");
}

#[test]
fn case_40_a_500_without_a_report_is_the_application_s_own() {
    let server = Server::start("");
    for code in [500, 502, 503, 504, 404] {
        let own = server.get(&format!("/status?code={code}&body=my-own-words"));
        assert_eq!((own.status(), own.text()), (code, "my-own-words"));
        assert_eq!(own.header("x-vhttpd-error-class"), None, "{own:?}");
        assert_eq!(own.header("retry-after"), None, "{own:?}");
        assert!(own.header("x-vhttpd-trace-id").is_some(), "{own:?}");
    }
    assert_failure(&server.get("/error?status=503"), 500, "worker_runtime_error");
}

fn asked(server: &Server, target: &str, headers: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nhost: a\r\n{headers}\r\n"));
    client.response()
}

#[test]
fn case_42_ids_are_echoed_or_made_and_never_taken_from_the_query() {
    let server = Server::start("");
    let ids = |response: &Response| {
        let id = |name| response.header(name).expect("an id").to_owned();
        (id("x-vhttpd-trace-id"), id("x-request-id"))
    };
    let both = asked(&server, "/hello", "x-trace-id: T:1.a_b-c\r\nx-request-id: R-1\r\n");
    assert_eq!(ids(&both), ("T:1.a_b-c".to_owned(), "R-1".to_owned()));
    let request_only = asked(&server, "/hello", "x-request-id: R-2\r\n");
    assert_eq!(ids(&request_only), ("R-2".to_owned(), "R-2".to_owned()));
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("traceparent: 00-{trace}-00f067aa0ba902b7-01\r\nx-trace-id: T-3\r\n");
    assert_eq!(ids(&asked(&server, "/hello", &parent)).0, trace);
    let broken = "traceparent: 00-short-00f067aa0ba902b7-01\r\nx-trace-id: T-4\r\n";
    assert_eq!(ids(&asked(&server, "/hello", broken)).0, "T-4");

    let longest = "x".repeat(128);
    let kept = asked(&server, "/hello", &format!("x-trace-id: {longest}\r\n"));
    assert_eq!(ids(&kept).0, longest);
    for bad in [
        "x".repeat(129),
        "a b".to_owned(),
        "a\tb".to_owned(),
        "a/b".to_owned(),
        "ä".to_owned(),
        String::new(),
    ] {
        let replaced =
            asked(&server, "/hello", &format!("x-trace-id: {bad}\r\nx-request-id: {bad}\r\n"));
        let (trace, request) = ids(&replaced);
        for id in [trace, request] {
            assert!(!id.is_empty() && id != bad && id.len() <= 128, "{bad:?}: {id}");
            assert!(id.bytes().all(|b| b.is_ascii_alphanumeric()), "{bad:?}: {id}");
        }
    }
    let query = asked(&server, "/hello?trace_id=forged&request_id=forged", "");
    let (trace, request) = ids(&query);
    assert!(trace != "forged" && request != "forged" && trace != request);
    // Failures carry the same ids, and so does the log.
    let failed = asked(&server, "/fault/close", "x-trace-id: T-5\r\nx-request-id: R-5\r\n");
    assert_eq!(ids(&failed), ("T-5".to_owned(), "R-5".to_owned()));
    let event = server.request_event("/fault/close");
    assert_eq!((&event["trace_id"], &event["request_id"]), (&"T-5".into(), &"R-5".into()));
}

/// What the worker was sent for this request, over IPv6.
fn envelope(server: &Server, request: &str) -> serde_json::Value {
    let mut client = server.connect();
    client.send(request);
    json(client.response().text())
}

#[test]
fn case_43_the_envelope_is_the_golden_one() {
    let server = Server::start(&format!(
        "server.listen = \"[::1]:0\"\nworker.command = \"{HEDGEROW} stage worker --mode /envelope\""
    ));
    let got = envelope(
        &server,
        "GET /users/42?trace_id=worker&x=%2F+y HTTP/1.1\r\nHost: [::1]:8080\r\nCookie: a=1; b=two\r\n\
         X-Twice: one\r\nX-Twice: two\r\nX-Trace-Id: T43\r\nX-Request-Id: R43\r\n\
         Connection: keep-alive, x-hop\r\nX-Hop: 1\r\nTE: trailers\r\n\
         X-Vhttpd-Error-Class: forged\r\nX-Worker-Error: forged\r\n\r\n",
    );
    let deadline = got["deadline_unix_ms"].as_u64().expect("a number");
    let list = serde_json::json!([
        ["host", "[::1]:8080"],
        ["cookie", "a=1; b=two"],
        ["x-twice", "one"],
        ["x-twice", "two"],
        ["x-trace-id", "T43"],
        ["x-request-id", "R43"],
    ]);
    let golden = serde_json::json!({
        "id": "T43",
        "method": "GET",
        "path": "/users/42",
        "body": "",
        "scheme": "http",
        "host": "[::1]",
        "port": "8080",
        "protocol_version": "1.1",
        "remote_addr": "::1",
        "query": { "trace_id": "worker", "x": "/ y" },
        "headers": {
            "host": "[::1]:8080",
            "cookie": "a=1; b=two",
            "x-twice": "one, two",
            "x-trace-id": "T43",
            "x-request-id": "R43",
        },
        "cookies": { "a": "1", "b": "two" },
        "attributes": {
            "request_id": "R43",
            "deadline_unix_ms": deadline.to_string(),
            "header_list": got["attributes"]["header_list"],
        },
        "server": {
            "host": "[::1]",
            "port": "8080",
            "remote_addr": "::1",
            "method": "GET",
            "url": "/users/42?trace_id=worker&x=%2F+y",
        },
        "uploaded_files": [],
        "request_id": "R43",
        "deadline_unix_ms": deadline,
        "header_list": list,
    });
    assert_eq!(got, golden, "{got:#}");
    assert_eq!(json(got["attributes"]["header_list"].as_str().unwrap()), list);
    // The fifteen that are always there, and four more.
    assert_eq!(got.as_object().unwrap().len(), 15 + 3);
}

#[test]
fn case_43_to_a_worker_without_raw_bodies_a_binary_body_is_base64() {
    let server = Server::start(&format!(
        "worker.command = \"{HEDGEROW} stage worker --no-capabilities --mode /envelope\""
    ));
    let got = json(server.post("/x", b"\xff\xfe\x00").text());
    assert_eq!(
        (&got["body"], &got["body_encoding"]),
        (&"//4A".into(), &"base64".into()),
        "{got:#}"
    );
    assert_eq!(got["attributes"]["body_encoding"], "base64");
    let text = json(server.post("/x", "grün".as_bytes()).text());
    assert_eq!((&text["body"], text.get("body_encoding")), (&"grün".into(), None), "{text:#}");
}

#[test]
fn case_44_all_256_bytes_travel_both_ways() {
    let all: Vec<u8> = (0..=255).collect();
    for flags in ["", " --no-capabilities", " --only-capability raw_body"] {
        let server = Server::start(&format!("worker.command = \"{HEDGEROW} stage worker{flags}\""));
        assert_eq!(server.post("/echo", &all).body, all, "{flags}");
        for path in ["/binary", "/binary?as=base64"] {
            assert_eq!(server.get(path).body, all, "{flags} {path}");
        }
    }
}

#[test]
fn case_45_two_cookies_are_two_lines_even_where_a_worker_joined_them() {
    let server = Server::start("");
    for path in ["/cookies", "/cookies?joined=1"] {
        let response = server.get(path);
        let lines: Vec<_> = response.all("set-cookie").collect();
        let date = "a=1; Path=/; Expires=Wed, 21 Oct 2099 07:28:00 GMT";
        assert_eq!(lines, [date, "b=2"], "{path}");
    }
}

#[test]
fn case_29_a_plan_is_refused_for_what_nobody_does() {
    let server = Server::start("");
    for (target, class, error) in [
        ("/plan?transport=ws", "unsupported_transport", "proxy_configuration_error"),
        ("/plan?codec=xml", "unsupported_codec", "proxy_configuration_error"),
        ("/plan?mapper=x", "unsupported_mapper", "proxy_configuration_error"),
        ("/plan", "upstream_forbidden", "destination_ip_prohibited"),
        ("/plan?upstream=nope", "upstream_forbidden", "destination_ip_prohibited"),
        ("/plan?fixture_path=/etc/passwd", "upstream_forbidden", "destination_ip_prohibited"),
    ] {
        let response = server.get(target);
        assert_failure(&response, 502, class);
        let proxy_status = response.header("proxy-status").unwrap();
        assert!(proxy_status.contains(&format!("error={error}")), "{target}: {proxy_status}");
        // The worker did nothing wrong.
        assert_eq!(server.get("/hello").status(), 200);
    }
    assert_eq!(server.admin("/admin/workers")["workers"][0]["restart_count"], 0);
}

#[test]
fn head_204_and_304_have_no_body_and_the_connection_stays() {
    let server = Server::start("");
    let mut client = server.connect();
    client.send("HEAD /hello HTTP/1.1\r\nhost: a\r\n\r\n");
    let head = client.head_response();
    assert_eq!((head.status(), head.header("content-length")), (200, Some("6")));
    for code in [204, 304] {
        client.get(&format!("/status?code={code}&body=ignored"));
        assert_eq!(client.response().status(), code);
    }
    client.send("HEAD /error HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.head_response().header("x-vhttpd-error-class"), Some("worker_runtime_error"));
    client.get("/hello");
    assert_eq!(client.response().text(), "hello\n");
}

#[test]
fn problem_json_for_those_who_ask_for_it() {
    let server = Server::start("");
    let accept = "accept: application/problem+json\r\nx-trace-id: T-P\r\nx-request-id: R-P\r\n";
    let response = asked(&server, "/fault/close", accept);
    assert_eq!(response.header("content-type"), Some("application/problem+json"));
    let problem = json(response.text());
    let wanted = serde_json::json!({
        "type": "about:blank", "title": "Bad Gateway", "status": 502,
        "error_class": "transport_error", "trace_id": "T-P", "request_id": "R-P",
    });
    assert_eq!(problem, wanted);
}
