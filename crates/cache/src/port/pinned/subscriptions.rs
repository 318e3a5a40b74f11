//! What a client is subscribed to, as the store has said.
//!
//! Invariant: the counts are those of the store's last word. Channels and patterns are counted in
//! one number by the store, channels of shards in another.

use bytes::Bytes;

/// What is subscribed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Channels,
    Patterns,
    Shards,
}

/// A command that is answered once for each name in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Change {
    pub(super) kind: Kind,
    /// To be subscribed to; else no longer.
    pub(super) joins: bool,
}

/// What the store says while a client is subscribed, or is about to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// Somebody has published something.
    Message,
    /// A subscription has begun or ended, and so many of its sort are left.
    Counted(Change, u64),
}

/// How many subscriptions there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Subscriptions {
    channels: u64,
    patterns: u64,
    shards: u64,
}

const WORDS: [(&str, Change); 6] = [
    ("SUBSCRIBE", Change { kind: Kind::Channels, joins: true }),
    ("PSUBSCRIBE", Change { kind: Kind::Patterns, joins: true }),
    ("SSUBSCRIBE", Change { kind: Kind::Shards, joins: true }),
    ("UNSUBSCRIBE", Change { kind: Kind::Channels, joins: false }),
    ("PUNSUBSCRIBE", Change { kind: Kind::Patterns, joins: false }),
    ("SUNSUBSCRIBE", Change { kind: Kind::Shards, joins: false }),
];

impl Change {
    /// What a command of this name does.
    pub(super) fn of(name: &str) -> Option<Change> {
        WORDS.iter().find(|(word, _)| *word == name).map(|(_, change)| *change)
    }
}

impl Said {
    /// What a reply is, if it is any of this.
    pub(super) fn of(reply: &Bytes) -> Option<Said> {
        let (b'*' | b'>', rest) = reply.split_first()? else { return None };
        let rest = rest.strip_prefix(b"3\r\n").or_else(|| rest.strip_prefix(b"4\r\n"))?;
        let (b'$', rest) = rest.split_first()? else { return None };
        let end = rest.iter().take(4).position(|byte| *byte == b'\r')?;
        let word = rest.get(end + 2..)?;
        let word = &word[..word.iter().take(16).position(|byte| *byte == b'\r')?];
        if [&b"message"[..], b"pmessage", b"smessage"].contains(&word) {
            return Some(Said::Message);
        }
        let known = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let (_, change) = WORDS.iter().find(|(name, _)| known(name))?;
        // The count is last, whatever the name before it holds.
        let digits = reply.strip_suffix(b"\r\n")?.rsplit(|byte| *byte == b':').next()?;
        let count = std::str::from_utf8(digits).ok()?.parse().ok()?;
        Some(Said::Counted(*change, count))
    }
}

impl Subscriptions {
    /// Whether there is any.
    pub(super) fn any(self) -> bool {
        self != Subscriptions::default()
    }

    /// How many there are of this kind.
    pub(super) fn of(self, kind: Kind) -> u64 {
        match kind {
            Kind::Channels => self.channels,
            Kind::Patterns => self.patterns,
            Kind::Shards => self.shards,
        }
    }

    /// The store has counted.
    pub(super) fn on_counted(&mut self, kind: Kind, count: u64) {
        match kind {
            Kind::Channels => self.channels = count.saturating_sub(self.patterns),
            Kind::Patterns => self.patterns = count.saturating_sub(self.channels),
            Kind::Shards => self.shards = count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(reply: &'static str) -> Option<Said> {
        Said::of(&Bytes::from_static(reply.as_bytes()))
    }

    #[test]
    fn what_the_store_says_is_told_apart() {
        let counted = |name, count| Some(Said::Counted(Change::of(name).unwrap(), count));
        for (reply, expected) in [
            ("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", counted("SUBSCRIBE", 1)),
            (">3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n", counted("UNSUBSCRIBE", 0)),
            (">3\r\n$12\r\npunsubscribe\r\n_\r\n:12\r\n", counted("PUNSUBSCRIBE", 12)),
            ("*3\r\n$10\r\nssubscribe\r\n$5\r\n:9\r\n:\r\n:4\r\n", counted("SSUBSCRIBE", 4)),
            ("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n", Some(Said::Message)),
            (">4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\na\r\n$1\r\nb\r\n", Some(Said::Message)),
            ("*3\r\n$8\r\nsmessage\r\n$1\r\na\r\n$1\r\nb\r\n", Some(Said::Message)),
            ("*2\r\n$4\r\npong\r\n$0\r\n\r\n", None),
            ("*3\r\n$3\r\nabc\r\n:1\r\n:2\r\n", None),
            ("*3\r\n:1\r\n:2\r\n:3\r\n", None),
            ("$9\r\nsubscribe\r\n", None),
            ("+OK\r\n", None),
            ("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n$1\r\nx\r\n", None),
        ] {
            assert_eq!(said(reply), expected, "{reply:?}");
        }
    }

    #[test]
    fn channels_and_patterns_are_one_number_and_shards_another() {
        let mut there = Subscriptions::default();
        there.on_counted(Kind::Channels, 1);
        there.on_counted(Kind::Channels, 2);
        there.on_counted(Kind::Patterns, 3);
        there.on_counted(Kind::Shards, 1);
        assert_eq!((there.channels, there.patterns, there.shards), (2, 1, 1));
        there.on_counted(Kind::Shards, 0);
        there.on_counted(Kind::Channels, 2);
        there.on_counted(Kind::Channels, 1);
        assert_eq!(there.of(Kind::Patterns), 1, "{there:?}");
        assert!(there.any());
        there.on_counted(Kind::Patterns, 0);
        assert!(!there.any());
    }
}
