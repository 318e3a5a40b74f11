//! Whether a path stays beneath the start by which it was routed.
//!
//! Invariant: what goes on because of how its path begins has no segment that some reader behind us
//! takes for "here" or "one up". It is refused, not rewritten: a path that is passed on is passed on as
//! it came (docs/decisions/0012-dot-segments.md).

use hedgerow_policy::failure::{At, Class, Failure};

/// Refuses a path with a dot segment, in every spelling that readers are known to resolve: `%2e` for a
/// dot, `%2f`, `\` and `%5c` for a slash, and `..;x`, of which servlet containers drop the parameter.
///
/// # Errors
/// `bad_request`.
pub(crate) fn check(path: &str) -> Result<(), Failure> {
    if has_dot_segment(path.as_bytes()) {
        let message = "a path with a dot segment, where its beginning decides the way";
        return Err(Failure::new(Class::BadRequest, At::Client, message));
    }
    Ok(())
}

fn has_dot_segment(mut rest: &[u8]) -> bool {
    // Dots since the last separator; `None` when something else is among them.
    let mut dots = Some(0_usize);
    loop {
        match (next(&mut rest), dots) {
            (None | Some(b'/' | b'\\' | b';'), Some(1 | 2)) => return true,
            (None, _) => return false,
            (Some(b'/' | b'\\'), _) => dots = Some(0),
            (Some(b'.'), Some(before)) => dots = Some(before + 1),
            (Some(_), _) => dots = None,
        }
    }
}

/// The next byte, percent-encoding undone once.
fn next(rest: &mut &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    if let [b'%', high, low, behind @ ..] = *rest
        && let (Some(high), Some(low)) = (digit(*high), digit(*low))
    {
        *rest = behind;
        return Some(high << 4 | low);
    }
    let (byte, behind) = rest.split_first()?;
    *rest = behind;
    Some(*byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_seen() {
        for path in [
            "/..",
            "/.",
            "/../",
            "/./",
            "/a/../b",
            "/a/./b",
            "/a/..",
            "/a/.",
            "/%2e",
            "/%2E%2e",
            "/.%2e/",
            "/%2e./",
            "/..%2f",
            "/..%2Fa",
            "/a%2f..%2fb",
            "/a%2f..",
            "/..\\a",
            "/a\\..",
            "/..%5Ca",
            "/a%5c%2e%2e",
            "/..;/a",
            "/.;",
            "/..;x=1/a",
            "/%2e%2e%3b/a",
            "..",
            "/%2f..",
        ] {
            assert!(check(path).is_err(), "{path}");
        }
    }

    #[test]
    fn what_is_no_dot_segment_is_left_alone() {
        for path in [
            "/",
            "",
            "*",
            "/a",
            "/a/",
            "//a//b",
            "/...",
            "/..a",
            "/a..",
            "/a../b",
            "/.well-known/x",
            "/v1...v2",
            "/a.b/c.d",
            "/a;b",
            "/a..;b",
            "/%252e%252e/a",
            "/%2e%2e%2e",
            "/%",
            "/%2",
            "/%zz..",
            "/group%2Fname",
            "/a%5cb",
            "/..%20",
            "/%c3%a4",
        ] {
            assert!(check(path).is_ok(), "{path}");
        }
    }

    proptest::proptest! {
        /// As a reader would: decode once, cut at both slashes, drop parameters, look at each piece.
        #[test]
        fn it_is_what_a_reader_would_see(path in "(/|\\.|%2e|%2F|\\\\|%5c|;|a|%|%3B|2e){0,12}") {
            let mut rest = path.as_bytes();
            let decoded: Vec<u8> = std::iter::from_fn(|| next(&mut rest)).collect();
            let mut pieces = decoded.split(|byte| matches!(byte, b'/' | b'\\'));
            let names = pieces.any(|piece| {
                let name = piece.split(|byte| *byte == b';').next().unwrap_or_default();
                name == b"." || name == b".."
            });
            assert_eq!(has_dot_segment(path.as_bytes()), names, "{path}");
        }
    }
}
