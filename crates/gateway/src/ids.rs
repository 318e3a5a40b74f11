//! The two ids of a request: its own, and that of the trace it belongs to.
//!
//! Invariant: an id is `[A-Za-z0-9._:-]{1,128}`, so it can stand in a header, a log line and a JSON
//! text as it is. One that is not is replaced whole, never repaired. The query is no source.

use http::{HeaderMap, HeaderName, HeaderValue};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

const MAX_LEN: usize = 128;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The ids of one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ids {
    pub(crate) trace: Arc<str>,
    pub(crate) request: Arc<str>,
}

impl Ids {
    /// The ids that a head carries, or new ones.
    pub(crate) fn of(headers: &HeaderMap) -> Ids {
        let request = headers.get(REQUEST_ID).map(accept);
        let trace = parent(headers)
            .map(|parent| format!("{:032x}", u128::from_be_bytes(parent.trace)).into())
            .or_else(|| headers.get(TRACE_ID).map(accept))
            .or_else(|| request.clone())
            .unwrap_or_else(fresh);
        Ids { trace, request: request.unwrap_or_else(fresh) }
    }
}

/// The id as received, or a new one in its place.
fn accept(value: &HeaderValue) -> Arc<str> {
    match value.to_str() {
        Ok(text) if is_id(text) => text.into(),
        _ => fresh(),
    }
}

fn is_id(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=MAX_LEN).contains(&text.len()) && text.bytes().all(allowed)
}

/// Whose part a request is, as its caller says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parent {
    pub(crate) trace: [u8; 16],
    pub(crate) span: u64,
    pub(crate) sampled: bool,
}

/// What a valid `traceparent` says. More than one header is none.
pub(crate) fn parent(headers: &HeaderMap) -> Option<Parent> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let text = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    read_parent(text)
}

/// Reads a `traceparent` (W3C Trace Context, 3.2): lower-case hexadecimal, neither id all zeros. A
/// version after 00 may have more behind another hyphen.
pub(crate) fn read_parent(text: &str) -> Option<Parent> {
    let mut parts = text.splitn(5, '-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let (span, flags, more) = (parts.next()?, parts.next()?, parts.next());
    let hex = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let valid = hex(version, 2)
        && version != "ff"
        && (version != "00" || more.is_none())
        && hex(trace, 32)
        && hex(span, 16)
        && hex(flags, 2);
    if !valid {
        return None;
    }
    let trace = u128::from_str_radix(trace, 16).ok().filter(|&id| id != 0)?;
    let span = u64::from_str_radix(span, 16).ok().filter(|&id| id != 0)?;
    let flags = u8::from_str_radix(flags, 16).ok()?;
    Some(Parent { trace: trace.to_be_bytes(), span, sampled: flags & 1 == 1 })
}

/// A new id of a span: never zero.
pub(crate) fn span() -> u64 {
    let [first, _] = random();
    first.max(1)
}

/// A new id: 32 hexadecimal digits, a trace id for whoever wants one. Unique in this process by a
/// counter, among processes by a random start; not a secret.
pub(crate) fn fresh() -> Arc<str> {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (half, bits) in text.as_chunks_mut::<16>().0.iter_mut().zip(random()) {
        for (at, digit) in half.iter_mut().enumerate() {
            *digit = HEX[(bits >> (60 - 4 * at)) as usize & 15];
        }
    }
    str::from_utf8(&text).unwrap_or_default().into()
}

/// Two numbers that look random. No two first ones of one process are the same: they are a bijection
/// of a counter.
fn random() -> [u64; 2] {
    static SEED: OnceLock<[u64; 2]> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let [high, low] = *SEED.get_or_init(|| {
        let random = RandomState::new();
        [random.hash_one(1), random.hash_one(2)]
    });
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let first = mix(high.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    [first, mix(low ^ first)]
}

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn ids(headers: &[(&'static str, &[u8])]) -> Ids {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        Ids::of(&map)
    }

    #[test]
    fn a_trace_comes_from_the_first_source_there_is() {
        let all: [(&'static str, &[u8]); 3] =
            [("traceparent", PARENT.as_bytes()), ("x-trace-id", b"t"), ("x-request-id", b"r")];
        assert_eq!(&*ids(&all).trace, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(&*ids(&all[1..]).trace, "t");
        assert_eq!(&*ids(&all[2..]).trace, "r");
        assert_eq!(&*ids(&all).request, "r");
        let new = ids(&[]);
        assert_ne!(new.trace, new.request);
        assert!(is_id(&new.trace) && is_id(&new.request));
    }

    #[test]
    fn a_bad_id_is_replaced_whole() {
        let long = [b'a'; 129];
        for bad in [&b"a b"[..], b"a\tb", b"", b"\xff", &long, b"a;b"] {
            let ids = ids(&[("x-trace-id", bad), ("x-request-id", b"r")]);
            assert_eq!(ids.trace.len(), 32, "{bad:?}");
            assert_eq!(&*ids.request, "r");
        }
        assert_eq!(ids(&[("x-trace-id", &long[..128])]).trace.len(), 128);
    }

    #[test]
    fn only_a_valid_parent_counts() {
        let zero = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let upper = PARENT.to_uppercase();
        let longer = format!("{PARENT}-x");
        for bad in [zero, &upper, &longer, "00-4bf9-00f0-01", "", &format!("ff{}", &PARENT[2..])] {
            assert_eq!(&*ids(&[("traceparent", bad.as_bytes()), ("x-trace-id", b"t")]).trace, "t");
        }
        let later = format!("01{}-more-of-it", &PARENT[2..]);
        assert_eq!(ids(&[("traceparent", later.as_bytes())]).trace.len(), 32);
        let twice = [("traceparent", PARENT.as_bytes()), ("traceparent", PARENT.as_bytes())];
        assert_ne!(&*ids(&twice).trace, &PARENT[3..35]);
    }

    #[test]
    fn new_ids_differ() {
        let many: std::collections::HashSet<Arc<str>> = (0..10_000).map(|_| fresh()).collect();
        assert_eq!(many.len(), 10_000);
    }
}
