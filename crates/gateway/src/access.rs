//! The access line.

/// The status an access line shows for a client that went away; it is never sent.
pub(crate) const CLIENT_CLOSED: u16 = 499;
