//! Streams: whole ones, endless ones, and ones that break off.

use std::io;

use hedgerow_wire::stream::{SseFields, StreamKind};

use super::{After, Call};
use crate::clock;
use crate::reply::Reply;

pub(super) fn serve(call: &Call<'_>, reply: &mut Reply<'_>, what: &str) -> io::Result<After> {
    let (n, ms) = (call.number("n", 3), call.number("ms", 0));
    let after = call.number("after", 1);
    let kind = match (what, call.text("as")) {
        ("sse", _) | (_, Some("sse")) => StreamKind::Sse,
        _ => StreamKind::Text,
    };
    if !matches!(what, "text" | "sse" | "die" | "error" | "endless") {
        reply.text(404, "no such stream\n")?;
        return Ok(After::Keep);
    }
    reply.stream_start(kind)?;
    let pieces = match what {
        "die" | "error" => after,
        "endless" => u64::MAX,
        _ => n,
    };
    // An endless stream takes a breath, so that it does not fill the gateway's memory first.
    let pause = if what == "endless" { call.number("ms", 10).max(1) } else { ms };
    for piece in 1..=pieces {
        if pause > 0 && (piece > 1 || what == "endless") {
            clock::sleep_ms(pause);
        }
        if call.args.capabilities.cancel && reply.connection().is_abandoned() {
            break;
        }
        send(reply, kind, piece)?;
    }
    match what {
        "die" => return Ok(After::Close),
        "error" => reply.stream_error("worker_runtime_error", "the stream was told to fail")?,
        _ => reply.stream_end()?,
    }
    Ok(After::Keep)
}

fn send(reply: &mut Reply<'_>, kind: StreamKind, piece: u64) -> io::Result<()> {
    match kind {
        StreamKind::Text => reply.chunk(format!("line {piece}\n").as_bytes(), None),
        StreamKind::Sse => {
            let fields = SseFields {
                id: Some(piece.to_string()),
                event: Some("tick".to_owned()),
                retry: None,
            };
            reply.chunk(format!("tick {piece}").as_bytes(), Some(&fields))
        }
    }
}
