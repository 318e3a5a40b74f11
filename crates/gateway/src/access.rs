//! The access line: what came, what went, how long it took.
//!
//! Invariant: a request is one line, whatever its path holds. In the text form no field can
//! contain a space or a control character, so its columns can be counted on.

use crate::facts::Fields;
use crate::finish;
use crate::line::{self, Line};
use crate::live::Entry;
use crate::record::{Format, Inner, Outcome};
use crate::wall::Stamp;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Writes the line of a request that has ended.
pub(crate) fn line(inner: &Inner, entry: &Entry, outcome: &Outcome, took: Duration, at: Stamp) {
    let Some(sink) = &inner.access else { return };
    line::with_buffer(|out| {
        match inner.settings.format {
            Format::Json => json(out, inner.settings.line_limit, entry, outcome, took, at),
            Format::Text => text(out, inner.settings.line_limit, entry, outcome, took),
        }
        sink.push(out)
    });
}

fn json(
    out: &mut Vec<u8>,
    limit: usize,
    entry: &Entry,
    outcome: &Outcome,
    took: Duration,
    at: Stamp,
) {
    let mut line = Line::stamped(out, limit, at);
    line.addr(&"remote_addr", entry.remote_addr);
    line.str(&"method", entry.method.as_str());
    line.str(&"path", &entry.path);
    line.str(&"protocol", entry.protocol);
    finish::fields(&mut line, entry, outcome, took);
    line.opt_str(&"error_class", outcome.failure.as_ref().map(|failure| failure.class.name()));
    line.str(&"trace_id", &entry.trace_id);
    line.str(&"request_id", &entry.request_id);
    line.end();
}

/// `remote - method path proto status bytes duration_ms class trace`
fn text(out: &mut Vec<u8>, limit: usize, entry: &Entry, outcome: &Outcome, took: Duration) {
    // A quarter for each of what a client chooses; the rest is short.
    let most = limit / 4;
    line::addr(out, entry.remote_addr);
    out.extend_from_slice(b" - ");
    column(out, entry.method.as_str(), most);
    out.push(b' ');
    column(out, &entry.path, most);
    out.push(b' ');
    column(out, entry.protocol, most);
    out.push(b' ');
    line::number(out, outcome.status.into());
    out.push(b' ');
    line::number(out, entry.bytes_out.load(Relaxed));
    out.push(b' ');
    line::millis(out, took);
    out.push(b' ');
    column(out, outcome.failure.as_ref().map_or("-", |failure| failure.class.name()), most);
    out.push(b' ');
    column(out, &entry.trace_id, most);
    out.push(b'\n');
}

/// Appends one column; what would break it is percent-encoded, and what is empty is a hyphen.
fn column(out: &mut Vec<u8>, value: &str, most: usize) {
    if value.is_empty() {
        out.push(b'-');
    }
    if value.len() <= most && value.bytes().all(|b| b.is_ascii_graphic()) {
        out.extend_from_slice(value.as_bytes());
        return;
    }
    let end = out.len() + most;
    for c in value.chars() {
        let mut utf8 = [0; 4];
        let bytes = c.encode_utf8(&mut utf8).as_bytes();
        // Quotes and backslashes are harmless here; what `must_escape` adds to those is not.
        let harmless = matches!(c, '"' | '\\') || !(line::must_escape(c) || c.is_whitespace());
        let width = if harmless { bytes.len() } else { 3 * bytes.len() };
        if out.len() + width > end {
            out.extend_from_slice("…".as_bytes());
            return;
        }
        if harmless {
            out.extend_from_slice(bytes);
            continue;
        }
        for &byte in bytes {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

#[cfg(test)]
mod tests;
