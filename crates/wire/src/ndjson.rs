//! Newline-delimited JSON, split into rows.
//!
//! Promise: the rows are the same however the bytes were cut into reads. A row ends with LF or
//! CRLF, the last one may lack its end, empty rows are none, and a byte order mark at the very start
//! is dropped. Whether a row is JSON is for whoever reads it. A row over [`MAX_ROW`] is an error,
//! found before more than that is kept.

use bytes::{Buf, Bytes, BytesMut};

/// The longest row, in bytes (1 MiB).
pub const MAX_ROW: usize = 1 << 20;

pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// A row that is longer than [`MAX_ROW`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a row of more than {MAX_ROW} bytes")]
pub struct TooLong;

/// Splits one stream into rows.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    /// How much of the buffer is known to hold no line end.
    scanned: usize,
    started: bool,
}

impl Decoder {
    /// A decoder at the start of a stream.
    #[must_use]
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Takes the next row off the front of `buf`, without its end; `None` while it is not all there.
    ///
    /// # Errors
    /// When the row is too long. The stream is of no further use.
    pub fn decode(&mut self, buf: &mut BytesMut) -> Result<Option<Bytes>, TooLong> {
        loop {
            if !self.started {
                if buf.len() < BOM.len() && BOM.starts_with(buf) {
                    return Ok(None);
                }
                if buf.starts_with(BOM) {
                    buf.advance(BOM.len());
                }
                self.started = true;
            }
            let Some(end) = buf[self.scanned..].iter().position(|&byte| byte == b'\n') else {
                self.scanned = buf.len();
                return if buf.len() > MAX_ROW { Err(TooLong) } else { Ok(None) };
            };
            let row = buf.split_to(self.scanned + end + 1).freeze();
            self.scanned = 0;
            if let Some(row) = trimmed(&row)? {
                return Ok(Some(row));
            }
        }
    }

    /// The stream has ended: what is left is the last row, if it is one.
    ///
    /// # Errors
    /// When it is too long.
    pub fn finish(&mut self, buf: &mut BytesMut) -> Result<Option<Bytes>, TooLong> {
        if let Some(row) = self.decode(buf)? {
            return Ok(Some(row));
        }
        self.scanned = 0;
        trimmed(&buf.split().freeze())
    }
}

/// A row without its end and the white space around it; `None` if nothing is left.
fn trimmed(row: &Bytes) -> Result<Option<Bytes>, TooLong> {
    let text = row.trim_ascii();
    match text.len() {
        0 => Ok(None),
        length if length > MAX_ROW => Err(TooLong),
        _ => Ok(Some(row.slice_ref(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(reads: &[&[u8]]) -> Vec<Bytes> {
        let (mut decoder, mut buf, mut rows) = (Decoder::new(), BytesMut::new(), Vec::new());
        for read in reads {
            buf.extend_from_slice(read);
            while let Some(row) = decoder.decode(&mut buf).unwrap() {
                rows.push(row);
            }
        }
        while let Some(row) = decoder.finish(&mut buf).unwrap() {
            rows.push(row);
        }
        rows
    }

    #[test]
    fn any_cut_gives_the_same_rows() {
        let text = b"\xef\xbb\xbf{\"a\":1}\r\n\n  \r\n{\"b\":\"x\\n\"}\n[1]\r\n\"last\"";
        let whole = rows(&[text]);
        assert_eq!(whole, [&b"{\"a\":1}"[..], b"{\"b\":\"x\\n\"}", b"[1]", b"\"last\""]);
        for cut in 0..text.len() {
            let (head, tail) = text.split_at(cut);
            assert_eq!(rows(&[head, tail]), whole, "cut at {cut}");
        }
        assert_eq!(rows(&text.chunks(1).collect::<Vec<_>>()), whole);
        assert!(rows(&[b""]).is_empty() && rows(&[b"\xef\xbb\xbf"]).is_empty());
        assert_eq!(rows(&[b"\xef\xbb"]), [&b"\xef\xbb"[..]], "half a mark is a row, not lost");
    }

    #[test]
    fn the_longest_row_passes_and_one_byte_more_does_not() {
        let mut buf = BytesMut::from(&vec![b'7'; MAX_ROW][..]);
        buf.extend_from_slice(b"\n");
        assert_eq!(Decoder::new().decode(&mut buf).unwrap().unwrap().len(), MAX_ROW);
        let mut buf = BytesMut::from(&vec![b'7'; MAX_ROW + 1][..]);
        assert_eq!(Decoder::new().decode(&mut buf), Err(TooLong));
        let mut buf = BytesMut::from(&vec![b'7'; MAX_ROW + 1][..]);
        buf.extend_from_slice(b"\n");
        assert_eq!(Decoder::new().decode(&mut buf), Err(TooLong));
    }
}
