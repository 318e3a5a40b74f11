//! Spans as OTLP has them: the protobuf of `opentelemetry.proto.collector.trace.v1`, encoded.
//!
//! Invariant: what comes out is one `ExportTraceServiceRequest`, whatever strings and numbers go in.
//! Only what is sent is known here: nothing is decoded.

/// Where a span stands between two parties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Within one.
    Internal = 1,
    /// It answers.
    Server = 2,
    /// It asks.
    Client = 3,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// Yes or no.
    Flag(bool),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

/// One span.
#[derive(Clone, PartialEq, Debug)]
pub struct Span {
    /// Its trace.
    pub trace_id: [u8; 16],
    /// Itself. Never zero.
    pub span_id: u64,
    /// The span that it is part of.
    pub parent: Option<u64>,
    /// `tracestate` as it was received; empty: there was none.
    pub trace_state: String,
    /// What it is about. Few different ones.
    pub name: String,
    /// Where it stands.
    pub kind: Kind,
    /// Its begin, in nanoseconds since 1970.
    pub start: u64,
    /// Its end, likewise.
    pub end: u64,
    /// What is known of it.
    pub attributes: Vec<(&'static str, Value)>,
    /// It failed.
    pub failed: bool,
}

/// Appends a request that exports `spans` of a resource with these attributes.
pub fn encode<'s>(
    out: &mut Vec<u8>,
    resource: &[(&'static str, Value)],
    scope: (&str, &str),
    spans: impl IntoIterator<Item = &'s Span>,
) {
    let mut resource_spans = Vec::new();
    message(&mut resource_spans, 1, |out| attributes(out, 1, resource));
    message(&mut resource_spans, 2, |out| {
        message(out, 1, |out| {
            text(out, 1, scope.0);
            text(out, 2, scope.1);
        });
        for span in spans {
            message(out, 2, |out| write_span(out, span));
        }
    });
    bytes(out, 1, &resource_spans);
}

fn write_span(out: &mut Vec<u8>, span: &Span) {
    bytes(out, 1, &span.trace_id);
    bytes(out, 2, &span.span_id.to_be_bytes());
    text(out, 3, &span.trace_state);
    if let Some(parent) = span.parent {
        bytes(out, 4, &parent.to_be_bytes());
    }
    text(out, 5, &span.name);
    number(out, 6, span.kind as u64);
    fixed(out, 7, span.start);
    fixed(out, 8, span.end);
    attributes(out, 9, &span.attributes);
    if span.failed {
        // Status, code ERROR. Unset is no status at all.
        message(out, 15, |out| number(out, 3, 2));
    }
}

fn attributes(out: &mut Vec<u8>, field: u64, all: &[(&'static str, Value)]) {
    for (key, value) in all {
        message(out, field, |out| {
            text(out, 1, key);
            message(out, 2, |out| match value {
                // Written even where empty: a value that is not there is another one.
                Value::Text(value) => bytes(out, 1, value.as_bytes()),
                Value::Flag(value) => number(out, 2, u64::from(*value)),
                Value::Int(value) => number(out, 3, u64::from_ne_bytes(value.to_ne_bytes())),
            });
        });
    }
}

/// The types of fields on the wire.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;

fn message(out: &mut Vec<u8>, field: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    bytes(out, field, &inner);
}

/// A text; an empty one is the default and not written.
fn text(out: &mut Vec<u8>, field: u64, value: &str) {
    if !value.is_empty() {
        bytes(out, field, value.as_bytes());
    }
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | LENGTH);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3 | VARINT);
    varint(out, value);
}

fn fixed(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3 | FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_seven_bits_at_a_time() {
        // Protocol Buffers, Encoding: 150 is 96 01.
        let mut out = Vec::new();
        number(&mut out, 1, 150);
        assert_eq!(out, [0x08, 0x96, 0x01]);
        out.clear();
        varint(&mut out, u64::MAX);
        assert_eq!(out.len(), 10);
    }

    #[test]
    fn a_small_span_byte_by_byte() {
        let span = Span {
            trace_id: [0xaa; 16],
            span_id: 1,
            parent: None,
            trace_state: String::new(),
            name: "GET".to_owned(),
            kind: Kind::Server,
            start: 1,
            end: 2,
            attributes: vec![("a", true.into())],
            failed: true,
        };
        let mut out = Vec::new();
        encode(&mut out, &[], ("s", ""), [&span]);
        let mut span = vec![0x0a, 16];
        span.extend([0xaa; 16]);
        span.extend([0x12, 8, 0, 0, 0, 0, 0, 0, 0, 1]);
        span.extend(b"\x2a\x03GET\x30\x02");
        span.extend([0x39, 1, 0, 0, 0, 0, 0, 0, 0, 0x41, 2, 0, 0, 0, 0, 0, 0, 0]);
        span.extend(b"\x4a\x07\x0a\x01a\x12\x02\x10\x01");
        span.extend([0x7a, 2, 0x18, 2]);
        let mut scoped = b"\x0a\x03\x0a\x01s\x12".to_vec();
        scoped.push(u8::try_from(span.len()).unwrap());
        scoped.extend(span);
        let mut expected = vec![0x0a, u8::try_from(scoped.len() + 4).unwrap(), 0x0a, 0, 0x12];
        expected.push(u8::try_from(scoped.len()).unwrap());
        expected.extend(scoped);
        assert_eq!(out, expected);
    }
}
