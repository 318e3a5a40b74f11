//! What an upstream can be asked to do.
//!
//! | path | what it does |
//! | --- | --- |
//! | `/silent` | nothing for `ms` (without: for ever), then an answer |
//! | `/headers` | the head at once, then as `/silent` |
//! | `/drip` | `n` pieces (5), `ms` (100) apart |
//! | `/comments` | an event stream of nothing but comments, `n` of them (for ever), `ms` apart |
//! | `/endless` | pieces without end, `ms` (10) apart |
//! | `/status/CODE` | that status; with `retry_after`, that header |
//! | `/reset` | closes without an answer, after `ms` |
//! | `/break` | `n` pieces (2), then closes in the middle of the body |
//! | `/model` | a language model: `n` tokens (8), `ms` (20) apart, as `format` `ndjson` (default), `events` or `openai`; with `nonsense=K`, row K is no JSON; with `break=K`, it closes after K |
//! | `/api/chat`, `/api/generate`, `/v1/chat/completions` | a language model as Ollama and `OpenAI` stream it: repeats the last message of the posted JSON; `ms`, `nonsense` and `break` as for `/model` |
//! | `/echo` | the body that came |
//! | `/script` | what the query says for each attempt, step by step: `?1=wait:300,status:500&2=data:x` (`script.rs` lists the steps) |
//! | `/-/seen` | what it has received; with `DELETE`, forgets it |
//! | anything else | an answer: name, method, path, headers, peer port |
//!
//! Everywhere: `first=MS` lets so much time pass before anything else; `attempt=N`, `every=N` and
//! `at=NAME` limit what a path does to the requests with `hedgerow-attempt: N`, to each Nth call of
//! that path, and to the upstream of that name. The others are answered at once (after `first`). With `stall` (for ever) or `stall=MS` the
//! chosen ones are silent so long, and then all do what the path says.

use serde_json::json;

use super::http::{Client, Gone, Request};
use super::model;
use super::script;
use super::seen::{Ended, Seen};

/// Serves one request. An error means that the connection is over.
pub(super) fn serve(
    client: &mut Client,
    request: &Request,
    name: &str,
    seen: &Seen,
) -> Result<(), Gone> {
    if request.path == "/-/seen" {
        if request.method == "DELETE" {
            seen.forget();
        }
        let body = seen.to_json().to_string();
        return whole(client, request, 200, &[], "application/json", body.as_bytes());
    }
    let attempt = request.header("hedgerow-attempt");
    let (number, nth) = seen.received(request, client.peer.port());
    let chosen = request.text("attempt").is_none_or(|only| only == attempt)
        && request.text("at").is_none_or(|only| only == name)
        && request.number("every").is_none_or(|every| nth.is_multiple_of(every.max(1)));
    let mut script = Script { client, request, name, told: false };
    let served = script.run(chosen);
    let as_asked = script.told;
    seen.ended(number, if served.is_ok() || as_asked { Ended::Served } else { Ended::Cancelled });
    served
}

pub(super) struct Script<'a> {
    pub(super) client: &'a mut Client,
    pub(super) request: &'a Request,
    pub(super) name: &'a str,
    /// The connection ends because that was asked for.
    told: bool,
}

