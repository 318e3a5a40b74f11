//! What a worker says it can do beyond the plain contract.
//!
//! Promise: a worker that says nothing is spoken to as the oldest one, and a name this version does
//! not know changes nothing.

/// A small set of capabilities. The default is the empty one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Capabilities {
    /// The worker reads another frame on a connection after it has answered.
    pub keep_alive: bool,
    /// The worker understands `body_length` with the raw bytes following the frame.
    pub raw_body: bool,
    /// When the gateway half-closes the connection during a stream, the worker stops producing and
    /// sends `end`.
    pub cancel: bool,
    /// The worker works out by itself what a request's frame says twice: `server`, `attributes` and,
    /// where no header is repeated, `header_list` are left out.
    pub lean: bool,
}

impl Capabilities {
    /// No capability: the plain contract.
    pub const NONE: Self = Self { keep_alive: false, raw_body: false, cancel: false, lean: false };
    /// Every capability this version knows.
    pub const ALL: Self = Self { keep_alive: true, raw_body: true, cancel: true, lean: true };

    /// This set and the one of that name; a name that is not known is ignored.
    #[must_use]
    pub fn with(mut self, name: &str) -> Self {
        match name {
            "keep_alive" => self.keep_alive = true,
            "raw_body" => self.raw_body = true,
            "cancel" => self.cancel = true,
            "lean" => self.lean = true,
            _ => {}
        }
        self
    }

    /// The set of these names.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        names.into_iter().fold(Self::NONE, Self::with)
    }

    /// The names in this set, as they travel.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.keep_alive, "keep_alive"),
            (self.raw_body, "raw_body"),
            (self.cancel, "cancel"),
            (self.lean, "lean"),
        ];
        all.into_iter().filter_map(|(has, name)| has.then_some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for set in [Capabilities::NONE, Capabilities::ALL, Capabilities::NONE.with("raw_body")] {
            assert_eq!(Capabilities::from_names(set.names()), set);
        }
    }

    #[test]
    fn unknown_names_are_ignored() {
        assert_eq!(Capabilities::from_names(["telepathy", ""]), Capabilities::NONE);
    }
}
