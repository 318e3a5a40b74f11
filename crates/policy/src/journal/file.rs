//! The journal as a file: what is appended, and how it is read back.
//!
//! Invariant: what was written whole is read back whole, and a last record that was cut short is
//! as if it had not been written (nobody was answered for it). Anything else that does not read
//! back is damage, and said to be.
//!
//! A file is [`HEADER`], then records: the length of the body (4 bytes, little-endian), its CRC-32
//! (IEEE 802.3, 4 bytes, little-endian), the body. A body is one byte of kind, 4 bytes of database
//! (little-endian), and for items 4 bytes of key length, the key, and the field as the rest.

use super::{Database, Item};
use std::fmt;

/// The first bytes of a journal file, with its version.
pub const HEADER: &[u8; 8] = b"hgjrnl1\n";

/// The longest body of a record: the longest key Redis has, and a field as long.
pub const MAX_RECORD: usize = 2 * 512 * 1024 * 1024 + 16;

/// One change of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// An item is owed.
    Item {
        /// Of which database.
        database: Database,
        /// Which.
        item: Item,
    },
    /// A flush is owed.
    Flush {
        /// Of which database.
        database: Database,
    },
    /// A flush of all is owed.
    FlushAll,
    /// A database has overflowed.
    Overflowed {
        /// Which.
        database: Database,
    },
    /// An item, and what it covers, is no longer owed.
    Gone {
        /// Of which database.
        database: Database,
        /// Which.
        item: Item,
    },
    /// A flush is no longer owed.
    GoneFlush {
        /// Of which database.
        database: Database,
    },
    /// The flush of all is no longer owed.
    GoneFlushAll,
    /// An overflowed database has been resumed.
    Resumed {
        /// Which.
        database: Database,
    },
    /// Everything before this is void; what is owed follows.
    Restart,
    /// A file before this one was damaged: no database is to be trusted until it is resumed.
    Doubt,
}

/// A file that is no journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileError;

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is not a journal file of a version known here")
    }
}

impl std::error::Error for FileError {}

/// What a file held.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// The records, in order.
    pub records: Vec<Record>,
    /// How many bytes of the file are whole; the rest is to be cut off before more is appended.
    pub good_bytes: usize,
    /// Something that had been written whole did not read back: entries may be lost.
    pub damaged: bool,
}

/// Reads a file. An empty one holds nothing.
///
/// # Errors
/// The file does not begin as a journal does.
pub fn read_file(bytes: &[u8]) -> Result<Restored, FileError> {
    let mut restored = Restored::default();
    if !bytes.starts_with(HEADER) {
        // A header that was cut short: the process ended while it made the file.
        return if HEADER.starts_with(bytes) { Ok(restored) } else { Err(FileError) };
    }
    let mut rest = &bytes[HEADER.len()..];
    while let Some((head, tail)) = rest.split_at_checked(8) {
        let length = u32_at(head, 0) as usize;
        if !(5..=MAX_RECORD).contains(&length) {
            restored.damaged = true;
            break;
        }
        let Some((body, tail)) = tail.split_at_checked(length) else { break };
        match parse(body).filter(|_| crc32(body) == u32_at(head, 4)) {
            Some(record) => restored.records.push(record),
            None => {
                // The last one may have been cut short by a crash in a way that kept its length.
                restored.damaged = !tail.is_empty();
                break;
            }
        }
        rest = tail;
    }
    restored.good_bytes = bytes.len() - rest.len();
    Ok(restored)
}

/// Appends a record.
pub fn write_record(out: &mut Vec<u8>, record: &Record) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    let (kind, database, item) = match record {
        Record::Item { database, item } => (1, *database, Some(item)),
        Record::Flush { database } => (2, *database, None),
        Record::FlushAll => (3, 0, None),
        Record::Overflowed { database } => (4, *database, None),
        Record::Gone { database, item } => (5, *database, Some(item)),
        Record::GoneFlush { database } => (6, *database, None),
        Record::GoneFlushAll => (7, 0, None),
        Record::Resumed { database } => (8, *database, None),
        Record::Restart => (9, 0, None),
        Record::Doubt => (10, 0, None),
    };
    // The high bit says that a field follows the key: a field may be empty.
    let has_field = item.is_some_and(|item| item.field.is_some());
    out.push(kind | if has_field { FIELD } else { 0 });
    out.extend_from_slice(&database.to_le_bytes());
    if let Some(item) = item {
        out.extend_from_slice(&(item.key.len() as u32).to_le_bytes());
        out.extend_from_slice(&item.key);
        out.extend_from_slice(item.field.as_deref().unwrap_or_default());
    }
    let length = (out.len() - start - 8) as u32;
    let crc = crc32(&out[start + 8..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
}

const FIELD: u8 = 0x80;

fn parse(body: &[u8]) -> Option<Record> {
    let (&kind, rest) = body.split_first()?;
    let (database, rest) = rest.split_at_checked(4)?;
    let database = u32_at(database, 0);
    let has_field = kind & FIELD != 0;
    let item = || {
        let (length, rest) = rest.split_at_checked(4)?;
        let (key, field) = rest.split_at_checked(u32_at(length, 0) as usize)?;
        match has_field {
            true => Some(Item::field(key, field)),
            false => field.is_empty().then(|| Item::key(key)),
        }
    };
    match kind & !FIELD {
        1 => Some(Record::Item { database, item: item()? }),
        5 => Some(Record::Gone { database, item: item()? }),
        _ if has_field || !rest.is_empty() => None,
        2 => Some(Record::Flush { database }),
        3 => Some(Record::FlushAll),
        4 => Some(Record::Overflowed { database }),
        6 => Some(Record::GoneFlush { database }),
        7 => Some(Record::GoneFlushAll),
        8 => Some(Record::Resumed { database }),
        9 => Some(Record::Restart),
        10 => Some(Record::Doubt),
        _ => None,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(!0u32, |crc, &byte| (crc >> 8) ^ CRC_TABLE[((crc ^ u32::from(byte)) & 0xff) as usize])
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut crc = at as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
};
