//! From the bytes of an upstream's answer to the bytes for the client.
//!
//! Promise: the output is the same however the input was cut. Once it has failed, [`Stream::fail`]
//! writes the one ending that this output has; nothing else follows it.

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::{Codec, FieldPath, Mapper, Output, Plan};
use crate::sse_parse::Message;
use crate::{ndjson, sse, sse_parse};

/// What an upstream sent that its codec does not allow. For the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A row or an event's data is not JSON.
    #[error("not JSON: {0}")]
    Json(String),
    /// A row is too long.
    #[error(transparent)]
    Row(#[from] ndjson::TooLong),
    /// An event is too long.
    #[error(transparent)]
    Event(#[from] sse_parse::TooLong),
}

/// One plan's stream under way.
#[derive(Debug, Clone)]
pub struct Stream {
    codec: Decoder,
    mapper: Mapper,
    output: Output,
    path: FieldPath,
    fallback: Option<FieldPath>,
    event: String,
    buf: BytesMut,
    piece: BytesMut,
    pieces: u64,
}

#[derive(Debug, Clone)]
enum Decoder {
    Ndjson(ndjson::Decoder),
    Sse(sse_parse::Decoder),
    Raw,
}

impl Stream {
    /// The stream of this plan, at its start.
    #[must_use]
    pub fn new(plan: &Plan) -> Stream {
        let codec = match (plan.codec, plan.mapper) {
            (Codec::Ndjson, Mapper::Field) => Decoder::Ndjson(ndjson::Decoder::new()),
            (Codec::Sse, Mapper::Field) => Decoder::Sse(sse_parse::Decoder::new()),
            (Codec::Sse, Mapper::Same) if plan.output == Output::Sse => {
                Decoder::Sse(sse_parse::Decoder::new())
            }
            _ => Decoder::Raw,
        };
        Stream {
            codec,
            mapper: plan.mapper,
            output: plan.output,
            path: plan.field_path.clone(),
            fallback: plan.fallback_field_path.clone(),
            event: plan.sse_event.clone(),
            buf: BytesMut::new(),
            piece: BytesMut::new(),
            pieces: 0,
        }
    }

    /// Takes bytes that arrived and appends what they mean to `out`.
    ///
    /// # Errors
    /// When they do not mean anything. What was complete before them is in `out`.
    pub fn feed(&mut self, bytes: &[u8], out: &mut BytesMut) -> Result<(), Error> {
        if let Decoder::Raw = self.codec {
            self.raw(bytes, out);
            return Ok(());
        }
        self.buf.extend_from_slice(bytes);
        self.drain(false, out)
    }

    /// The upstream's answer is complete.
    ///
    /// # Errors
    /// When its last message does not mean anything.
    pub fn finish(&mut self, out: &mut BytesMut) -> Result<(), Error> {
        self.drain(true, out)?;
        if self.output == Output::Sse && self.mapper == Mapper::Field {
            self.done(out);
        }
        Ok(())
    }

    /// The stream fails after it has begun. Appends the ending and says whether there is one:
    /// where there is none, the connection is to be aborted.
    pub fn fail(&self, class: &str, trace: &str, out: &mut BytesMut) -> bool {
        match (self.output, self.mapper) {
            (Output::Sse, _) => {
                error_event(class, trace, out);
                self.done(out);
                true
            }
            (Output::Text, Mapper::Field) => {
                out.extend_from_slice(b"\n[upstream_error ");
                out.extend_from_slice(trace.as_bytes());
                out.extend_from_slice(b"]\n");
                true
            }
            (Output::Text, Mapper::Same) => false,
        }
    }

    fn done(&self, out: &mut BytesMut) {
        let id = format!("done-{}", self.pieces + 1);
        sse::write_event(out, Some(&id), Some("done"), None, b"done");
    }

    fn drain(&mut self, ended: bool, out: &mut BytesMut) -> Result<(), Error> {
        loop {
            match &mut self.codec {
                Decoder::Raw => return Ok(()),
                Decoder::Ndjson(rows) => {
                    let row = match ended {
                        true => rows.finish(&mut self.buf)?,
                        false => rows.decode(&mut self.buf)?,
                    };
                    let Some(row) = row else { return Ok(()) };
                    self.row(&row, out)?;
                }
                Decoder::Sse(events) => {
                    let message = match ended {
                        true => events.finish(&mut self.buf)?,
                        false => events.decode(&mut self.buf)?,
                    };
                    let Some(message) = message else { return Ok(()) };
                    self.message(message, out)?;
                }
            }
        }
    }

    fn message(&mut self, message: Message, out: &mut BytesMut) -> Result<(), Error> {
        match (message, self.mapper) {
            (Message::Comment, Mapper::Same) => out.extend_from_slice(b":\n\n"),
            (Message::Comment, Mapper::Field) => {}
            (Message::Event(event), Mapper::Same) => {
                self.pieces += 1;
                let (id, name) = (event.id.as_deref(), event.event.as_deref());
                sse::write_event(out, id, name, event.retry, &event.data);
            }
            // How streams of this kind say that they are complete.
            (Message::Event(event), Mapper::Field) if event.data == "[DONE]" => {}
            (Message::Event(event), Mapper::Field) => self.row(&event.data, out)?,
        }
        Ok(())
    }

    fn row(&mut self, row: &Bytes, out: &mut BytesMut) -> Result<(), Error> {
        let row: Value =
            serde_json::from_slice(row).map_err(|error| Error::Json(error.to_string()))?;
        self.piece.clear();
        if !self.path.write(&row, &mut self.piece)
            && let Some(fallback) = &self.fallback
        {
            fallback.write(&row, &mut self.piece);
        }
        if self.piece.is_empty() {
            return Ok(()); // rows that only say that there is more, or no more
        }
        let piece = self.piece.split();
        self.piece(&piece, out);
        Ok(())
    }

    fn piece(&mut self, piece: &[u8], out: &mut BytesMut) {
        self.pieces += 1;
        match self.output {
            Output::Text => out.extend_from_slice(piece),
            Output::Sse => {
                let id = format!("tok-{}", self.pieces);
                sse::write_event(out, Some(&id), Some(&self.event), None, piece);
            }
        }
    }

    /// Bytes as they come. To a client of events they are passed on too: they are events already.
    fn raw(&mut self, bytes: &[u8], out: &mut BytesMut) {
        self.pieces += 1;
        out.extend_from_slice(bytes);
    }
}

/// The body of a failure before the first byte, where the output is events.
pub fn early_failure(class: &str, trace: &str, out: &mut BytesMut) {
    error_event(class, trace, out);
    sse::write_event(out, Some("done-1"), Some("done"), None, b"done");
}

fn error_event(class: &str, trace: &str, out: &mut BytesMut) {
    let mut data = BytesMut::new();
    let mut object = crate::json::Object::new(&mut data);
    object.text("error_class", class);
    object.text("trace_id", trace);
    object.end();
    sse::write_event(out, None, Some("error"), None, &data);
}
