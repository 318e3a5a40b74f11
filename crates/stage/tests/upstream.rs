//! The scripted upstream as a real process, spoken to by hand.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

struct Upstream {
    child: Child,
    address: String,
}

impl Upstream {
    fn start() -> Upstream {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hedgerow-stage"))
            .args(["upstream", "--listen", "127.0.0.1:0", "--name=models"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("http://").unwrap().to_owned();
        Upstream { child, address }
    }

    fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Everything until the connection ends, or the answer's last chunk.
    fn get(&self, target: &str, headers: &str) -> String {
        let mut stream = self.send(&format!("GET {target} HTTP/1.1\r\nhost: x\r\n{headers}\r\n"));
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let read = stream.read(&mut piece).unwrap_or(0);
            all.extend_from_slice(&piece[..read]);
            let text = String::from_utf8_lossy(&all).into_owned();
            let length = text.split("content-length: ").nth(1);
            let length = length.and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
            let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            if read == 0 || text.ends_with("\r\n0\r\n\r\n") || length == Some(body.len()) {
                return text;
            }
        }
    }

    fn seen(&self) -> Value {
        let text = self.get("/-/seen", "");
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_answers_with_what_it_saw() {
    let upstream = Upstream::start();
    let answer = upstream.get("/x?a=b%20c", "X-Header: y\r\n");
    let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!((&body["name"], &body["path"]), (&"models".into(), &"/x".into()));
    assert_eq!((&body["query"]["a"], &body["headers"]["x-header"]), (&"b c".into(), &"y".into()));
    assert!(upstream.get("/status/429?retry_after=7", "").contains("429 Scripted\r\n"));
    assert!(upstream.get("/status/429?retry_after=7", "").contains("retry-after: 7\r\n"));
}

#[test]
fn streams_come_in_pieces_and_break_where_they_are_told() {
    let upstream = Upstream::start();
    assert!(upstream.get("/drip?n=3&ms=1", "").contains("piece 3\n\r\n0\r\n\r\n"));
    assert!(!upstream.get("/break?n=2&ms=1", "").ends_with("0\r\n\r\n"));
    assert_eq!(upstream.get("/reset", ""), "");
    let rows = upstream.get("/model?n=3&ms=1&nonsense=2", "");
    assert!(rows.contains("\"content\":\"The\"") && rows.contains("nonsense\n"), "{rows}");
    let events = upstream.get("/model?n=2&ms=1&format=openai", "");
    assert!(events.contains("data: [DONE]\n\n") && events.contains("\"delta\""), "{events}");
    assert!(upstream.get("/comments?n=2&ms=1", "").contains(": 2\n\n"));
}

#[test]
fn a_model_repeats_the_last_message_as_ollama_and_openai_stream_it() {
    let upstream = Upstream::start();
    let chat = r#"{"model":"m","messages":[{"content":"x"},{"content":"one two"}],"stream":true}"#;
    let generate = r#"{"model":"m","prompt":"one two"}"#;
    let ask = |target: &str, body: &str| {
        let length = body.len();
        let head = format!("POST {target} HTTP/1.1\r\nconnection: close\r\n");
        let mut stream = upstream.send(&format!("{head}content-length: {length}\r\n\r\n{body}"));
        let (mut all, mut byte) = (Vec::new(), [0]);
        while stream.read(&mut byte).unwrap_or(0) == 1 {
            all.push(byte[0]);
            if all.ends_with(b"\r\n0\r\n\r\n")
                || all.ends_with(b"}") && all.starts_with(b"HTTP/1.1 400")
            {
                break;
            }
        }
        String::from_utf8(all).unwrap()
    };
    let answer = ask("/api/chat?ms=0", chat);
    let first = answer.find("{\"done\":false,\"message\":{\"content\":\"one \"").expect("one");
    assert!(first < answer.find("\"content\":\"two\"").expect("two"), "{answer}");
    assert!(
        answer.contains("\"done\":true") && answer.contains("application/x-ndjson"),
        "{answer}"
    );
    let answer = ask("/api/generate?ms=0", generate);
    assert!(answer.contains("\"response\":\"two\""), "{answer}");
    let answer = ask("/v1/chat/completions?ms=0", chat);
    assert!(answer.contains("\"delta\":{\"content\":\"two\"}"), "{answer}");
    assert!(answer.contains("\"finish_reason\":\"stop\"") && answer.contains("data: [DONE]\n\n"));
    for wrong in ["{}", "", r#"{"model":"m","messages":[{"content":"x"}]}"#] {
        let answer = ask("/v1/chat/completions", wrong);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
}

#[test]
fn only_what_was_chosen_stalls() {
    let upstream = Upstream::start();
    let rows = upstream.get("/model?n=1&ms=0&stall&attempt=1", "hedgerow-attempt: 2\r\n");
    assert!(rows.contains("\"content\":\"The\""), "{rows}");
    let rows = upstream.get("/model?n=1&ms=0&stall=20&attempt=1", "hedgerow-attempt: 1\r\n");
    assert!(rows.contains("\"content\":\"The\""), "{rows}");
    for _ in 0..2 {
        assert!(upstream.get("/silent?every=3", "").contains("200 Scripted"));
    }
    assert!(upstream.get("/silent?attempt=1", "hedgerow-attempt: 2\r\n").contains("200 Scripted"));
    assert!(upstream.get("/silent?ms=30", "").contains("200 Scripted"));
}

#[test]
fn bodies_of_both_kinds_are_echoed_on_one_connection() {
    let upstream = Upstream::start();
    let stream = upstream.send("POST /echo HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc");
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut answer = |end: &str| {
        let mut text = String::new();
        while !text.ends_with(end) {
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
            text.push(byte[0] as char);
        }
    };
    answer("\r\n\r\nabc");
    let chunked =
        "POST /echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n";
    (&stream).write_all(chunked.as_bytes()).unwrap();
    answer("\r\n\r\ndef");
}

#[test]
fn what_was_cancelled_is_counted_with_its_port() {
    let upstream = Upstream::start();
    let stream = upstream.send("GET /silent HTTP/1.1\r\nhedgerow-attempt: 1\r\n\r\n");
    let port = stream.local_addr().unwrap().port();
    let wait = |what: &str, holds: &dyn Fn(&Value) -> bool| {
        for _ in 0..10_000 {
            let seen = upstream.seen();
            if holds(&seen) {
                return seen;
            }
            std::thread::yield_now();
        }
        panic!("waited in vain for {what}")
    };
    wait("the call", &|seen| seen["received"] == 1);
    drop(stream);
    let seen = wait("the close", &|seen| seen["cancelled"] == 1);
    let call = &seen["calls"][0];
    assert_eq!((&call["peer_port"], &call["ended"]), (&port.into(), &"cancelled".into()));
    assert_eq!((&call["attempt"], &seen["paths"]["/silent"]), (&"1".into(), &1.into()));
    assert_eq!(upstream.get("/reset", ""), "");
    let seen = wait("the end", &|seen| seen["served"] == 1);
    assert_eq!(seen["cancelled"], 1, "a break that was asked for is none of the client's");
}
