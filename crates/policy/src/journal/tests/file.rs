//! The file: what is written is read back, whatever cut it short, and damage is said to be.

use super::*;
use crate::jitter::Jitter;
use proptest::prelude::*;

fn with_file() -> Journal {
    Journal::new(JournalConfig { file: true, ..JournalConfig::default() })
}

fn restored(bytes: &[u8]) -> Journal {
    let restored = read_file(bytes).unwrap();
    assert!(!restored.damaged);
    Journal::restore(JournalConfig::default(), &restored)
}

/// What a journal owes, in order.
fn owed(journal: &mut Journal) -> Vec<Vec<Command>> {
    let connection = u64::MAX;
    (0..3).map(|db| journal.next_batch(db, connection).map_or(Vec::new(), |b| b.commands)).collect()
}

fn item() -> impl Strategy<Value = Item> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..6);
    (bytes(), proptest::option::of(bytes())).prop_map(|(key, field)| match field {
        Some(field) => Item::field(&key, &field),
        None => Item::key(&key),
    })
}

fn record() -> impl Strategy<Value = Record> {
    (0u8..10, any::<u32>(), item()).prop_map(|(kind, database, item)| match kind {
        0 => Record::Item { database, item },
        1 => Record::Flush { database },
        2 => Record::FlushAll,
        3 => Record::Overflowed { database },
        4 => Record::Gone { database, item },
        5 => Record::GoneFlush { database },
        6 => Record::GoneFlushAll,
        7 => Record::Resumed { database },
        8 => Record::Restart,
        _ => Record::Doubt,
    })
}

fn file_of(records: &[Record]) -> Vec<u8> {
    let mut file = HEADER.to_vec();
    records.iter().for_each(|record| write_record(&mut file, record));
    file
}

proptest! {
    #[test]
    fn records_are_read_back(records in proptest::collection::vec(record(), 0..20)) {
        let file = file_of(&records);
        let expected = Restored { records, good_bytes: file.len(), damaged: false };
        prop_assert_eq!(read_file(&file), Ok(expected));
    }

    #[test]
    fn a_file_cut_short_holds_its_whole_records(
        records in proptest::collection::vec(record(), 1..8), cut in any::<prop::sample::Index>()
    ) {
        let file = file_of(&records);
        let cut = cut.index(file.len());
        let read = read_file(&file[..cut]).unwrap();
        prop_assert!(!read.damaged);
        let count = read.records.len();
        prop_assert_eq!(&read.records[..], &records[..count]);
        let whole = file_of(&records[..count]);
        prop_assert_eq!(read.good_bytes, if cut < HEADER.len() { 0 } else { whole.len() });
        prop_assert!(cut < file_of(&records[..count + 1]).len(), "no whole record is left out");
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_file(&bytes);
        let mut file = HEADER.to_vec();
        file.extend_from_slice(&bytes);
        let restored = read_file(&file).unwrap();
        drop(Journal::restore(JournalConfig::default(), &restored));
    }

    #[test]
    fn any_records_make_a_sound_journal(records in proptest::collection::vec(record(), 0..30)) {
        let restored = Restored { records, good_bytes: 0, damaged: false };
        let small = JournalConfig { capacity: 3, ..JournalConfig::default() };
        let journal = Journal::restore(small, &restored);
        let again = Journal::restore(small, &read_file(&journal.whole_file()).unwrap());
        prop_assert_eq!(journal.snapshot(), again.snapshot());
    }
}

#[test]
fn a_file_of_something_else_is_refused() {
    assert_eq!(read_file(b"SQLite format 3\0"), Err(FileError));
    assert_eq!(read_file(b"hgjrnl2\n"), Err(FileError));
    assert_eq!(read_file(b""), Ok(Restored::default()));
}

