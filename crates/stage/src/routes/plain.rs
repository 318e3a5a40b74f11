//! Ordinary responses, some of them late.

use std::io::{self, Write as _};

use sha1::{Digest as _, Sha1};

use super::{After, Call, landing};
use crate::clock;
use crate::reply::Reply;

/// The most that `/bytes` gives (1 GiB).
const BYTES_LIMIT: u64 = 1 << 30;

pub(super) fn serve(call: &mut Call<'_>, reply: &mut Reply<'_>) -> io::Result<After> {
    match call.path.as_str() {
        "/" | "" => landing::serve(call, reply)?,
        "/hello" => reply.text(200, "hello\n")?,
        "/echo" => echo(call, reply)?,
        "/sha1" => reply.text(200, &sha1_hex(&call.body))?,
        "/envelope" => reply.json(&call.payload)?,
        "/sleep" => {
            clock::sleep_ms(call.number("ms", 100));
            reply.text(200, "slept\n")?;
        }
        "/hang" => clock::sleep_for_ever(),
        "/status" => {
            let status = u16::try_from(call.number("code", 200)).unwrap_or(200);
            reply.text(status, call.text("body").unwrap_or(""))?;
        }
        "/bytes" => {
            let length = call.number("n", 0).min(BYTES_LIMIT) as usize;
            let all: Vec<u8> = (0..=255).collect();
            let mut body = all.repeat(length.div_ceil(all.len()));
            body.truncate(length);
            reply.respond(200, &[("content-type", "application/octet-stream")], &body)?;
        }
        "/binary" => binary(call, reply)?,
        "/cookies" => cookies(call, reply)?,
        "/headers" => return headers(call, reply),
        "/error" => error(call, reply)?,
        "/noise" => {
            noise();
            reply.text(200, "quiet")?;
        }
        "/mix" => mix(call, reply)?,
        _ => reply.text(404, "no such scene\n")?,
    }
    Ok(After::Keep)
}

/// One line on each output. Whether anybody reads them must not matter.
pub(super) fn noise() {
    let _ = writeln!(io::stdout(), "a line on stdout");
    let _ = writeln!(io::stderr(), "a line on stderr");
}

pub(crate) fn sha1_hex(bytes: &[u8]) -> String {
    Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn echo(call: &Call<'_>, reply: &mut Reply<'_>) -> io::Result<()> {
    let content_type = call.header("content-type").unwrap_or("application/octet-stream");
    reply.respond(200, &[("content-type", content_type)], &call.body)
}

pub(super) fn binary(call: &Call<'_>, reply: &mut Reply<'_>) -> io::Result<()> {
    let body: Vec<u8> = (0..=255).collect();
    let headers = [("content-type", "application/octet-stream")];
    match call.text("as") {
        Some("base64") => reply.respond_base64(&headers, &body),
        _ => reply.respond(200, &headers, &body),
    }
}

/// Two cookies, the first with the comma of a date.
pub(super) fn cookies(call: &Call<'_>, reply: &mut Reply<'_>) -> io::Result<()> {
    let (a, b) = ("a=1; Path=/; Expires=Wed, 21 Oct 2099 07:28:00 GMT", "b=2");
    match call.text("joined") {
        Some(_) => reply.respond(200, &[("set-cookie", &format!("{a}, {b}"))], b"cookies"),
        None => reply.respond(200, &[("set-cookie", a), ("set-cookie", b)], b"cookies"),
    }
}

/// Headers that a gateway must not pass on as they are: `?case=crlf|name|nul|hop|vhttpd|many`.
fn headers(call: &Call<'_>, reply: &mut Reply<'_>) -> io::Result<After> {
    let many: Vec<(String, String)> =
        (0..call.number("n", 2000)).map(|n| (format!("x-{n}"), n.to_string())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let headers: &[(&str, &str)] = match call.text("case") {
        Some("crlf") => &[("x-split", "a\r\nx-evil: 1")],
        Some("nul") => &[("x-nul", "a\0b")],
        Some("name") => &[("x bad name:", "a")],
        Some("hop") => &[
            ("connection", "keep-alive, x-hop"),
            ("transfer-encoding", "chunked"),
            ("content-length", "3"),
            ("keep-alive", "timeout=5"),
        ],
        Some("many") => &many,
        _ => &[("x-vhttpd-error-class", "timeout"), ("x-vhttpd-trace-id", "forged")],
    };
    reply.respond(200, headers, b"headers")?;
    Ok(After::Keep)
}

/// A failure as a worker reports it: `?class=&exception=&message=&status=`.
fn error(call: &Call<'_>, reply: &mut Reply<'_>) -> io::Result<()> {
    let status = u16::try_from(call.number("status", 500)).unwrap_or(500);
    let headers = [
        ("x-worker-error-class", call.text("class").unwrap_or("worker_runtime_error")),
        ("x-worker-exception", call.text("exception").unwrap_or("RuntimeException")),
        ("x-worker-error", call.text("message").unwrap_or("boom")),
    ];
    reply.respond(status, &headers, b"Stack trace: #0 /srv/app/index.php(12)")
}

/// Every tenth request is slow, every hundredth fails (`?slow_every=&fail_every=&ms=`): a load
/// that looks like an application's, and is the same every time.
fn mix(call: &Call<'_>, reply: &mut Reply<'_>) -> io::Result<()> {
    let is_turn = |name, or| {
        let every = call.number(name, or);
        every > 0 && call.memory.served.is_multiple_of(every)
    };
    if is_turn("fail_every", 100) {
        return error(call, reply);
    }
    if is_turn("slow_every", 10) {
        clock::sleep_ms(call.number("ms", 50));
        return reply.text(200, "slow\n");
    }
    reply.text(200, "fast\n")
}