impl Script<'_> {
    fn run(&mut self, chosen: bool) -> Result<(), Gone> {
        self.client.wait(Some(self.request.number("first").unwrap_or(0)))?;
        let path = self.request.path.clone();
        let ms = self.request.number("ms");
        match self.request.text("stall") {
            Some(stall) if chosen => self.client.wait(stall.parse().ok())?,
            None if !chosen => return self.answer(),
            _ => {}
        }
        if let Some(served) = model::serve(self) {
            return served;
        }
        match path.as_str() {
            "/silent" => {
                self.client.wait(ms)?;
                self.answer()
            }
            "/headers" => {
                self.begin("text/plain")?;
                self.client.wait(ms)?;
                self.piece(b"late\n")?;
                self.end()
            }
            "/drip" => self
                .pieces("text/plain", self.count(5), ms.unwrap_or(100), |n| format!("piece {n}\n")),
            "/comments" => {
                let count = self.request.number("n").unwrap_or(u64::MAX);
                let comment = |n| format!(": {n}\n\n");
                self.pieces("text/event-stream", count, ms.unwrap_or(100), comment)
            }
            "/endless" => {
                let row = |n| format!("{{\"n\":{n}}}\n");
                self.pieces("application/x-ndjson", u64::MAX, ms.unwrap_or(10), row)
            }
            "/reset" => {
                self.client.wait(Some(ms.unwrap_or(0)))?;
                Err(self.reset())
            }
            "/break" => {
                self.begin("text/plain")?;
                for n in 1..=self.count(2) {
                    self.piece(format!("piece {n}\n").as_bytes())?;
                    self.client.wait(Some(ms.unwrap_or(20)))?;
                }
                Err(self.reset())
            }
            "/echo" => {
                let kind = self.request.header("content-type");
                let kind = if kind.is_empty() { "application/octet-stream" } else { kind };
                whole(self.client, self.request, 200, &[], kind, &self.request.body)
            }
            "/script" => script::play(self),
            path => match path.strip_prefix("/status/").and_then(|code| code.parse().ok()) {
                Some(code) => self.status(code),
                None => self.answer(),
            },
        }
    }

    /// An answer of that status.
    pub(super) fn status(&mut self, code: u16) -> Result<(), Gone> {
        let wait = self.request.text("retry_after").map(|seconds| ("retry-after", seconds));
        let headers = wait.as_slice();
        let body = format!("status {code}\n");
        whole(self.client, self.request, code, headers, "text/plain", body.as_bytes())
    }

    pub(super) fn count(&self, or: u64) -> u64 {
        self.request.number("n").unwrap_or(or)
    }

    pub(super) fn answer(&mut self) -> Result<(), Gone> {
        let body = json!({
            "name": self.name,
            "method": self.request.method,
            "path": self.request.path,
            "query": self.request.query,
            "headers": self.request.headers,
            "body_length": self.request.body.len(),
            "peer_port": self.client.peer.port(),
        });
        let body = body.to_string();
        whole(self.client, self.request, 200, &[], "application/json", body.as_bytes())
    }

    /// A 400 that says why.
    pub(super) fn refuse(&mut self, why: &serde_json::Value) -> Result<(), Gone> {
        let body = why.to_string();
        whole(self.client, self.request, 400, &[], "application/json", body.as_bytes())
    }

    fn pieces(
        &mut self,
        kind: &str,
        count: u64,
        ms: u64,
        piece: impl Fn(u64) -> String,
    ) -> Result<(), Gone> {
        self.begin(kind)?;
        for n in 1..=count {
            self.client.wait(Some(if n == 1 { 0 } else { ms }))?;
            self.piece(piece(n).as_bytes())?;
        }
        self.end()
    }

    pub(super) fn begin(&mut self, kind: &str) -> Result<(), Gone> {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        self.client.write(head.as_bytes())
    }

    pub(super) fn piece(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.client.write(&chunk)
    }

    pub(super) fn end(&mut self) -> Result<(), Gone> {
        self.client.write(b"0\r\n\r\n")
    }

    pub(super) fn reset(&mut self) -> Gone {
        self.told = true;
        self.client.reset()
    }
}

fn whole(
    client: &mut Client,
    request: &Request,
    status: u16,
    headers: &[(&str, &str)],
    kind: &str,
    body: &[u8],
) -> Result<(), Gone> {
    let mut answer = format!("HTTP/1.1 {status} Scripted\r\ncontent-type: {kind}\r\n");
    for (name, value) in headers {
        answer.push_str(&format!("{name}: {value}\r\n"));
    }
    answer.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    let mut answer = answer.into_bytes();
    if request.method != "HEAD" {
        answer.extend_from_slice(body);
    }
    client.write(&answer)
}
