//! What an event says, before anybody reads it.
//!
//! Invariant: taking an event down formats nothing. Nearly all events are kept in memory for a while
//! and let go unread, and a line of JSON costs some twenty times what its facts do; so the line is
//! made when somebody asks for it, or for the log. Strings are cut where no line could hold more.

use crate::line::Line;
use crate::wall::Stamp;
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// A name. A reference to one, since it is half as long.
pub(crate) type Key = &'static &'static str;

/// What takes down the facts of something, each under its name.
pub(crate) trait Fields {
    /// A string, of which no more than a line's share may be kept.
    fn str(&mut self, key: Key, value: &str);
    /// A string that may take all that is left of a line. To be given last.
    fn message(&mut self, key: Key, value: &str);
    /// An address.
    fn addr(&mut self, key: Key, value: IpAddr);
    /// A whole number.
    fn num(&mut self, key: Key, value: impl Into<u64>);
    /// A duration in milliseconds, with up to three decimals.
    fn millis(&mut self, key: Key, value: Duration);
    /// True or false.
    fn flag(&mut self, key: Key, value: bool);

    /// A string where there is one.
    fn opt_str(&mut self, key: Key, value: Option<&str>) {
        if let Some(value) = value {
            self.str(key, value);
        }
    }

    /// A whole number where there is one.
    fn opt_num(&mut self, key: Key, value: Option<impl Into<u64>>) {
        if let Some(value) = value {
            self.num(key, value);
        }
    }

    /// A duration where there is one.
    fn opt_millis(&mut self, key: Key, value: Option<Duration>) {
        if let Some(value) = value {
            self.millis(key, value);
        }
    }
}

/// Events, one after the other.
#[derive(Clone, Default)]
pub(crate) struct Facts {
    facts: Vec<Fact>,
    /// The strings of all of them.
    text: Vec<u8>,
    /// Longest string that is kept whole.
    most: usize,
}

/// A name and a value, in sixteen bytes: there are some forty for each call, and what they cost is
/// mostly the memory that they pass through.
#[derive(Clone, Copy)]
struct Fact {
    key: Key,
    /// What kind of value it is in the highest byte, the value below.
    packed: u64,
}

/// Values are seven bytes long: no count of bytes, and no time since 1970, needs more.
const SHIFT: u32 = 56;
const MOST: u64 = (1 << SHIFT) - 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    /// An event begins; its type is the key.
    Event(Stamp),
    /// So many bytes of the text.
    Str(u32),
    Message(u32),
    Addr(Ipv4Addr),
    Num(u64),
    /// Microseconds.
    Millis(u64),
    Flag(bool),
    /// An object in a list: so many facts that follow, with so much text. Those of one list have
    /// the same key.
    Object(u32, u32),
    /// The last object of a list was before.
    EndOfList,
}

impl Value {
    fn packed(self) -> u64 {
        let (kind, value) = match self {
            Value::Event(at) => (0, at.unix_millis()),
            Value::Str(length) => (1, length.into()),
            Value::Message(length) => (2, length.into()),
            Value::Addr(v4) => (3, v4.to_bits().into()),
            Value::Num(number) => (4, number),
            Value::Millis(micros) => (5, micros),
            Value::Flag(flag) => (6, flag.into()),
            Value::Object(count, length) => (7, u64::from(count) << 32 | u64::from(length)),
            Value::EndOfList => (8, 0),
        };
        kind << SHIFT | value.min(MOST)
    }

    fn unpacked(packed: u64) -> Value {
        let value = packed & MOST;
        // What was packed as so many bits has no more of them.
        let low = value as u32;
        match packed >> SHIFT {
            0 => Value::Event(Stamp::at_millis(value)),
            1 => Value::Str(low),
            2 => Value::Message(low),
            3 => Value::Addr(Ipv4Addr::from_bits(low)),
            4 => Value::Num(value),
            5 => Value::Millis(value),
            6 => Value::Flag(value != 0),
            7 => Value::Object((value >> 32) as u32, low),
            _ => Value::EndOfList,
        }
    }
}

impl Fact {
    fn value(self) -> Value {
        Value::unpacked(self.packed)
    }
}

impl Facts {
    /// An event of that type begins. What is said next is of it.
    pub(crate) fn begin(&mut self, kind: Key, at: Stamp) {
        self.add(kind, Value::Event(at));
    }

    /// A list of objects.
    pub(crate) fn list<T>(
        &mut self,
        key: Key,
        items: impl IntoIterator<Item = T>,
        fields: impl Fn(&mut Facts, T),
    ) {
        for item in items {
            let (at, text) = (self.facts.len(), self.text.len());
            self.add(key, Value::Object(0, 0));
            fields(self, item);
            let (count, length) = (self.facts.len() - at - 1, self.text.len() - text);
            self.facts[at].packed = Value::Object(small(count), small(length)).packed();
        }
        self.add(key, Value::EndOfList);
    }

