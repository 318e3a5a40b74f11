//! The patterns of KEYS and SCAN: `*`, `?`, `[a-z]`, `[^a]` and `\` before a character.
//!
//! Invariant: the work is bounded by pattern × text, whatever the pattern (a star goes back to the
//! last one only).

/// Whether the text matches.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
            continue;
        }
        match one(&pattern[p.min(pattern.len())..], text[t]) {
            Some(length) => {
                p += length;
                t += 1;
            }
            None => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                p = at + 1;
                t = from + 1;
            }
        }
    }
    pattern[p.min(pattern.len())..].iter().all(|&b| b == b'*')
}

/// The length of the pattern's first element, if the byte matches it.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => class(rest, byte),
        [plain, ..] => (*plain == byte).then_some(1),
    }
}

fn class(rest: &[u8], byte: u8) -> Option<usize> {
    let negated = rest.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match rest.get(at..).unwrap_or_default() {
            // A class without an end takes the rest of the pattern.
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [low, b'-', high, ..] => {
                found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                at += 3;
            }
            [plain, ..] => {
                found |= *plain == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_redis_does() {
        let cases = [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("h?llo", "hello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("user:*:name", "user:1:name", true),
            ("", "", true),
            ("", "a", false),
            ("[", "a", false),
            ("***a", "a", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        let stars = "*a".repeat(50);
        assert!(!matches(stars.as_bytes(), "a".repeat(49).as_bytes()));
    }
}
