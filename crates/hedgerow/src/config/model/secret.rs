//! Two values with a meaning of their own.

use std::fmt;
use std::net::IpAddr;

use serde::{Serialize, Serializer};

/// Text that must not be shown: printing it in any way gives `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl Secret {
    /// The text itself, for the one place that compares or sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

/// An address, or a range of them (`10.0.0.0/8`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The first address.
    pub address: IpAddr,
    /// Leading bits that count: 0 to 32, or to 128.
    pub prefix: u8,
}

impl Network {
    /// Whether the address lies in the range. IPv4 written as IPv6 (`::ffff:1.2.3.4`) counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |ip: IpAddr| match ip.to_canonical() {
            IpAddr::V4(v4) => (32u8, u128::from(v4.to_bits())),
            IpAddr::V6(v6) => (128, v6.to_bits()),
        };
        let ((width, mine), (other_width, theirs)) = (bits(self.address), bits(address));
        let dropped = u32::from(width.saturating_sub(self.prefix));
        width == other_width
            && mine.checked_shr(dropped).unwrap_or(0) == theirs.checked_shr(dropped).unwrap_or(0)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = if self.address.is_ipv4() { 32 } else { 128 };
        if self.prefix == full {
            write!(f, "{}", self.address)
        } else {
            write!(f, "{}/{}", self.address, self.prefix)
        }
    }
}