    /// Adds the events of another.
    pub(crate) fn extend(&mut self, other: &Facts) {
        self.facts.extend_from_slice(&other.facts);
        self.text.extend_from_slice(&other.text);
    }

    /// Forgets everything, and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.facts.clear();
        self.text.clear();
    }

    /// What it takes in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.facts[..]) + self.text.len()
    }

    /// The events, in order.
    pub(crate) fn events(&self) -> impl Iterator<Item = Event<'_>> {
        let begins = |fact: &Fact| matches!(fact.value(), Value::Event(_));
        let mut text = &self.text[..];
        // Each chunk begins with its event, since no fact is said before one has begun.
        self.facts.chunk_by(move |_, next| !begins(next)).filter_map(move |facts| {
            let (own, rest) = text.split_at_checked(length(facts))?;
            text = rest;
            let (first, facts) = facts.split_first()?;
            let Value::Event(at) = first.value() else { return None };
            Some(Event { kind: first.key, at, said: Said { facts, text: own } })
        })
    }

    fn add(&mut self, key: Key, value: Value) {
        self.facts.push(Fact { key, packed: value.packed() });
    }

    fn text(&mut self, text: &str) -> u32 {
        let end = text.floor_char_boundary(self.most);
        self.text.extend_from_slice(&text.as_bytes()[..end]);
        small(end)
    }
}

impl Fields for Facts {
    fn str(&mut self, key: Key, value: &str) {
        let length = self.text(value);
        self.add(key, Value::Str(length));
    }

    fn message(&mut self, key: Key, value: &str) {
        let length = self.text(value);
        self.add(key, Value::Message(length));
    }

    fn addr(&mut self, key: Key, value: IpAddr) {
        match value {
            IpAddr::V4(v4) => self.add(key, Value::Addr(v4)),
            IpAddr::V6(v6) => self.str(key, &v6.to_string()),
        }
    }

    fn num(&mut self, key: Key, value: impl Into<u64>) {
        self.add(key, Value::Num(value.into()));
    }

    fn millis(&mut self, key: Key, value: Duration) {
        let micros = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
        self.add(key, Value::Millis(micros));
    }

    fn flag(&mut self, key: Key, value: bool) {
        self.add(key, Value::Flag(value));
    }
}

/// One event.
#[derive(Clone, Copy)]
pub(crate) struct Event<'f> {
    /// Its type.
    pub(crate) kind: &'static str,
    /// When it was.
    pub(crate) at: Stamp,
    said: Said<'f>,
}

impl Event<'_> {
    /// Whether it belongs to the trace or the request of that id.
    pub(crate) fn belongs(&self, id: &str) -> bool {
        let mut text = self.said.text;
        self.said.facts.iter().any(|fact| {
            let own = take(&mut text, fact.value());
            matches!(*fact.key, "trace_id" | "request_id") && own == id.as_bytes()
        })
    }

    /// Appends its line, of at most `limit` bytes.
    pub(crate) fn write(&self, out: &mut Vec<u8>, limit: usize) {
        let mut line = Line::event(out, limit, self.kind, self.at);
        self.said.write(&mut line);
        line.end();
    }
}

/// Facts without the event they are of, or of an object in it.
#[derive(Clone, Copy)]
struct Said<'f> {
    facts: &'f [Fact],
    text: &'f [u8],
}

impl<'f> Said<'f> {
    fn write(mut self, line: &mut Line<'_>) {
        while let Some((fact, rest)) = self.facts.split_first() {
            let key = fact.key;
            if let Value::Object(..) | Value::EndOfList = fact.value() {
                line.list(key, self.objects(), |line, object| object.write(line));
                continue;
            }
            self.facts = rest;
            let text = str::from_utf8(take(&mut self.text, fact.value())).unwrap_or_default();
            match fact.value() {
                Value::Str(_) => line.str(key, text),
                Value::Message(_) => line.message(key, text),
                Value::Addr(v4) => line.addr(key, v4.into()),
                Value::Num(number) => line.num(key, number),
                Value::Millis(micros) => line.millis(key, Duration::from_micros(micros)),
                Value::Flag(flag) => line.flag(key, flag),
                Value::Event(_) | Value::Object(..) | Value::EndOfList => {}
            }
        }
    }

    /// Takes a list off the front.
    fn objects(&mut self) -> Vec<Said<'f>> {
        let mut objects = Vec::new();
        while let Some((fact, rest)) = self.facts.split_first() {
            self.facts = rest;
            let Value::Object(count, length) = fact.value() else { break };
            let (facts, rest) = rest.split_at(rest.len().min(count as usize));
            let (text, behind) = self.text.split_at(self.text.len().min(length as usize));
            (self.facts, self.text) = (rest, behind);
            objects.push(Said { facts, text });
        }
        objects
    }
}

