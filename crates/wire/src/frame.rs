//! The length prefix: four bytes, big-endian, then that many bytes of payload.
//!
//! Promise: a length that is not allowed (0, or over [`MAX_FRAME`]) is an error as soon as its four
//! bytes are there, and no memory is ever set aside for a length that was only claimed.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The longest payload, in bytes (16 MiB).
pub const MAX_FRAME: usize = 16 << 20;

/// The bytes in front of a payload.
pub const PREFIX: usize = 4;

/// A length that a frame cannot have. The stream it was read from is out of step: close it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The length was 0; the shortest JSON text has one byte.
    #[error("a frame of length 0")]
    Empty,
    /// The length was over [`MAX_FRAME`].
    #[error("a frame of {0} bytes, where at most {MAX_FRAME} are allowed")]
    TooLong(u64),
}

/// Takes one payload off the front of `buf`, or `None` while it is not all there.
///
/// On an error `buf` is left as it was: there is no next frame to find in it.
pub fn decode(buf: &mut BytesMut) -> Result<Option<Bytes>, Error> {
    let Some(&prefix) = buf.first_chunk::<PREFIX>() else { return Ok(None) };
    let length = u32::from_be_bytes(prefix) as usize;
    check(length)?;
    if buf.len() - PREFIX < length {
        return Ok(None);
    }
    buf.advance(PREFIX);
    Ok(Some(buf.split_to(length).freeze()))
}

/// Appends one frame whose payload is whatever `write` appends; the length is filled in afterwards.
///
/// On an error `out` is as long as it was before.
pub fn encode_with<R>(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> R,
) -> Result<R, Error> {
    let start = out.len();
    out.put_bytes(0, PREFIX);
    let result = write(out);
    let length = out.len().saturating_sub(start + PREFIX);
    match (check(length), u32::try_from(length)) {
        (Ok(()), Ok(length)) => {
            out[start..start + PREFIX].copy_from_slice(&length.to_be_bytes());
            Ok(result)
        }
        (refused, _) => {
            out.truncate(start);
            refused.and(Err(Error::TooLong(length as u64)))
        }
    }
}

fn check(length: usize) -> Result<(), Error> {
    match length {
        0 => Err(Error::Empty),
        1..=MAX_FRAME => Ok(()),
        _ => Err(Error::TooLong(length as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buf(bytes: &[u8]) -> BytesMut {
        BytesMut::from(bytes)
    }

    #[test]
    fn waits_for_the_prefix_and_for_the_payload() {
        assert_eq!(decode(&mut buf(b"")), Ok(None));
        assert_eq!(decode(&mut buf(&[0, 0, 0])), Ok(None));
        assert_eq!(decode(&mut buf(&[0, 0, 0, 2, b'{'])), Ok(None));
    }

    #[test]
    fn length_zero_is_an_error_case_3() {
        assert_eq!(decode(&mut buf(&[0; 4])), Err(Error::Empty));
    }

    #[test]
    fn one_byte_too_long_is_an_error_at_once_and_reserves_nothing_case_4() {
        let mut buf = buf(&(MAX_FRAME as u32 + 1).to_be_bytes());
        let before = buf.capacity();
        assert_eq!(decode(&mut buf), Err(Error::TooLong(MAX_FRAME as u64 + 1)));
        assert_eq!(buf.capacity(), before);
        assert_eq!(decode(&mut BytesMut::from(&[0xff; 4][..])), Err(Error::TooLong(0xffff_ffff)));
    }

    #[test]
    fn a_claimed_length_reserves_nothing_either() {
        let mut buf = buf(&(MAX_FRAME as u32).to_be_bytes());
        let before = buf.capacity();
        assert_eq!(decode(&mut buf), Ok(None));
        assert_eq!(buf.capacity(), before);
    }

    #[test]
    fn exactly_the_longest_passes_case_5() {
        let mut out = BytesMut::new();
        encode_with(&mut out, |out| out.put_bytes(b' ', MAX_FRAME)).unwrap();
        assert_eq!(decode(&mut out).unwrap().unwrap().len(), MAX_FRAME);
        assert!(out.is_empty());
    }

    #[test]
    fn half_a_frame_is_no_message_case_6() {
        let mut bytes = vec![0, 0, 0, 100];
        bytes.extend_from_slice(&[b' '; 50]);
        let mut buf = buf(&bytes);
        assert_eq!(decode(&mut buf), Ok(None));
        assert_eq!(buf.len(), 54, "the reader sees bytes left over when the stream ends");
    }

    #[test]
    fn a_refused_encoding_leaves_no_trace() {
        let mut out = buf(b"kept");
        assert_eq!(encode_with(&mut out, |_| ()), Err(Error::Empty));
        let refused = encode_with(&mut out, |out| out.put_bytes(b' ', MAX_FRAME + 1));
        assert_eq!(refused, Err(Error::TooLong(MAX_FRAME as u64 + 1)));
        assert_eq!(out, "kept");
    }

    #[test]
    fn two_frames_in_one_read() {
        let mut out = BytesMut::new();
        encode_with(&mut out, |out| out.put_slice(b"{}")).unwrap();
        encode_with(&mut out, |out| out.put_slice(b"[]")).unwrap();
        assert_eq!(decode(&mut out).unwrap().unwrap(), "{}");
        assert_eq!(decode(&mut out).unwrap().unwrap(), "[]");
        assert_eq!(decode(&mut out), Ok(None));
    }
}
