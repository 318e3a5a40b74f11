//! What a client asks of a file: its name, a version it has not, a part.
//!
//! Invariant: a name has one meaning. What decodes to a separator, a dot segment, a hidden name or
//! no text is none.

use http::header::{
    HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, RANGE,
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The name, inside the folder, that a path asks for; `base` is left out of it. Empty for the folder
/// itself, and with a slash at its end for a folder in it.
pub(super) fn name(path: &str, base: &str) -> Option<String> {
    let rest = path.strip_prefix(base)?;
    if rest.is_empty() {
        return Some(String::new());
    }
    let mut name = String::with_capacity(rest.len());
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        if !(last && segment.is_empty()) {
            let plain = decoded(segment)?;
            if plain.is_empty() || plain.starts_with('.') || plain.contains(['/', '\\', '\0']) {
                return None;
            }
            name.push_str(&plain);
        }
        if !last {
            name.push('/');
        }
    }
    Some(name)
}

/// Percent-encoding undone, once.
fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push(match byte {
            b'%' => {
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// What part of a file is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Whole,
    Some {
        at: u64,
        length: u64,
    },
    /// One that the file does not have.
    None,
}

/// What tells one state of a file from another.
pub(super) struct Version {
    tag: String,
    modified: SystemTime,
}

/// The last second that an HTTP date can tell, since 1970: the end of the year 9999.
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

impl Version {
    pub(super) fn of(inode: u64, length: u64, modified: SystemTime) -> Version {
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        let tag = format!("\"{inode:x}-{length:x}-{:x}\"", since.as_nanos());
        // File systems know later times than dates do.
        Version { tag, modified: UNIX_EPOCH + since.min(LAST_SECOND) }
    }

    pub(super) fn tag(&self) -> HeaderValue {
        value(&self.tag)
    }

    pub(super) fn date(&self) -> HeaderValue {
        value(&httpdate::fmt_http_date(self.modified))
    }

    /// Whether the client wants this one, and not another that it says it knows (RFC 9110, 13.2.2).
    pub(super) fn is_wanted(&self, headers: &HeaderMap) -> bool {
        let mut tags = texts(headers, &IF_MATCH).peekable();
        if tags.peek().is_some() {
            let same = |tag: &str| tag == "*" || tag == self.tag;
            return tags.any(|list| list.split(',').any(|tag| same(tag.trim())));
        }
        self.is_no_later(headers, &IF_UNMODIFIED_SINCE).unwrap_or(true)
    }

    /// Whether it is no later than the date in that header; `None` where there is no date.
    fn is_no_later(&self, headers: &HeaderMap, name: &HeaderName) -> Option<bool> {
        let date = httpdate::parse_http_date(texts(headers, name).next()?).ok()?;
        // A date has no fraction of a second.
        Some(self.modified < date + Duration::from_secs(1))
    }

    /// Whether the client has it already (RFC 9110, 13.2.2).
    pub(super) fn is_known(&self, headers: &HeaderMap) -> bool {
        let mut tags = texts(headers, &IF_NONE_MATCH).peekable();
        if tags.peek().is_some() {
            let same = |tag: &str| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.tag;
            return tags.any(|list| list.split(',').any(|tag| same(tag.trim())));
        }
        self.is_no_later(headers, &IF_MODIFIED_SINCE).unwrap_or(false)
    }

    /// The part that is asked for. Several at once are answered with the whole, as is a range of
    /// another version.
    pub(super) fn part(&self, headers: &HeaderMap, length: u64) -> Part {
        let unchanged = |known: &str| {
            known == self.tag
                || httpdate::parse_http_date(known).is_ok_and(|date| {
                    httpdate::fmt_http_date(self.modified) == httpdate::fmt_http_date(date)
                })
        };
        let same = |known: &HeaderValue| known.to_str().is_ok_and(unchanged);
        if !headers.get_all(IF_RANGE).iter().all(same) {
            return Part::Whole;
        }
        let mut ranges = texts(headers, &RANGE);
        let (Some(range), None) = (ranges.next(), ranges.next()) else { return Part::Whole };
        range.strip_prefix("bytes=").map_or(Part::Whole, |range| part(range, length))
    }
}

fn part(range: &str, length: u64) -> Part {
    let number = |text: &str| -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // More digits than a number has: further than any file goes.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let Some((first, last)) = range.split_once('-') else { return Part::Whole };
    let (at, end) = match (number(first.trim()), number(last.trim())) {
        (Some(first), Some(last)) if first <= last => (first, last.saturating_add(1)),
        (Some(first), None) if last.trim().is_empty() => (first, u64::MAX),
        (None, Some(0)) if first.trim().is_empty() => return Part::None,
        (None, Some(last)) if first.trim().is_empty() => (length.saturating_sub(last), u64::MAX),
        _ => return Part::Whole,
    };
    match end.min(length).checked_sub(at) {
        Some(length) if length > 0 => Part::Some { at, length },
        _ => Part::None,
    }
}

fn texts<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
}

/// Tags and dates are of characters that a header may have.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_meaning() {
        let rows = [
            ("/s/", Some("")),
            ("/s/a.css", Some("a.css")),
            ("/s/b/c%20d.js", Some("b/c d.js")),
            ("/s/b/", Some("b/")),
            ("/s/%C3%A4", Some("\u{e4}")),
            ("/s/a..b", Some("a..b")),
            ("/s/%252e", Some("%2e")),
            ("/s/..", None),
            ("/s/../x", None),
            ("/s/a/../../x", None),
            ("/s/%2e%2e/x", None),
            ("/s/.env", None),
            ("/s/b/.git/config", None),
            ("/s/%2Egit", None),
            ("/s/./a", None),
            ("/s//a", None),
            ("/s/a//", None),
            ("/s/a%2fb", None),
            ("/s/a%5Cb", None),
            ("/s/a%00", None),
            ("/s/a%", None),
            ("/s/a%zz", None),
            ("/s/%ff", None),
            ("/other", None),
        ];
        for (path, expected) in rows {
            assert_eq!(name(path, "/s/").as_deref(), expected, "{path}");
        }
    }

    fn version() -> Version {
        Version::of(7, 9, UNIX_EPOCH + Duration::from_millis(784_111_777_500))
    }

    fn asked(name: HeaderName, text: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(text).unwrap())])
    }

    #[test]
    fn a_version_is_known_by_its_tag_or_its_date() {
        let version = version();
        let tag = version.tag.clone();
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(version.date(), date);
        let known = [
            asked(IF_NONE_MATCH, &tag),
            asked(IF_NONE_MATCH, &format!("\"x\", W/{tag}")),
            asked(IF_NONE_MATCH, "*"),
            asked(IF_MODIFIED_SINCE, date),
            asked(IF_MODIFIED_SINCE, "Sun, 06 Nov 1994 09:00:00 GMT"),
        ];
        assert!(known.iter().all(|headers| version.is_known(headers)));
        let mut other = asked(IF_MODIFIED_SINCE, date);
        other.insert(IF_NONE_MATCH, HeaderValue::from_static("\"x\""));
        let unknown = [
            HeaderMap::new(),
            other,
            asked(IF_MODIFIED_SINCE, "Sun, 06 Nov 1994 08:49:36 GMT"),
            asked(IF_MODIFIED_SINCE, "yesterday"),
        ];
        assert!(!unknown.iter().any(|headers| version.is_known(headers)));
    }

    #[test]
    fn another_version_than_the_known_one_is_not_wanted() {
        let version = version();
        let (tag, date) = (version.tag.clone(), "Sun, 06 Nov 1994 08:49:37 GMT");
        let wanted = [
            HeaderMap::new(),
            asked(IF_MATCH, &format!("\"x\", {tag}")),
            asked(IF_MATCH, "*"),
            asked(IF_UNMODIFIED_SINCE, date),
            asked(IF_UNMODIFIED_SINCE, "yesterday"),
        ];
        assert!(wanted.iter().all(|headers| version.is_wanted(headers)));
        let mut other = asked(IF_UNMODIFIED_SINCE, date);
        other.insert(IF_MATCH, HeaderValue::from_static("\"x\""));
        let unwanted = [
            other,
            asked(IF_MATCH, &format!("W/{tag}")),
            asked(IF_UNMODIFIED_SINCE, "Sun, 06 Nov 1994 08:49:36 GMT"),
        ];
        assert!(!unwanted.iter().any(|headers| version.is_wanted(headers)));
    }

    #[test]
    fn one_part_of_what_there_is() {
        let version = version();
        let rows = [
            ("bytes=0-3", Part::Some { at: 0, length: 4 }),
            ("bytes=4-", Part::Some { at: 4, length: 6 }),
            ("bytes=-3", Part::Some { at: 7, length: 3 }),
            ("bytes=-99", Part::Some { at: 0, length: 10 }),
            ("bytes=8-99999999999999999999999", Part::Some { at: 8, length: 2 }),
            ("bytes=10-", Part::None),
            ("bytes=99999999999999999999999-", Part::None),
            ("bytes=-0", Part::None),
            ("bytes=3-2", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("bytes=-", Part::Whole),
            ("rows=0-1", Part::Whole),
        ];
        for (range, expected) in rows {
            assert_eq!(version.part(&asked(RANGE, range), 10), expected, "{range}");
        }
        let mut headers = asked(RANGE, "bytes=0-3");
        let part = Part::Some { at: 0, length: 4 };
        for (known, expected) in [
            (version.tag.as_str(), part),
            ("Sun, 06 Nov 1994 08:49:37 GMT", part),
            ("\"x\"", Part::Whole),
            ("Sun, 06 Nov 1994 08:49:36 GMT", Part::Whole),
        ] {
            headers.insert(IF_RANGE, HeaderValue::from_str(known).unwrap());
            assert_eq!(version.part(&headers, 10), expected, "{known}");
        }
        headers.insert(IF_RANGE, HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(version.part(&headers, 10), Part::Whole, "of no version that there is");
    }

    #[test]
    fn a_time_that_no_date_can_tell_is_the_last_one_it_can() {
        let far = Version::of(7, 9, UNIX_EPOCH + Duration::from_secs(300_000_000_000));
        assert_eq!(far.date(), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert!(far.is_known(&asked(IF_MODIFIED_SINCE, "Fri, 31 Dec 9999 23:59:59 GMT")));
    }
}