/// Takes the text of one fact off the front of all that is left.
fn take<'t>(text: &mut &'t [u8], of: Value) -> &'t [u8] {
    let length = if let Value::Str(length) | Value::Message(length) = of { length } else { 0 };
    let (own, rest) = text.split_at(text.len().min(length as usize));
    *text = rest;
    own
}

/// Bytes of text that these facts have. Those in an object count once.
fn length(facts: &[Fact]) -> usize {
    let own = |fact: &Fact| match fact.value() {
        Value::Str(length) | Value::Message(length) => length as usize,
        _ => 0,
    };
    facts.iter().map(own).sum()
}

/// What a line's limit keeps small.
fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Runs `take` with the facts of this thread, which say nothing yet, so that an event costs no
/// allocation. No string of more than `most` bytes is kept whole.
pub(crate) fn with_facts<T>(most: usize, take: impl FnOnce(&mut Facts) -> T) -> T {
    thread_local! {
        static FACTS: RefCell<Facts> = RefCell::default();
    }
    // Taken out and put back, so that a `take` that comes here again finds empty ones.
    let mut facts = FACTS.try_with(RefCell::take).unwrap_or_default();
    facts.clear();
    facts.most = most;
    let result = take(&mut facts);
    let _ = FACTS.try_with(|home| home.replace(facts));
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wall;
    use serde_json::json;

    fn lines(facts: &Facts, limit: usize) -> Vec<serde_json::Value> {
        let read = |event: Event<'_>| {
            let mut out = Vec::new();
            event.write(&mut out, limit);
            serde_json::from_slice(&out).unwrap()
        };
        facts.events().map(read).collect()
    }

    fn taken(most: usize, take: impl FnOnce(&mut Facts)) -> Facts {
        with_facts(most, |facts| {
            take(facts);
            facts.clone()
        })
    }

    #[test]
    fn a_line_says_what_was_taken_down() {
        let facts = taken(4096, |facts| {
            facts.begin(&"first", wall::now());
            facts.str(&"trace_id", "t1");
            facts.addr(&"v4", IpAddr::from([127, 0, 0, 1]));
            facts.addr(&"v6", IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]));
            facts.list(&"attempts", [1u8, 2], |facts, n| {
                facts.str(&"role", if n == 1 { "primary" } else { "hedge" });
                facts.num(&"n", n);
            });
            facts.list(&"none", [0u8; 0], |facts, n| facts.num(&"n", n));
            facts.millis(&"took_ms", Duration::from_micros(1_500));
            facts.opt_num(&"absent", None::<u8>);
            facts.begin(&"second", wall::now());
            facts.flag(&"on", true);
            facts.message(&"error", "gr\u{fc}n \"x\"");
        });
        let mut said = lines(&facts, 4096);
        for line in &mut said {
            line.as_object_mut().unwrap().remove("ts");
        }
        let attempts = json!([{"role": "primary", "n": 1}, {"role": "hedge", "n": 2}]);
        let first = json!({"type": "first", "trace_id": "t1", "v4": "127.0.0.1", "v6": "::1",
            "attempts": attempts, "none": [], "took_ms": 1.5});
        let second = json!({"type": "second", "on": true, "error": "gr\u{fc}n \"x\""});
        assert_eq!(said, [first, second]);
        let owners: Vec<bool> = facts.events().map(|event| event.belongs("t1")).collect();
        assert_eq!(owners, [true, false]);
        assert!(!facts.events().any(|event| event.belongs("primary") || event.belongs("")));
    }

    #[test]
    fn a_value_is_itself_again() {
        let at = Stamp::at_millis(1_796_000_000_123);
        let v4 = Ipv4Addr::new(255, 1, 2, 3);
        for value in [
            Value::Event(at),
            Value::Str(u32::MAX),
            Value::Message(7),
            Value::Addr(v4),
            Value::Num(MOST),
            Value::Millis(1),
            Value::Flag(true),
            Value::Flag(false),
            Value::Object(0x00ff_ffff, u32::MAX),
            Value::EndOfList,
        ] {
            assert_eq!(Value::unpacked(value.packed()), value);
        }
        assert_eq!(Value::unpacked(Value::Num(u64::MAX).packed()), Value::Num(MOST));
        assert_eq!(size_of::<Fact>(), 16);
    }

    #[test]
    fn no_string_is_kept_that_no_line_could_hold() {
        let facts = taken(1000, |facts| {
            facts.begin(&"x", wall::now());
            facts.message(&"error", &"\u{fc}".repeat(1 << 20));
        });
        assert!(facts.bytes() < 2_000, "{}", facts.bytes());
        assert_eq!(lines(&facts, 1000)[0]["truncated"], true);
    }
}
