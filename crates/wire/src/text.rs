//! Small facts about bytes in HTTP heads: what a token is, what a value may hold, and how bytes
//! that are not UTF-8 become text.

use std::borrow::Cow;

/// Header bytes as text: UTF-8 where they are, else each byte as the character of that number
/// (ISO-8859-1), which loses nothing.
pub(crate) fn from_bytes(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().map(|&byte| char::from(byte)).collect()),
    }
}

/// Whether this is a `token` of RFC 9110, section 5.6.2: what a header or a cookie may be named.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

/// Whether a token may hold this byte.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    const TOKEN: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            table[byte] = matches!(byte as u8, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.'
                | b'0'..=b'9' | b'A'..=b'Z' | b'^'..=b'z' | b'|' | b'~');
            byte += 1;
        }
        table
    };
    TOKEN[usize::from(byte)]
}

/// Whether HTTP lets a header value hold this text: no control character but the tab.
pub(crate) fn is_field_value(text: &str) -> bool {
    text.bytes().all(|byte| (byte >= b' ' && byte != 0x7f) || byte == b'\t')
}

/// Text for a log line: every control character is a space, and it ends after `limit` bytes (at a
/// character).
pub(crate) fn printable(text: &str, limit: usize) -> String {
    let end = text.floor_char_boundary(limit);
    text[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_utf8_keep_their_numbers() {
        assert_eq!(from_bytes("grün".as_bytes()), "grün");
        let all: Vec<u8> = (0..=255).collect();
        let back: Vec<u8> = from_bytes(&all).chars().map(|c| c as u32 as u8).collect();
        assert_eq!(back, all);
    }

    #[test]
    fn tokens_are_those_of_the_rfc() {
        for byte in 0..=255_u8 {
            let listed = b"!#$%&'*+-.^_`|~".contains(&byte) || byte.is_ascii_alphanumeric();
            assert_eq!(is_token_byte(byte), listed, "{byte}");
        }
        assert!(!is_token(b""));
    }

    #[test]
    fn printable_text_has_no_line_ends_and_an_end() {
        assert_eq!(printable("boom\r\nx-evil: 1\u{85}", 100), "boom  x-evil: 1 ");
        assert_eq!(printable("grün", 3), "gr");
    }
}
