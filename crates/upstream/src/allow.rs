//! Which hosts a bare URL may name.
//!
//! Invariant: an address is judged after resolution, and the one that was judged is the one that is
//! connected to. Loopback, link-local, unspecified, multicast and cloud metadata addresses are
//! refused unless the list names them as addresses (`localhost` names loopback): a public name that
//! resolves to one of them is an attack, not an upstream.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The list. The empty one allows nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AllowList {
    names: Vec<Name>,
    ranges: Vec<Range>,
}

/// An entry that means nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is neither host, host:port, *.example.org nor a range of addresses")]
pub struct AllowListError(String);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Name {
    /// Lower case; of `*.example.org` what stands behind the star, its dot included.
    name: String,
    wildcard: bool,
    port: Option<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    base: IpAddr,
    bits: u8,
    port: Option<u16>,
}

impl AllowList {
    /// Reads the entries of a configuration.
    ///
    /// # Errors
    /// Names the first that means nothing.
    pub fn new<'a>(
        entries: impl IntoIterator<Item = &'a str>,
    ) -> Result<AllowList, AllowListError> {
        let mut list = AllowList::default();
        for entry in entries {
            list.add(entry).ok_or_else(|| AllowListError(entry.to_owned()))?;
        }
        Ok(list)
    }

    fn add(&mut self, entry: &str) -> Option<()> {
        if let Some((base, bits)) = entry.split_once('/') {
            let (base, bits): (IpAddr, u8) = (base.parse().ok()?, bits.parse().ok()?);
            let most = if base.is_ipv4() { 32 } else { 128 };
            (bits <= most).then_some(())?;
            self.ranges.push(Range { base, bits, port: None });
            return Some(());
        }
        if let Ok(base) = entry.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            let bits = if base.is_ipv4() { 32 } else { 128 };
            self.ranges.push(Range { base, bits, port: None });
            return Some(());
        }
        let (host, port) = match entry.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (entry, None),
        };
        if let Ok(base) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            let bits = if base.is_ipv4() { 32 } else { 128 };
            self.ranges.push(Range { base, bits, port });
            return Some(());
        }
        let (name, wildcard) = match host.strip_prefix('*') {
            Some(rest) => (rest.strip_prefix('.').map(|_| rest)?, true),
            None => (host, false),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let named = !name.trim_start_matches('.').is_empty();
        (named && name.chars().all(plain)).then_some(())?;
        self.names.push(Name { name: name.to_ascii_lowercase(), wildcard, port });
        Some(())
    }

    /// Whether a name could be allowed at all; asked before it is resolved, so that a worker cannot
    /// have any name looked up.
    #[must_use]
    pub fn may_resolve(&self, host: &str, port: u16) -> bool {
        let literal = host.parse::<IpAddr>();
        match literal {
            Ok(ip) => self.allows(host, port, ip),
            Err(_) => self.named(host, port).is_some() || !self.ranges.is_empty(),
        }
    }

    /// Whether `host`, which resolved to `ip`, may be called at this port.
    #[must_use]
    pub fn allows(&self, host: &str, port: u16, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let in_range = self.ranges.iter().any(|range| range.holds(ip, port));
        match self.named(host, port) {
            Some(name) => {
                let local = name.name == "localhost" && !name.wildcard && ip.is_loopback();
                in_range || local || !is_special(ip)
            }
            None => in_range,
        }
    }

    fn named(&self, host: &str, port: u16) -> Option<&Name> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.names.iter().find(|entry| {
            let matches = match entry.wildcard {
                true => host.len() > entry.name.len() && host.ends_with(&entry.name),
                false => host == entry.name,
            };
            matches && entry.port.is_none_or(|only| only == port)
        })
    }
}

