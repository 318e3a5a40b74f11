use super::*;
use crate::live::Via;
use crate::record::Start;
use crate::record::tests::start;
use hedgerow_policy::failure::At;
use hedgerow_policy::{Class, Failure};
use proptest::prelude::*;

fn shown(start: Start, outcome: &Outcome) -> String {
    let entry = Entry::new(start, Via::Server);
    entry.bytes_out.store(1_234, Relaxed);
    let mut out = Vec::new();
    text(&mut out, 4_096, &entry, outcome, Duration::from_micros(12_345));
    String::from_utf8(out).expect("UTF-8")
}

fn ok() -> Outcome {
    Outcome { status: 200, failure: None, stream: None }
}

#[test]
fn the_text_form() {
    assert_eq!(
        shown(start("t-1"), &ok()),
        "192.0.2.7 - GET /users/42 HTTP/1.1 200 1234 12.345 - t-1\n"
    );
    let failure = Some(Failure::new(Class::WorkerQueueFull, At::Queue, "full"));
    let odd = Start {
        path: "/a b\u{202e}\r\n\"é".to_owned(),
        remote_addr: std::net::Ipv6Addr::LOCALHOST.into(),
        protocol: "HTTP/2.0",
        ..start("")
    };
    assert_eq!(
        shown(odd, &Outcome { status: 503, failure, stream: None }),
        "::1 - GET /a%20b%E2%80%AE%0D%0A\"é HTTP/2.0 503 1234 12.345 worker_queue_full -\n"
    );
}

#[test]
fn the_json_form() {
    let entry = Entry::new(start("t-1"), Via::Server);
    let mut out = Vec::new();
    let failure = Some(Failure::new(Class::Timeout, At::Worker, "not in the access line"));
    let outcome = Outcome { status: 504, failure, stream: None };
    let took = Duration::from_millis(300);
    json(&mut out, 4_096, &entry, &outcome, took, crate::wall::now());
    let line = String::from_utf8(out).expect("UTF-8");
    let (ts, rest) = line.split_at("{\"ts\":\"2026-11-29T00:00:00.000Z\",".len());
    assert!(ts.starts_with("{\"ts\":\"20") && ts.ends_with("Z\","), "{ts}");
    assert_eq!(
        rest,
        "\"remote_addr\":\"192.0.2.7\",\"method\":\"GET\",\"path\":\"/users/42\",\
         \"protocol\":\"HTTP/1.1\",\"status\":504,\"bytes_in\":0,\"bytes_out\":0,\
         \"duration_ms\":300,\"error_class\":\"timeout\",\"trace_id\":\"t-1\",\
         \"request_id\":\"r-t-1\"}\n"
    );
}

proptest! {
    #[test]
    fn the_text_form_always_has_its_ten_columns(path in any::<String>(), trace in any::<String>()) {
        let line = shown(Start { path, ..start(&trace) }, &ok());
        let line = line.strip_suffix('\n').expect("one line");
        prop_assert!(!line.contains(|c: char| c.is_control()));
        prop_assert_eq!(line.split(' ').count(), 10);
        prop_assert_eq!(line.split_whitespace().count(), 10);
    }
}
