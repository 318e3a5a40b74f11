//! The cache as Rust code sees it.
//!
//! Invariant: nothing here fails. A read that cannot be answered is a miss, a write that cannot be
//! made says so in its result, and no caller gets an error it did not have without the guard.

use bytes::Bytes;
use std::future::Future;
use std::time::Duration;

/// What became of a save.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Saved {
    /// It is in the store.
    Stored,
    /// It is not, or nobody knows.
    Failed,
}

/// What became of a save with a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Leased {
    /// It is in the store.
    Stored,
    /// The key was invalidated since the lease was taken: what was saved may be older.
    Refused,
    /// It is not in the store, or nobody knows.
    Failed,
}

/// What became of an invalidation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purged {
    /// The store has carried it out.
    Done,
    /// It is in the journal, and is carried out before anything is read.
    Journalled,
    /// The journal is full: reads stay shed until it is resumed.
    Overflowed,
}

/// The right to store what was computed from now on: void once the key is invalidated. A lease is
/// never valid again after that, whatever the store has evicted in between.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease(pub(crate) Hold);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    /// What the store has under the key's lease, and a number of this process as below.
    Token(Bytes, u64),
    /// A number of the embedded store, or, where the store was not asked, of this process.
    Number(u64),
}

impl Lease {
    /// Whether the store was not asked: then only invalidations by this process are known.
    #[must_use]
    pub fn unknown(&self) -> bool {
        matches!(self.0, Hold::Number(_))
    }
}

/// A cache. Keys and values are any bytes.
pub trait Cache: Send + Sync {
    /// The value under a key; a miss where there is none, or none could be had.
    fn load(&self, key: &[u8]) -> impl Future<Output = Option<Bytes>> + Send;

    /// Up to `most` keys that begin with `prefix`; none where they could not be had.
    fn list(&self, prefix: &[u8], most: usize) -> impl Future<Output = Vec<Bytes>> + Send;

    /// Keys in the database; 0 where that is not known.
    fn size(&self) -> impl Future<Output = u64> + Send;

    /// Whether the store answers.
    fn ping(&self) -> impl Future<Output = bool> + Send;

    /// A lease, to be taken before the value is computed.
    fn generation(&self, key: &[u8]) -> impl Future<Output = Lease> + Send;

    /// Stores a value, for `ttl` where given.
    fn save(
        &self,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
    ) -> impl Future<Output = Saved> + Send;

    /// Stores a value unless the key was invalidated since the lease was taken.
    fn save_with_lease(
        &self,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
        lease: &Lease,
    ) -> impl Future<Output = Leased> + Send;

    /// Lets a key live for `ttl` from now. False where it is not there, or could not be reached.
    fn touch(&self, key: &[u8], ttl: Duration) -> impl Future<Output = bool> + Send;

    /// Removes a key: what was stored is not read again.
    fn purge(&self, key: &[u8]) -> impl Future<Output = Purged> + Send;

    /// Removes everything in the database.
    fn flush(&self) -> impl Future<Output = Purged> + Send;
}
