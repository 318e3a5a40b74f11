//! Trusting a database again whose journal had overflowed.
//!
//! Invariant: a database is read again only after everything was removed that may be older than an
//! invalidation which was lost.

use super::remote::{Remote, escape};
use super::{Guarded, asking};
use crate::fault::Fault;
use hedgerow_wire::resp::{Protocol, Value};
use std::sync::atomic::Ordering::Relaxed;

/// Why a resume was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// Without a key prefix only emptying the whole database helps, and that has to be asked for.
    #[error("there is no key_prefix: ask for a flush")]
    NeedsFlush,
    /// The store did not do it.
    #[error("database {database}: {fault}")]
    Store {
        /// Which database.
        database: u32,
        /// Why not.
        fault: Fault,
    },
}

impl Guarded {
    /// Removes what the databases that have overflowed may have lost track of, and lets them be
    /// read again: the keys of the prefix or, with `flush`, everything. Returns how many databases.
    ///
    /// # Errors
    /// When there is no prefix and `flush` is false, or the store does not do it: then nothing is
    /// let through that was not before.
    pub async fn resume(&self, flush: bool) -> Result<usize, ResumeError> {
        let Some(remote) = self.remote() else { return Ok(0) };
        let journal = remote.keeper.journal_snapshot();
        let databases: Vec<u32> =
            if journal.in_doubt { (0..remote.databases()).collect() } else { journal.overflowed };
        if !databases.is_empty() && remote.key_prefix.is_empty() && !flush {
            return Err(ResumeError::NeedsFlush);
        }
        for &database in &databases {
            let mark = remote.keeper.mark_now();
            let removed = if flush {
                remote.tell(database, &[b"FLUSHDB"]).await.map(drop)
            } else {
                remote.remove_prefix(database).await
            };
            removed.map_err(|fault| ResumeError::Store { database, fault })?;
            remote.keeper.purged.step_all();
            remote.near.forget_all(Some(database));
            if flush {
                remote.keeper.flushed(Some(database), Some(mark));
            } else {
                remote.keeper.resumed(database, mark).wait().await;
            }
        }
        Ok(databases.len())
    }
}

impl Remote {
    fn databases(&self) -> u32 {
        match self.lanes.store.told.databases.load(Relaxed) {
            0 => 16,
            known => u32::try_from(known).unwrap_or(16),
        }
    }

    async fn tell(&self, database: u32, args: &[&[u8]]) -> Result<Value, Fault> {
        let lane = self.lanes.lane(database, Protocol::Resp2);
        let frames = self.exchange(&lane, asking::command(args), 1).await?;
        let frame = frames.first().ok_or(Fault::Timeout)?;
        match Value::read(frame).map_err(|e| Fault::Protocol(e.to_string()))? {
            Value::Error(text) => Err(Fault::Answered(text)),
            value => Ok(value),
        }
    }

    async fn remove_prefix(&self, database: u32) -> Result<(), Fault> {
        let mut pattern = escape(&self.key_prefix);
        pattern.push(b'*');
        let mut cursor = bytes::Bytes::from_static(b"0");
        loop {
            let scan: [&[u8]; 6] = [b"SCAN", &cursor, b"MATCH", &pattern, b"COUNT", b"500"];
            let mut reply =
                self.tell(database, &scan).await?.into_elements().unwrap_or_default().into_iter();
            cursor = reply
                .next()
                .and_then(|c| c.bytes().cloned())
                .ok_or_else(|| Fault::Protocol("SCAN without a cursor".into()))?;
            let names = reply.next().and_then(Value::into_elements).unwrap_or_default();
            if !names.is_empty() {
                let mut unlink: Vec<&[u8]> = vec![b"UNLINK"];
                unlink.extend(names.iter().filter_map(Value::bytes).map(|name| &name[..]));
                self.tell(database, &unlink).await?;
            }
            if cursor == "0" {
                return Ok(());
            }
        }
    }
}
