//! The URL of a store.
//!
//! Invariant: an error never repeats what may be a password.

use crate::settings::{Address, Credential};

/// A URL that was understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) tls: bool,
    pub(crate) address: Address,
    pub(crate) credential: Option<Credential>,
    pub(crate) database: u32,
}

pub(crate) fn parse(url: &str) -> Result<Parsed, String> {
    let (scheme, rest) = url.split_once("://").ok_or("a store is \"memory\" or a redis:// URL")?;
    let tls = match scheme {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        "redis+cluster" | "redis+sentinel" => {
            return Err(format!("{scheme}:// is not supported yet: use redis:// or rediss://"));
        }
        _ => return Err("a store's URL begins with redis:// or rediss://".to_owned()),
    };
    // A password may hold what would end it elsewhere: it ends at the last @.
    let (credential, rest) = match rest.rsplit_once('@') {
        None => (None, rest),
        Some((credential, rest)) => (Some(self::credential(credential)?), rest),
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
    let database = match database {
        "" => 0,
        text => text.parse().map_err(|_| format!("the database is no number: {text:?}"))?,
    };
    Ok(Parsed { tls, address: address(place)?, credential, database })
}

fn credential(text: &str) -> Result<Credential, String> {
    let decoded = |text: &str| unescape(text).ok_or("a %XX in the user or password is not UTF-8");
    let (user, password) = text.split_once(':').unwrap_or(("", text));
    Ok(Credential {
        user: if user.is_empty() { None } else { Some(decoded(user)?) },
        password: decoded(password)?,
    })
}

fn address(text: &str) -> Result<Address, String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']').ok_or("an IPv6 address ends with ]")?;
            (host, behind.strip_prefix(':').unwrap_or(behind))
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let port = match port {
        "" => 6379,
        text => text
            .parse()
            .ok()
            .filter(|&port| port != 0)
            .ok_or_else(|| format!("the port is no port: {text:?}"))?,
    };
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    Ok(Address { host: host.to_owned(), port })
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        if byte == b'%'
            && let Some(hex) = behind.get(..2)
            && let Some(value) =
                std::str::from_utf8(hex).ok().and_then(|h| u8::from_str_radix(h, 16).ok())
        {
            bytes.push(value);
            rest = &behind[2..];
            continue;
        }
        bytes.push(byte);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_understood() {
        let plain = parse("redis://localhost").unwrap();
        assert_eq!((plain.tls, plain.address.port, plain.database), (false, 6379, 0));
        let full = parse("rediss://app:p%40ss:w@cache.example:7000/3").unwrap();
        assert!(full.tls);
        assert_eq!(full.address, Address { host: "cache.example".into(), port: 7000 });
        let credential = full.credential.unwrap();
        assert_eq!(credential.user.as_deref(), Some("app"));
        assert_eq!(credential.password, "p@ss:w");
        assert_eq!(full.database, 3);
        assert_eq!(parse("redis://:secret@[::1]:1/").unwrap().address.host, "::1");
        let raw = parse("redis://app:a/b@c?d#e@h:1/2").unwrap();
        assert_eq!(raw.credential.unwrap().password, "a/b@c?d#e");
        assert_eq!((raw.address.host.as_str(), raw.database), ("h", 2));
    }

    #[test]
    fn an_error_keeps_the_password_to_itself() {
        for url in ["redis://u:secret@h:x/0", "redis://u:secret@h/x", "http://u:secret@h"] {
            let error = parse(url).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(parse("redis+cluster://a,b").unwrap_err().contains("not supported"));
        assert!(parse("redis").is_err());
    }
}
