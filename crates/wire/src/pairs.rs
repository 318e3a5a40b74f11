//! The string maps of a request that are parsed from text: the query and the cookies.
//!
//! Promise: bounded (at most [`MAX_PAIRS`] pairs are looked at), never an error, and each name is
//! written once, so that no reader has to decide what a repeated key means.

use std::borrow::Cow;

use bytes::BytesMut;

use crate::json;

/// The most pairs taken from one query, or from the cookies of one request (PHP's own default for
/// `max_input_vars`). What lies beyond is still in `server.url` and in `headers`.
pub(crate) const MAX_PAIRS: usize = 1000;

type Pair<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Appends the query as a map: `+` is a space, percent-encoding is decoded, bytes that are not
/// UTF-8 become U+FFFD, the last of several wins.
pub(crate) fn write_query(out: &mut BytesMut, query: &str) {
    let pairs: Vec<Pair<'_>> = query
        .split('&')
        .filter(|part| !part.is_empty())
        .take(MAX_PAIRS)
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(name, value)| (percent_decode(name), percent_decode(value)))
        .collect();
    write_map(out, &pairs, Wins::Last);
}

/// Appends the cookies of these `Cookie` headers as a map. Values stay as they were received. The
/// first of several wins: clients send the one with the longest path first (RFC 6265, 5.4).
pub(crate) fn write_cookies<'a>(out: &mut BytesMut, headers: impl Iterator<Item = &'a [u8]>) {
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    for part in headers.flat_map(|value| value.split(|&byte| byte == b';')) {
        let part = part.trim_ascii();
        let Some(equals) = part.iter().position(|&byte| byte == b'=') else { continue };
        let (name, value) = (part[..equals].trim_ascii(), part[equals + 1..].trim_ascii());
        if name.is_empty() {
            continue;
        }
        if pairs.len() == MAX_PAIRS {
            break;
        }
        pairs.push((crate::text::from_bytes(name), crate::text::from_bytes(value)));
    }
    write_map(out, &pairs, Wins::First);
}

#[derive(Clone, Copy, PartialEq)]
enum Wins {
    First,
    Last,
}

fn write_map(out: &mut BytesMut, pairs: &[Pair<'_>], wins: Wins) {
    let mut object = json::Object::new(out);
    for ((name, value), lost) in pairs.iter().zip(losers(pairs, wins)) {
        if !lost {
            object.foreign_text(name, value);
        }
    }
    object.end();
}

/// For each pair, whether another one of its name is kept instead. Sorting, not hashing: names come
/// from outside, and this way no choice of names makes it slow.
fn losers(pairs: &[Pair<'_>], wins: Wins) -> Vec<bool> {
    /// Few enough to compare each with each.
    const FEW: usize = 12;
    let mut lost = vec![false; pairs.len()];
    if pairs.len() <= FEW {
        for (index, (name, _)) in pairs.iter().enumerate() {
            let others = if wins == Wins::Last { &pairs[index + 1..] } else { &pairs[..index] };
            lost[index] = others.iter().any(|(other, _)| other == name);
        }
        return lost;
    }
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by_key(|&index| &pairs[index].0);
    for two in order.windows(2).filter(|two| pairs[two[0]].0 == pairs[two[1]].0) {
        lost[if wins == Wins::Last { two[0] } else { two[1] }] = true;
    }
    lost
}

fn percent_decode(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        index += 1;
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => match (hex(bytes.get(index)), hex(bytes.get(index + 1))) {
                (Some(high), Some(low)) => {
                    index += 2;
                    high << 4 | low
                }
                _ => b'%', // a stray percent sign stays, as in every browser's own decoder
            },
            other => other,
        });
    }
    Cow::Owned(match String::from_utf8(decoded) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

fn hex(digit: Option<&u8>) -> Option<u8> {
    digit.and_then(|&digit| char::from(digit).to_digit(16)).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> String {
        let mut out = BytesMut::new();
        write_query(&mut out, text);
        String::from_utf8(out.to_vec()).unwrap()
    }

    fn cookies(headers: &[&[u8]]) -> String {
        let mut out = BytesMut::new();
        write_cookies(&mut out, headers.iter().copied());
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn a_query_is_decoded() {
        assert_eq!(query(""), "{}");
        assert_eq!(query("a=1&b=x+y%21&c&=d&&"), r#"{"a":"1","b":"x y!","c":"","":"d"}"#);
        assert_eq!(query("a=%zz%&b=%e4%C3%A4"), "{\"a\":\"%zz%\",\"b\":\"\u{fffd}ä\"}");
        assert_eq!(query("a=b=c"), r#"{"a":"b=c"}"#);
    }

    #[test]
    fn the_last_of_a_repeated_name_wins_in_a_query() {
        assert_eq!(query("a=1&b=2&a=3&%61=4"), r#"{"b":"2","a":"4"}"#);
    }

    #[test]
    fn the_first_of_a_repeated_name_wins_among_cookies() {
        assert_eq!(cookies(&[b"a=1; b=\"2\"", b"a=3;;junk; =x"]), r#"{"a":"1","b":"\"2\""}"#);
        assert_eq!(cookies(&[b"a=\xff"]), r#"{"a":"ÿ"}"#);
        assert_eq!(cookies(&[]), "{}");
    }

    #[test]
    fn many_names_are_told_apart_as_few_are() {
        let filler: String = (0..20).map(|n| format!("k{n}=v&")).collect();
        let all = query(&format!("a=1&{filler}a=2"));
        assert!(!all.contains(r#""a":"1""#) && all.ends_with(r#""a":"2"}"#), "{all}");
        let cookie = format!("a=1;{};a=2", filler.replace('&', ";"));
        let all = cookies(&[cookie.as_bytes()]);
        assert!(all.starts_with(r#"{"a":"1","#) && !all.contains(r#""a":"2""#), "{all}");
    }

    #[test]
    fn pairs_beyond_the_bound_are_left_out() {
        let long: String = (0..5000).map(|n| format!("k{n}=v&")).collect();
        let parsed: std::collections::BTreeMap<String, String> =
            serde_json::from_str(&query(&long)).unwrap();
        assert_eq!(parsed.len(), MAX_PAIRS);
        let same = "a=1&".repeat(5000);
        assert_eq!(query(&same), r#"{"a":"1"}"#);
    }
}
