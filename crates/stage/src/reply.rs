//! Writing the answers that obey the contract.

use std::io;

use bytes::BytesMut;
use hedgerow_wire::reply::{self, Body, Response};
use hedgerow_wire::stream::{SseFields, StreamKind};

use crate::connection::Connection;

/// Bodies up to this length go inside the frame if they are text.
const INLINE: usize = 64 << 10;

/// One answer in the making.
pub(crate) struct Reply<'c> {
    connection: &'c mut Connection,
    id: String,
    out: BytesMut,
}

impl<'c> Reply<'c> {
    pub(crate) fn new(connection: &'c mut Connection, id: String) -> Self {
        Self { connection, id, out: BytesMut::new() }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The connection, for what breaks the contract.
    pub(crate) fn connection(&mut self) -> &mut Connection {
        self.connection
    }

    pub(crate) fn text(&mut self, status: u16, text: &str) -> io::Result<()> {
        self.respond(status, &[("content-type", "text/plain; charset=utf-8")], text.as_bytes())
    }

    pub(crate) fn json(&mut self, json: &[u8]) -> io::Result<()> {
        self.respond(200, &[("content-type", "application/json")], json)
    }

    /// A response: short text inside the frame, anything else raw after it.
    pub(crate) fn respond(
        &mut self,
        status: u16,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let text = std::str::from_utf8(body).ok().filter(|text| text.len() <= INLINE);
        match text {
            Some(text) => self.frame(status, headers, Body::Text(text)),
            None => {
                self.frame(status, headers, Body::Raw(body.len() as u64))?;
                self.connection.write(body)
            }
        }
    }

    /// A response in the dialect of a worker that knows no raw bodies.
    pub(crate) fn respond_base64(
        &mut self,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        self.frame(200, headers, Body::Base64(body))
    }

    fn frame(&mut self, status: u16, headers: &[(&str, &str)], body: Body<'_>) -> io::Result<()> {
        let response = Response { id: &self.id, status, headers, body, capabilities: None };
        reply::response(&mut self.out, &response).map_err(io::Error::other)?;
        self.flush()
    }

    /// A frame of ready-made JSON.
    pub(crate) fn raw(&mut self, payload: &[u8]) -> io::Result<()> {
        reply::raw(&mut self.out, payload).map_err(io::Error::other)?;
        self.flush()
    }

    pub(crate) fn stream_start(&mut self, kind: StreamKind) -> io::Result<()> {
        let content_type = match kind {
            StreamKind::Sse => "text/event-stream",
            StreamKind::Text => "text/plain; charset=utf-8",
        };
        reply::stream_start(&mut self.out, &self.id, 200, kind, content_type, &[], None)
            .map_err(io::Error::other)?;
        self.flush()
    }

    pub(crate) fn chunk(&mut self, data: &[u8], sse: Option<&SseFields>) -> io::Result<()> {
        reply::chunk(&mut self.out, &self.id, data, sse).map_err(io::Error::other)?;
        self.flush()
    }

    pub(crate) fn stream_error(&mut self, class: &str, message: &str) -> io::Result<()> {
        reply::stream_error(&mut self.out, &self.id, class, message).map_err(io::Error::other)?;
        self.flush()
    }

    pub(crate) fn stream_end(&mut self) -> io::Result<()> {
        reply::stream_end(&mut self.out, &self.id).map_err(io::Error::other)?;
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.connection.write(&self.out);
        self.out.clear();
        written
    }
}
