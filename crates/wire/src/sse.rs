//! Server-sent events as text.
//!
//! Promise: one call writes one event, whatever the fields hold: line ends inside the data become
//! further `data` lines, and an `id` or `event` cannot break out of its line.

use bytes::{BufMut, BytesMut};

use crate::json;

/// Appends one event. Empty data is one empty `data` line.
pub fn write_event(
    out: &mut BytesMut,
    id: Option<&str>,
    event: Option<&str>,
    retry: Option<u64>,
    data: &[u8],
) {
    for (name, value) in [("id: ", id), ("event: ", event)] {
        if let Some(value) = value {
            out.put_slice(name.as_bytes());
            // A NUL would make a client ignore the id; line ends would start another field.
            for piece in value.split(['\r', '\n', '\0']) {
                out.put_slice(piece.as_bytes());
            }
            out.put_u8(b'\n');
        }
    }
    if let Some(retry) = retry {
        out.put_slice(b"retry: ");
        json::number(out, retry);
        out.put_u8(b'\n');
    }
    let mut rest = data;
    loop {
        let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        out.put_slice(b"data: ");
        out.put_slice(&rest[..end.unwrap_or(rest.len())]);
        out.put_u8(b'\n');
        let Some(end) = end else { break };
        let pair = rest[end..].starts_with(b"\r\n");
        rest = &rest[end + 1 + usize::from(pair)..];
    }
    out.put_u8(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: Option<&str>, event: Option<&str>, retry: Option<u64>, data: &str) -> String {
        let mut out = BytesMut::new();
        write_event(&mut out, id, event, retry, data.as_bytes());
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn fields_come_in_order() {
        let full = event(Some("tok-1"), Some("token"), Some(500), "a");
        assert_eq!(full, "id: tok-1\nevent: token\nretry: 500\ndata: a\n\n");
        assert_eq!(event(None, None, None, ""), "data: \n\n");
    }

    #[test]
    fn every_kind_of_line_end_makes_a_data_line() {
        let lines = event(None, None, None, "a\nb\r\nc\rd\n");
        assert_eq!(lines, "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
    }

    #[test]
    fn an_id_cannot_break_out_of_its_line() {
        let text = event(Some("1\r\ndata: x"), Some("e\n\nid\0"), None, "d");
        assert_eq!(text, "id: 1data: x\nevent: eid\ndata: d\n\n");
    }
}
