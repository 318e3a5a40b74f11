//! A worker inside the test: it speaks frames on a socket and answers by path.

use bytes::{Buf, Bytes, BytesMut};
use hedgerow_wire::reply::{self, Body, Response};
use hedgerow_wire::request::{Received, ReceivedBody, decode};
use hedgerow_wire::stream::{SseFields, StreamKind};
use hedgerow_wire::{Capabilities, frame};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};

/// What the worker saw and what holds it up.
pub(crate) struct Stage {
    /// Every request, with its body and the frame as it came.
    pub(crate) seen: Mutex<Vec<(Received, Bytes, Bytes)>>,
    /// `/hold` answers once it gets a permit from here.
    pub(crate) gate: Semaphore,
    /// Told when a request is with the worker.
    pub(crate) arrived: mpsc::UnboundedSender<String>,
    /// What it says it can do.
    pub(crate) capabilities: Option<Capabilities>,
}

/// Serves until the test ends.
pub(crate) fn start(socket: &Path, stage: Arc<Stage>) {
    let listener = UnixListener::bind(socket).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, stage.clone()));
        }
    });
}

async fn serve(mut stream: UnixStream, stage: Arc<Stage>) {
    let mut input = BytesMut::new();
    let payload = loop {
        if let Some(payload) = frame::decode(&mut input).unwrap() {
            break payload;
        }
        if stream.read_buf(&mut input).await.unwrap_or(0) == 0 {
            return;
        }
    };
    let request = decode(&payload).unwrap();
    let body = match &request.body {
        ReceivedBody::Inline(bytes) => bytes.clone(),
        ReceivedBody::Raw(length) => {
            while (input.len() as u64) < *length {
                if stream.read_buf(&mut input).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            input.copy_to_bytes(*length as usize)
        }
    };
    stage.seen.lock().unwrap().push((request.clone(), body.clone(), payload));
    let _ = stage.arrived.send(request.path.clone());
    answer(&mut stream, &stage, &request, &body).await;
}

async fn answer(stream: &mut UnixStream, stage: &Stage, request: &Received, body: &Bytes) {
    let id = request.id.as_str();
    let mut out = BytesMut::new();
    let respond = |out: &mut BytesMut, status, headers: &[(&str, &str)], body| {
        let capabilities = stage.capabilities;
        reply::response(out, &Response { id, status, headers, body, capabilities }).unwrap();
    };
    let plain = [("content-type", "text/plain")];
    match request.path.as_str() {
        "/hold" => {
            stage.gate.acquire().await.unwrap().forget();
            respond(&mut out, 200, &plain, Body::Text("held"));
        }
        "/silent" => std::future::pending().await,
        "/close" => return,
        "/echo" => {
            respond(&mut out, 200, &[], Body::Raw(body.len() as u64));
            out.extend_from_slice(body);
        }
        "/big" => {
            let big = vec![b'x'; 8 << 20];
            respond(&mut out, 200, &plain, Body::Raw(big.len() as u64));
            out.extend_from_slice(&big);
        }
        "/short" => {
            respond(&mut out, 200, &plain, Body::Raw(300_000));
            out.extend_from_slice(&[b'x'; 200_000]);
        }
        "/cookies" => respond(
            &mut out,
            200,
            &[
                ("set-cookie", "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT"),
                ("set-cookie", "b=2"),
                ("connection", "close"),
                ("transfer-encoding", "gzip"),
                ("content-length", "999"),
                ("x-vhttpd-error-class", "timeout"),
                ("x-worker-error", "secret"),
                ("x-request-id", "forged"),
            ],
            Body::Text("abc"),
        ),
        "/inject" => {
            let text = format!(
                r#"{{"id":"{id}","status":200,"headers":{{"x-a":"1\r\nx-evil: 1"}},"body":""}}"#
            );
            reply::raw(&mut out, text.as_bytes()).unwrap();
        }
        "/boom" => respond(
            &mut out,
            500,
            &[
                ("x-worker-error-class", "worker_runtime_error"),
                ("x-worker-exception", "RuntimeException"),
                ("x-worker-error", "secret in /srv/app.php:3"),
            ],
            Body::Text("stack trace"),
        ),
        "/own500" => respond(&mut out, 500, &plain, Body::Text("the application's own")),
        // A batch, and on its resumption what it brought.
        "/resume" => {
            let payload = stage.seen.lock().unwrap().last().unwrap().2.clone();
            let frame: serde_json::Value = serde_json::from_slice(&payload).unwrap();
            if frame["event"] == "resume" {
                let came = format!("{} {}", frame["state"], frame["results"]);
                respond(&mut out, 200, &plain, Body::Text(&came));
            } else {
                frame::encode_with(&mut out, |out| out.extend_from_slice(body)).unwrap();
            }
        }
        // Whatever the test wants the worker to answer.
        "/frame" => {
            frame::encode_with(&mut out, |out| out.extend_from_slice(body)).unwrap();
        }
        "/plan" => {
            let text = format!(
                r#"{{"mode":"stream","strategy":"upstream_plan","event":"start","id":"{id}"}}"#
            );
            reply::raw(&mut out, text.as_bytes()).unwrap();
        }
        path if path.starts_with("/status/") => {
            let status = &path["/status/".len()..];
            let text = format!(r#"{{"id":"{id}","status":{status},"headers":{{}},"body":"abc"}}"#);
            reply::raw(&mut out, text.as_bytes()).unwrap();
        }
        path if path.starts_with("/text") || path.starts_with("/sse") => {
            return streams(stream, stage, request).await;
        }
        _ => respond(&mut out, 200, &plain, Body::Text("hello")),
    }
    let _ = stream.write_all(&out).await;
    let _ = stream.shutdown().await;
}

/// `/text` and `/sse`: a chunk, then (at the gate) what the end of the path says.
async fn streams(stream: &mut UnixStream, stage: &Stage, request: &Received) {
    let id = request.id.as_str();
    let sse = request.path.starts_with("/sse");
    let (kind, content_type) =
        if sse { (StreamKind::Sse, "text/event-stream") } else { (StreamKind::Text, "text/plain") };
    let fields = SseFields { id: Some("tok-1".into()), event: Some("token".into()), retry: None };
    let mut out = BytesMut::new();
    reply::stream_start(&mut out, id, 200, kind, content_type, &[("x-app", "1")], None).unwrap();
    reply::chunk(&mut out, id, b"one\n", sse.then_some(&fields)).unwrap();
    let _ = stream.write_all(&out).await;
    stage.gate.acquire().await.unwrap().forget();
    let mut out = BytesMut::new();
    reply::chunk(&mut out, id, b"two\n", None).unwrap();
    match request.path.rsplit('/').next() {
        Some("dies") => {}
        Some("fails") => {
            reply::stream_error(&mut out, id, "worker_runtime_error", "secret").unwrap();
        }
        _ => reply::stream_end(&mut out, id).unwrap(),
    }
    let _ = stream.write_all(&out).await;
    let _ = stream.shutdown().await;
}
