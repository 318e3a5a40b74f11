//! The operations of [`crate::Cache`] on a Redis server.
//!
//! Invariant: a lease is a token under a key of its own beside the value's. A purge removes both,
//! and a token that is gone is never made again: so one that was taken before is refused whatever
//! the server has evicted, and nothing is left behind that does not expire.

use crate::cache::{Hold, Lease, Leased, Purged, Saved};
use crate::counts::ReadResult;
use crate::fault::Fault;
use crate::keeper::{Keeper, outcome};
use crate::lanes::Lanes;
use crate::near::Near;
use bytes::Bytes;
use hedgerow_policy::breaker::Outcome;
use hedgerow_policy::journal::{Item, Noted};
use hedgerow_wire::resp::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a lease is good for at most.
const LEASE: &str = "600000";

/// The token of a key, made where there is none.
const TAKE: &[u8] = b"local t=redis.call('GET',KEYS[1])\
    if t then redis.call('PEXPIRE',KEYS[1],ARGV[2]) return t end \
    redis.call('SET',KEYS[1],ARGV[1],'PX',ARGV[2]) return ARGV[1]";

/// Stores the value if the token is still the one that was taken.
const STORE: &[u8] = b"if redis.call('GET',KEYS[2])~=ARGV[1] then return 0 end \
    if ARGV[3]=='' then redis.call('SET',KEYS[1],ARGV[2]) \
    else redis.call('SET',KEYS[1],ARGV[2],'PX',ARGV[3]) end return 1";

/// A Redis server behind the guard.
pub(crate) struct Remote {
    pub(crate) lanes: Lanes,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) near: Near,
    pub(crate) key_prefix: Bytes,
}

impl Remote {
    pub(super) async fn load(&self, key: &[u8]) -> Option<Bytes> {
        let database = self.database();
        if self.own_lane().hides(key) {
            self.keeper.counts.read(ReadResult::Miss);
            return None;
        }
        let asked = self.ask(&[b"GET", key]).await;
        if !matches!(asked, Ok(Some(_)))
            && let Some(copy) = self.near.load(database, key, self.keeper.clock.now())
        {
            self.keeper.counts.read(ReadResult::Stale);
            return Some(copy);
        }
        match self.counted(asked) {
            Some(Value::Bulk(value)) => {
                self.near.keep(database, key, &value, self.keeper.clock.now());
                Some(value)
            }
            _ => None,
        }
    }

    /// Counts a read.
    fn counted(&self, asked: Result<Option<Value>, Fault>) -> Option<Value> {
        let (result, value) = match asked {
            Ok(None) => (ReadResult::Shed, None),
            Ok(Some(Value::Null)) => (ReadResult::Miss, Some(Value::Null)),
            Ok(Some(value)) => (ReadResult::Hit, Some(value)),
            Err(Fault::Timeout | Fault::Busy) => (ReadResult::Timeout, None),
            Err(_) => (ReadResult::Error, None),
        };
        self.keeper.counts.read(result);
        value
    }

    pub(super) async fn list(&self, prefix: &[u8], most: usize) -> Vec<Bytes> {
        let mut pattern = escape(prefix);
        pattern.push(b'*');
        let (mut cursor, mut found) = (Bytes::from_static(b"0"), Vec::new());
        loop {
            let asked = self.ask(&[b"SCAN", &cursor, b"MATCH", &pattern, b"COUNT", b"1000"]).await;
            let Some(reply) = self.counted(asked).and_then(Value::into_elements) else {
                return Vec::new();
            };
            let mut reply = reply.into_iter();
            let Some(next) = reply.next().and_then(|c| c.bytes().cloned()) else { break };
            let names = reply.next().and_then(Value::into_elements).unwrap_or_default();
            found.extend(names.iter().filter_map(Value::bytes).cloned());
            cursor = next;
            if cursor == "0" || found.len() >= most {
                break;
            }
        }
        // A scan may return a key twice.
        found.sort_unstable();
        found.dedup();
        found.truncate(most);
        found
    }

