//! The routes that the conformance suite asks of an application.

use std::io;

use hedgerow_wire::stream::{SseFields, StreamKind};

use super::{After, Call, plain};
use crate::reply::Reply;

pub(super) fn serve(call: &Call<'_>, reply: &mut Reply<'_>, what: &str) -> io::Result<After> {
    match what {
        "" => reply.json(b"{\"conform\":1}")?,
        "echo" => plain::echo(call, reply)?,
        "sha1" => reply.text(200, &plain::sha1_hex(&call.body))?,
        "envelope" => reply.json(&call.payload)?,
        "cookies" => plain::cookies(call, reply)?,
        "binary" => plain::binary(call, reply)?,
        "stream/text" => {
            reply.stream_start(StreamKind::Text)?;
            for piece in ["one", "two", "three"] {
                reply.chunk(piece.as_bytes(), None)?;
            }
            reply.stream_end()?;
        }
        "stream/sse" => {
            reply.stream_start(StreamKind::Sse)?;
            for piece in 1..=3 {
                event(reply, piece)?;
            }
            reply.stream_end()?;
        }
        "error/runtime" => {
            let headers = [
                ("x-worker-error-class", "worker_runtime_error"),
                ("x-worker-exception", "RuntimeException"),
                // As a library does it that cannot know what a message holds.
                ("x-worker-error", &"boom\r\nx-evil: 1".replace(['\r', '\n'], " ")),
            ];
            reply.respond(500, &headers, b"")?;
        }
        "error/contract" => {
            let headers = [("x-worker-error-class", "app_contract_error")];
            reply.respond(500, &headers, b"")?;
        }
        "error/late" => {
            reply.stream_start(StreamKind::Sse)?;
            event(reply, 1)?;
            reply.stream_error("worker_runtime_error", "too late for a status")?;
        }
        "noise" => {
            plain::noise();
            reply.text(200, "quiet")?;
        }
        _ => reply.text(404, "no such requirement\n")?,
    }
    Ok(After::Keep)
}

fn event(reply: &mut Reply<'_>, number: u64) -> io::Result<()> {
    let fields =
        SseFields { id: Some(number.to_string()), event: Some("tick".to_owned()), retry: None };
    reply.chunk(format!("data {number}").as_bytes(), Some(&fields))
}
