//! Taking apart `set-cookie` lines that an older worker joined with commas.
//!
//! Promise: the comma of an `Expires` date is never taken for the end of a cookie, nor is one
//! inside a quoted value.

use crate::text::is_token_byte;

/// The cookies of one value. A comma ends a cookie only where `name=` follows it.
pub fn split(joined: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(joined);
    std::iter::from_fn(move || {
        let text = rest?;
        let (cookie, after) = match boundary(text) {
            Some(comma) => (&text[..comma], Some(&text[comma + 1..])),
            None => (text, None),
        };
        rest = after;
        Some(cookie.trim())
    })
    .filter(|cookie| !cookie.is_empty())
}

fn boundary(text: &str) -> Option<usize> {
    let mut quoted = false;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            // A quote that is never closed is part of a value, not a quotation.
            b';' => quoted = false,
            b',' if !quoted && starts_cookie(&text.as_bytes()[index + 1..]) => return Some(index),
            _ => {}
        }
    }
    None
}

/// Whether these bytes begin with optional space, a name and `=`.
fn starts_cookie(bytes: &[u8]) -> bool {
    let bytes = bytes.trim_ascii_start();
    let name = bytes.iter().take_while(|&&byte| is_token_byte(byte)).count();
    name > 0 && bytes.get(name) == Some(&b'=')
}

#[cfg(test)]
mod tests {
    fn split(joined: &str) -> Vec<&str> {
        super::split(joined).collect()
    }

    #[test]
    fn the_comma_of_a_date_is_not_a_boundary_case_45() {
        let a = "a=1; Path=/; Expires=Wed, 21 Oct 2099 07:28:00 GMT";
        assert_eq!(split(a), [a]);
        assert_eq!(split(&format!("{a}, b=2; HttpOnly")), [a, "b=2; HttpOnly"]);
        assert_eq!(split(&format!("b=2,{a},c=3")), ["b=2", a, "c=3"]);
        let dashed = "a=1; expires=Wednesday, 21-Oct-2099 07:28:00 GMT";
        assert_eq!(split(&format!("{dashed}, b=2")), [dashed, "b=2"]);
    }

    #[test]
    fn commas_inside_a_value_stay() {
        assert_eq!(split(r#"a="x, y=z"; Path=/, b=2"#), [r#"a="x, y=z"; Path=/"#, "b=2"]);
        assert_eq!(split("a=1,2,3; Path=/"), ["a=1,2,3; Path=/"]);
    }

    #[test]
    fn nothing_gives_nothing() {
        assert!(split("").is_empty());
        assert!(split(" , ").len() <= 1);
        assert_eq!(split("a=1, "), ["a=1,"]);
    }
}