    pub(super) async fn size(&self) -> u64 {
        let asked = self.ask(&[b"DBSIZE"]).await;
        let size = self.counted(asked).and_then(|size| size.integer());
        size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0)
    }

    pub(super) async fn ping(&self) -> bool {
        matches!(self.ask(&[b"PING"]).await, Ok(Some(Value::Status(_))))
    }

    pub(super) async fn generation(&self, key: &[u8]) -> Lease {
        // Before the store is asked: an invalidation after this makes the number too small.
        let number = self.keeper.purged.lease();
        let asked = self
            .ask(&[b"EVAL", TAKE, b"1", &self.lease_key(key), &self.token(), LEASE.as_bytes()])
            .await;
        match asked {
            Ok(Some(Value::Bulk(token))) => Lease(Hold::Token(token, number)),
            _ => Lease(Hold::Number(number)),
        }
    }

    pub(super) async fn save(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Saved {
        let database = self.database();
        self.near.forget(database, key, self.keeper.clock.now());
        let ttl = millis(ttl);
        let args: &[&[u8]] = match &ttl {
            Some(ttl) => &[b"SET", key, value, b"PX", ttl.as_bytes()],
            None => &[b"SET", key, value],
        };
        match self.write(args, &[Item::key(key)]).await {
            Ok(Some(Value::Status(_))) => Saved::Stored,
            _ => Saved::Failed,
        }
    }

    pub(super) async fn save_with_lease(
        &self,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
        lease: &Lease,
    ) -> Leased {
        if self.keeper.refuses_leased(self.database(), &Item::key(key)) {
            return Leased::Refused;
        }
        let (Hold::Token(_, number) | Hold::Number(number)) = &lease.0;
        if self.keeper.purged.of(hash(key)) > *number {
            return Leased::Refused;
        }
        let token = match &lease.0 {
            Hold::Number(_) => {
                return match self.save(key, value, ttl).await {
                    Saved::Stored => Leased::Stored,
                    Saved::Failed => Leased::Failed,
                };
            }
            Hold::Token(token, _) => token,
        };
        self.near.forget(self.database(), key, self.keeper.clock.now());
        let (ttl, lease_key) = (millis(ttl).unwrap_or_default(), self.lease_key(key));
        let args: &[&[u8]] = &[b"EVAL", STORE, b"2", key, &lease_key, token, value, ttl.as_bytes()];
        match self.write(args, &[Item::key(key)]).await {
            Ok(Some(Value::Integer(1))) => Leased::Stored,
            Ok(Some(Value::Integer(0))) => Leased::Refused,
            _ => Leased::Failed,
        }
    }

    pub(super) async fn touch(&self, key: &[u8], ttl: Duration) -> bool {
        let ttl = millis(Some(ttl)).unwrap_or_default();
        let touched = self.write(&[b"PEXPIRE", key, ttl.as_bytes()], &[]).await;
        matches!(touched, Ok(Some(Value::Integer(1))))
    }

    pub(super) async fn purge(&self, key: &[u8]) -> Purged {
        self.keeper.purged.step(hash(key));
        self.near.forget(self.database(), key, self.keeper.clock.now());
        let lease_key = self.lease_key(key);
        let items = [Item::key(key), Item::key(&lease_key)];
        let mark = self.keeper.mark();
        // A caller that leaves must not take the invalidation with it.
        let mut owed = Owed { remote: self, items: &items, settled: false };
        let done = self.write(&[b"UNLINK", key, &lease_key], &[]).await;
        owed.settled = true;
        if matches!(done, Ok(Some(Value::Integer(_)))) {
            self.keeper.invalidated(self.database(), &items, mark);
            return Purged::Done;
        }
        let (noted, on_disk) = self.keeper.undelivered(self.database(), &items);
        on_disk.wait().await;
        match noted {
            Noted::Kept => Purged::Journalled,
            Noted::Overflowed => Purged::Overflowed,
        }
    }

    pub(super) async fn flush(&self) -> Purged {
        let database = self.database();
        self.keeper.purged.step_all();
        self.near.forget_all(Some(database));
        let mark = self.keeper.mark_now();
        let mut owed = OwedFlush { remote: self, settled: false };
        let done = self.write(&[b"FLUSHDB"], &[]).await;
        owed.settled = true;
        if matches!(done, Ok(Some(Value::Status(_)))) {
            self.keeper.flushed(Some(database), Some(mark));
            return Purged::Done;
        }
        self.keeper.undelivered_flush(Some(database)).wait().await;
        Purged::Journalled
    }

    /// Whether what a canary wrote was read back in time. On the lane of the traffic: what it
    /// shows is what a caller would see.
    pub(super) async fn canary(&self) -> bool {
        let mut key = self.key_prefix.to_vec();
        key.extend_from_slice(b"hedgerow:canary");
        let token = self.token();
        let mut bytes = bytes::BytesMut::new();
        use hedgerow_wire::resp::reply::command;
        command(&mut bytes, &[b"SET", &key, &token, b"PX", b"10000"]);
        command(&mut bytes, &[b"GET", &key]);
        let Ok(frames) = self.exchange(&self.own_lane(), bytes.freeze(), 2).await else {
            return false;
        };
        let written = frames.first().is_some_and(|set| {
            outcome(set.kind, &set.bytes, true) == Outcome::Ok && set.bytes.starts_with(b"+")
        });
        let read = frames.get(1).and_then(|get| Value::read(get).ok());
        written && read.is_some_and(|value| value.bytes() == Some(&token))
    }

    /// Beside the key, under the prefix, so that whoever may use the one may use the other.
    fn lease_key(&self, key: &[u8]) -> Vec<u8> {
        [&self.key_prefix[..], b"hedgerow:lease:{", key, b"}"].concat()
    }

    /// Never the same twice, from whatever process.
    fn token(&self) -> Bytes {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (process, time) = (std::process::id(), hedgerow_clock::unix_ms());
        let own = std::ptr::from_ref(self).addr();
        Bytes::from(format!("{time:x}-{process:x}-{own:x}-{number:x}"))
    }
}

/// An invalidation whose caller may leave: it is journalled then.
struct Owed<'a> {
    remote: &'a Remote,
    items: &'a [Item],
    settled: bool,
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        if !self.settled {
            let _ = self.remote.keeper.undelivered(self.remote.database(), self.items);
        }
    }
}

struct OwedFlush<'a> {
    remote: &'a Remote,
    settled: bool,
}

impl Drop for OwedFlush<'_> {
    fn drop(&mut self) {
        if !self.settled {
            let _ = self.remote.keeper.undelivered_flush(Some(self.remote.database()));
        }
    }
}

/// Whole milliseconds, at least one.
fn millis(ttl: Option<Duration>) -> Option<String> {
    ttl.map(|ttl| ttl.as_millis().clamp(1, i64::MAX as u128 / 4).to_string())
}

/// The place of a key among the invalidations of this process. (FNV-1a.)
pub(crate) fn hash(key: &[u8]) -> u64 {
    key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A text as a pattern that matches exactly it.
pub(crate) fn escape(text: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(text.len() + 1);
    for &byte in text {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b'^') {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern
}
