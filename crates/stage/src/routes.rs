//! What the scripted worker does, by the path of the request.
//!
//! | path | answer |
//! | --- | --- |
//! | `/` | a page that links to the others |
//! | `/hello` `/echo` `/sha1` `/envelope` `/cookies` `/binary` `/bytes` `/status` `/headers` `/error` `/mix` | a response ([`plain`](self)) |
//! | `/sleep` `/hang` | a response after a while, or never |
//! | `/stream/…` | a stream, whole or broken off |
//! | `/plan` `/batch` | a plan, a batch |
//! | `/dispatch` | a stream in steps, where the gateway offers one |
//! | `/fault/…` | what breaks the contract |
//! | `/conform/…` | what the conformance suite asks of an application |

mod conform;
mod dispatch;
mod fault;
mod landing;
mod plain;
mod plans;
mod streams;

pub(crate) use plain::sha1_hex;

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use hedgerow_wire::request::Received;

use crate::args::Args;
use crate::connection::{Connection, Head};
use crate::reply::Reply;
use crate::server::Memory;

/// What becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The exchange is complete: another request may follow.
    Keep,
    /// Close it.
    Close,
}

/// One request with its body.
struct Call<'a> {
    request: Received,
    path: String,
    query: BTreeMap<String, String>,
    payload: Bytes,
    body: Bytes,
    args: &'a Args,
    memory: &'a mut Memory,
}

impl Call<'_> {
    /// A query parameter as a number.
    fn number(&self, name: &str, or: u64) -> u64 {
        self.query.get(name).and_then(|value| value.parse().ok()).unwrap_or(or)
    }

    /// A query parameter.
    fn text(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.request.headers.get(name).map(String::as_str)
    }
}

/// Serves one request.
pub(crate) fn serve(
    connection: &mut Connection,
    head: Head,
    args: &Args,
    memory: &mut Memory,
) -> io::Result<After> {
    let Head { payload, mut request } = head;
    let (path, query) = match &args.mode {
        Some(mode) => split_target(mode),
        None => (std::mem::take(&mut request.path), std::mem::take(&mut request.query)),
    };
    if path == "/fault/reset" {
        return Ok(After::Close); // what it has not read yet makes the close a reset
    }
    let body = connection.body(request.body.clone())?;
    let mut reply = Reply::new(connection, request.id.clone());
    let call = &mut Call { request, path, query, payload, body, args, memory };
    if call.args.mode.is_none()
        && let Some(step) = dispatch::Asked::of(&call.payload)
    {
        return dispatch::serve(call, &mut reply, &step);
    }
    let (first, rest) = match call.path[1.min(call.path.len())..].split_once('/') {
        Some((first, rest)) => (first.to_owned(), rest.to_owned()),
        None => (call.path.trim_start_matches('/').to_owned(), String::new()),
    };
    match first.as_str() {
        "stream" => streams::serve(call, &mut reply, &rest),
        "fault" => fault::serve(call, &mut reply, &rest),
        "conform" => conform::serve(call, &mut reply, &rest),
        "plan" => plans::plan(call, &mut reply),
        "batch" => plans::batch(call, &mut reply),
        _ => plain::serve(call, &mut reply),
    }
}

/// A path and a simple query, from the command line: no decoding.
fn split_target(target: &str) -> (String, BTreeMap<String, String>) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    (path.to_owned(), pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}