#[test]
fn the_format_is_what_it_was() {
    // A file of today is read by every later version.
    let item = Item::field(b"k", b"f");
    let file = file_of(&[Record::Item { database: 3, item }, Record::FlushAll]);
    let mut expected = b"hgjrnl1\n".to_vec();
    expected.extend_from_slice(&[11, 0, 0, 0, 20, 69, 91, 223, 0x81, 3, 0, 0, 0, 1, 0, 0, 0]);
    expected.extend_from_slice(b"kf");
    expected.extend_from_slice(&[5, 0, 0, 0, 205, 141, 130, 129, 3, 0, 0, 0, 0]);
    assert_eq!(file, expected);
}

#[test]
fn a_flipped_bit_with_more_behind_it_is_damage() {
    let mut journal = with_file();
    owe(&mut journal, 1, &["a", "b", "c"]);
    let mut file = HEADER.to_vec();
    file.extend(journal.take_unwritten());
    let record = (file.len() - HEADER.len()) / 3;
    for at in HEADER.len()..file.len() {
        let mut broken = file.clone();
        broken[at] ^= 0x10;
        let read = read_file(&broken).unwrap();
        assert!(read.records.len() < 3);
        // A length that lies may look like a record cut short; everything else is seen.
        let (which, within) = ((at - HEADER.len()) / record, (at - HEADER.len()) % record);
        if which < 2 && within >= 4 {
            assert!(read.damaged, "byte {at}");
        }
    }
}

#[test]
fn after_damage_no_database_is_trusted_until_it_is_resumed() {
    let damaged = Restored { records: vec![], good_bytes: 8, damaged: true };
    let mut journal = Journal::restore(JournalConfig::default(), &damaged);
    let whole = journal.whole_file();
    let mut later = restored(&whole);
    for journal in [&mut journal, &mut later] {
        assert!(journal.snapshot().in_doubt);
        assert_eq!(journal.on_read(6, 1), ReadOrder::Shed);
        assert!(journal.refuses_leased(6, &key("k")));
        journal.on_resumed(6, journal.mark());
        assert_eq!(journal.on_read(6, 1), ReadOrder::Clear);
        assert_eq!(journal.on_read(7, 1), ReadOrder::Shed);
        journal.on_flushed(None, journal.mark());
        assert!(journal.is_empty());
    }
    let flushing = JournalConfig { overflow: Overflow::Flush, ..JournalConfig::default() };
    let mut journal = Journal::restore(flushing, &damaged);
    assert_eq!(behind(journal.on_read(6, 1)).commands, [Command::FlushAll]);
}

#[test]
fn what_is_appended_leads_to_the_same_journal() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut random = Jitter::new(seed);
        let mut draw = move |below: u64| random.bits() % below;
        let config = JournalConfig { file: true, capacity: 6, ..JournalConfig::default() };
        let mut journal = Journal::new(config);
        let mut file = HEADER.to_vec();
        let mut out = Vec::new();
        for _ in 0..60 {
            let database = draw(3) as u32;
            let name = ["a", "b", "h"][draw(3) as usize];
            let item = if draw(3) == 0 { field(name, "f") } else { key(name) };
            match draw(12) {
                0..=3 => {
                    journal.on_undelivered(database, &item);
                }
                4 => journal.on_invalidated(database, &item, journal.mark()),
                5 => out.extend(journal.next_batch(database, draw(2))),
                6 => out.extend(journal.on_save(database, [&item])),
                7 if !out.is_empty() => journal.on_delivered(out.swap_remove(0)),
                8 if !out.is_empty() => journal.on_lost(out.swap_remove(0)),
                9 if draw(4) == 0 => journal.on_undelivered_flush(database),
                10 if draw(8) == 0 => journal.on_undelivered_flush_all(),
                11 if draw(4) == 0 => journal.on_flushed(Some(database), journal.mark()),
                11 => journal.on_resumed(database, journal.mark()),
                _ => {}
            }
            file.extend(journal.take_unwritten());
            let (mut whole, mut appended) = (restored(&journal.whole_file()), restored(&file));
            let overflowed = journal.snapshot().overflowed;
            assert_eq!(appended.snapshot().overflowed, overflowed);
            assert_eq!(whole.snapshot().overflowed, overflowed);
            let (whole, appended) = (owed(&mut whole), owed(&mut appended));
            assert_eq!(appended, whole);
        }
    }
}