impl Range {
    fn holds(self, ip: IpAddr, port: u16) -> bool {
        let same = match (self.base.to_canonical(), ip) {
            (IpAddr::V4(base), IpAddr::V4(ip)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits.min(32))).unwrap_or(0);
                u32::from(base) & mask == u32::from(ip) & mask
            }
            (IpAddr::V6(base), IpAddr::V6(ip)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                u128::from(base) & mask == u128::from(ip) & mask
            }
            _ => false,
        };
        same && self.port.is_none_or(|only| only == port)
    }
}

/// Addresses that mean this machine, this link, or what a cloud tells its machines.
fn is_special(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let metadata = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];
            ip.octets()[0] == 0
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_multicast()
                || ip.is_broadcast()
                || metadata.contains(&ip)
        }
        IpAddr::V6(ip) => {
            let metadata = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
            ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_unicast_link_local()
                || ip.is_multicast()
                || ip == metadata
                || embedded(ip).is_some_and(|inner| is_special(IpAddr::V4(inner)))
        }
    }
}

/// The IPv4 address inside one that a translator or a tunnel would turn into it.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = ip.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match s {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high, low] => {
            Some(v4(high, low))
        }
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> AllowList {
        AllowList::new(entries.iter().copied()).unwrap()
    }

    fn allows(list: &AllowList, host: &str, port: u16, ip: &str) -> bool {
        list.allows(host, port, ip.parse().unwrap())
    }

    #[test]
    fn names_ports_and_wildcards() {
        let l = list(&["api.example.org:443", "*.Models.dev", "plain"]);
        assert!(allows(&l, "api.example.org", 443, "93.184.216.34"));
        assert!(!allows(&l, "api.example.org", 80, "93.184.216.34"));
        assert!(allows(&l, "A.models.dev.", 1, "10.0.0.1"), "a private address is an ordinary one");
        assert!(!allows(&l, "models.dev", 1, "10.0.0.1"));
        assert!(!allows(&l, "evilmodels.dev", 1, "10.0.0.1"));
        assert!(allows(&l, "plain", 7, "10.0.0.1") && !allows(&l, "other", 7, "10.0.0.1"));
        assert!(!list(&[]).may_resolve("plain", 7) && !l.may_resolve("other", 7));
    }

    #[test]
    fn a_listed_name_that_resolves_to_a_special_address_is_refused() {
        let l = list(&["api.example.org"]);
        for ip in [
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "0.0.0.0",
            "::1",
            "::",
            "fe80::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "fd00:ec2::254",
            "100.100.100.200",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "224.0.0.1",
            "255.255.255.255",
            "::7f00:1",
        ] {
            assert!(!allows(&l, "api.example.org", 80, ip), "{ip}");
        }
        assert!(allows(&l, "api.example.org", 80, "2606:2800:220:1::1"));
    }

    #[test]
    fn listed_addresses_are_allowed_whatever_they_are() {
        let l = list(&["127.0.0.0/8", "fd00::/8", "10.1.2.3:8080"]);
        assert!(allows(&l, "127.0.0.1", 80, "127.0.0.1"));
        assert!(allows(&l, "any.name", 80, "127.0.0.1"), "the range is what is listed");
        assert!(
            allows(&l, "10.1.2.3", 8080, "10.1.2.3") && !allows(&l, "10.1.2.3", 80, "10.1.2.3")
        );
        assert!(allows(&list(&["localhost:81"]), "localhost", 81, "::1"));
        assert!(!allows(&list(&["localhost"]), "localhost", 80, "169.254.169.254"));
        assert!(allows(&list(&["0.0.0.0/0"]), "x", 1, "8.8.8.8"));
        assert!(
            allows(&list(&["::/0"]), "x", 1, "2606::1")
                && !allows(&list(&["::/0"]), "x", 1, "8.8.8.8")
        );
    }

    #[test]
    fn entries_that_mean_nothing_are_named() {
        for bad in ["", "*", "a b", "http://x", "10.0.0.0/33", "x:port", "*.", "a/8"] {
            assert!(AllowList::new([bad]).is_err(), "{bad:?}");
        }
    }
}
