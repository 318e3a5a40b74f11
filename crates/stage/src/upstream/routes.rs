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
//! | `/echo` | the body that came |
//! | `/-/seen` | what it has received; with `DELETE`, forgets it |
//! | anything else | an answer: name, method, path, headers, peer port |
//!
//! Everywhere: `first=MS` lets so much time pass before anything else; `attempt=N` and `every=N`
//! limit what a path does to the requests with `hedgerow-attempt: N`, and to each Nth call of that
//! path. The others are answered at once (after `first`).

use serde_json::json;

use super::http::{Client, Gone, Request};
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
    let (number, nth) = seen.received(&request.path, client.peer.port(), attempt);
    let chosen = request.text("attempt").is_none_or(|only| only == attempt)
        && request.number("every").is_none_or(|every| nth.is_multiple_of(every.max(1)));
    let mut script = Script { client, request, name, told: false };
    let served = script.run(chosen);
    let as_asked = script.told;
    seen.ended(number, if served.is_ok() || as_asked { Ended::Served } else { Ended::Cancelled });
    served
}

struct Script<'a> {
    client: &'a mut Client,
    request: &'a Request,
    name: &'a str,
    /// The connection ends because that was asked for.
    told: bool,
}

impl Script<'_> {
    fn run(&mut self, chosen: bool) -> Result<(), Gone> {
        self.client.wait(Some(self.request.number("first").unwrap_or(0)))?;
        let path = self.request.path.clone();
        let ms = self.request.number("ms");
        match path.as_str() {
            _ if !chosen => self.answer(),
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
            "/model" => self.model(ms.unwrap_or(20)),
            "/echo" => {
                let kind = self.request.header("content-type");
                let kind = if kind.is_empty() { "application/octet-stream" } else { kind };
                whole(self.client, self.request, 200, &[], kind, &self.request.body)
            }
            path => match path.strip_prefix("/status/").and_then(|code| code.parse().ok()) {
                Some(code) => {
                    let wait = self.request.text("retry_after").map(|s| ("retry-after", s));
                    let headers = wait.as_slice();
                    let body = format!("status {code}\n");
                    whole(self.client, self.request, code, headers, "text/plain", body.as_bytes())
                }
                None => self.answer(),
            },
        }
    }

    fn count(&self, or: u64) -> u64 {
        self.request.number("n").unwrap_or(or)
    }

    fn answer(&mut self) -> Result<(), Gone> {
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

    fn model(&mut self, ms: u64) -> Result<(), Gone> {
        const WORDS: [&str; 6] = ["The", " hedge", " is", " as", " green", " as ever."];
        let format = self.request.text("format").unwrap_or("ndjson");
        let (count, nonsense) = (self.count(8), self.request.number("nonsense"));
        let breaks = self.request.number("break");
        let kind = if format == "ndjson" { "application/x-ndjson" } else { "text/event-stream" };
        self.begin(kind)?;
        for n in 1..=count {
            let word = WORDS[((n - 1) % WORDS.len() as u64) as usize];
            let row = match format {
                "openai" => json!({"choices": [{"index": 0, "delta": {"content": word}}]}),
                _ => json!({"message": {"content": word}, "response": word, "done": false}),
            };
            let row = if nonsense == Some(n) { "nonsense".to_owned() } else { row.to_string() };
            let text = match format {
                "ndjson" => format!("{row}\n"),
                "openai" => format!("data: {row}\n\n"),
                _ => format!("id: {n}\nevent: token\ndata: {row}\n\n"),
            };
            self.piece(text.as_bytes())?;
            if breaks == Some(n) {
                self.client.wait(Some(ms))?;
                return Err(self.reset());
            }
            self.client.wait(Some(ms))?;
        }
        match format {
            "ndjson" => self.piece(b"{\"message\":{\"content\":\"\"},\"done\":true}\n")?,
            "openai" => self.piece(b"data: [DONE]\n\n")?,
            _ => {}
        }
        self.end()
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

    fn begin(&mut self, kind: &str) -> Result<(), Gone> {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        self.client.write(head.as_bytes())
    }

    fn piece(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.client.write(&chunk)
    }

    fn end(&mut self) -> Result<(), Gone> {
        self.client.write(b"0\r\n\r\n")
    }

    fn reset(&mut self) -> Gone {
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
