//! The cases of the guarded cache that the journal decides, each by its number; `lanes` plays it
//! against stores that break connections, `file` its format.

mod file;
mod lanes;

use super::*;

fn journal(capacity: usize, overflow: Overflow) -> Journal {
    Journal::new(JournalConfig { capacity, overflow, batch: capacity, ..JournalConfig::default() })
}

fn roomy() -> Journal {
    journal(1_000, Overflow::StayShed)
}

fn key(name: &str) -> Item {
    Item::key(name.as_bytes())
}

fn field(name: &str, field: &str) -> Item {
    Item::field(name.as_bytes(), field.as_bytes())
}

fn owe(journal: &mut Journal, database: Database, names: &[&str]) {
    for name in names {
        journal.on_undelivered(database, &key(name));
    }
}

fn behind(order: ReadOrder) -> Batch {
    match order {
        ReadOrder::Behind(batch) => batch,
        other => panic!("a replay is due, but {other:?}"),
    }
}

fn remove(item: Item) -> Command {
    Command::Remove(item)
}

#[test]
fn case_08_a_purge_that_was_lost_is_replayed_before_the_first_read() {
    let mut journal = roomy();
    assert_eq!(journal.on_read(0, 7), ReadOrder::Clear);
    assert_eq!(journal.on_undelivered(0, &key("v")), Noted::Kept);
    let batch = behind(journal.on_read(0, 7));
    assert_eq!(batch.commands, [remove(key("v"))]);
    // Behind it on the same connection; another connection knows nothing of that order.
    assert_eq!(journal.on_read(0, 7), ReadOrder::Clear);
    let again = behind(journal.on_read(0, 8));
    assert_eq!(again.commands, batch.commands);
    assert_eq!(journal.on_read(3, 1), ReadOrder::Clear, "another database owes nothing");
    journal.on_delivered(again);
    assert!(journal.is_empty());
    journal.on_delivered(batch);
    assert_eq!(journal.on_read(0, 9), ReadOrder::Clear);
}

#[test]
fn case_08_what_is_lost_is_sent_again_and_in_order() {
    let mut journal = roomy();
    let names = ["c", "a", "b"];
    owe(&mut journal, 0, &names);
    let batch = behind(journal.on_read(0, 1));
    assert_eq!(batch.commands, names.map(|name| remove(key(name))));
    let losses = journal.losses();
    journal.on_lost(batch);
    assert_ne!(journal.losses(), losses, "reads behind it are not to be answered");
    // Journalled again meanwhile: it moves to the end, and the receipt of before does not cover it.
    let batch = behind(journal.on_read(0, 1));
    journal.on_undelivered(0, &key("a"));
    journal.on_delivered(batch);
    assert_eq!(behind(journal.on_read(0, 1)).commands, [remove(key("a"))]);
}

#[test]
fn case_09_overflow_sheds_the_reads_of_that_database_until_it_is_resumed() {
    let mut journal = journal(1_000, Overflow::StayShed);
    for n in 0..1_000 {
        assert_eq!(journal.on_undelivered(0, &key(&format!("k{n}"))), Noted::Kept);
    }
    assert_eq!(journal.on_undelivered(0, &key("k7")), Noted::Kept, "it is there already");
    assert_eq!(journal.on_undelivered(0, &key("one too many")), Noted::Overflowed);
    assert_eq!(journal.snapshot().depth, 1_000);
    assert_eq!(journal.snapshot().overflowed, [0]);
    assert_eq!(journal.on_read(0, 1), ReadOrder::Shed);
    assert_eq!(journal.on_read(1, 1), ReadOrder::Clear, "only that database");
    // Delivering what is known does not bring back what was lost.
    let batch = journal.next_batch(0, 1).unwrap();
    assert_eq!(batch.commands.len(), 1_000);
    journal.on_delivered(batch);
    assert_eq!(journal.on_read(0, 1), ReadOrder::Shed);
    // Nor does a removal that was begun before something more was lost.
    let mark = journal.mark();
    for n in 0..1_001 {
        journal.on_undelivered(0, &key(&format!("m{n}")));
    }
    journal.on_resumed(0, mark);
    assert_eq!(journal.on_read(0, 1), ReadOrder::Shed);
    journal.on_resumed(0, journal.mark());
    assert_eq!(behind(journal.on_read(0, 1)).commands.len(), 1_000);
}

#[test]
fn case_09_a_flush_ends_an_overflow_too() {
    for lost in [false, true] {
        let mut journal = journal(1, Overflow::StayShed);
        owe(&mut journal, 4, &["a", "b"]);
        assert_eq!(journal.on_read(4, 1), ReadOrder::Shed);
        if lost {
            journal.on_undelivered_flush(4);
            assert_eq!(behind(journal.on_read(4, 1)).commands, [Command::Flush]);
        } else {
            journal.on_flushed(Some(4), journal.mark());
            assert!(journal.is_empty());
        }
    }
}

#[test]
fn case_09_or_the_overflow_flushes_by_itself() {
    let mut journal = journal(2, Overflow::Flush);
    ["a", "b", "c"]
        .iter()
        .for_each(|n| assert_eq!(journal.on_undelivered(0, &key(n)), Noted::Kept));
    assert_eq!(journal.snapshot().depth, 1, "the flush covers them all");
    assert_eq!(behind(journal.on_read(0, 1)).commands, [Command::Flush]);
}

#[test]
fn bytes_are_bounded_as_well() {
    let config = JournalConfig { max_bytes: 10, ..JournalConfig::default() };
    let mut journal = Journal::new(config);
    assert_eq!(journal.on_undelivered(0, &key("12345678")), Noted::Kept);
    assert_eq!(journal.on_undelivered(0, &field("1", "23")), Noted::Overflowed);
    assert_eq!(journal.snapshot().bytes, 8);
}

#[test]
fn case_10_a_flush_is_one_entry_and_covers_what_was_before() {
    let mut journal = roomy();
    owe(&mut journal, 0, &["a", "b"]);
    journal.on_undelivered_flush(0);
    journal.on_undelivered(0, &key("c"));
    assert_eq!(journal.snapshot().depth, 1);
    let batch = behind(journal.on_read(0, 1));
    assert_eq!(batch.commands, [Command::Flush]);
    // Once it has been sent it may have been carried out: what comes now is owed by itself.
    journal.on_undelivered(0, &key("c"));
    journal.on_delivered(batch);
    assert_eq!(behind(journal.on_read(0, 1)).commands, [remove(key("c"))]);
}

#[test]
fn case_10_a_flush_of_all_goes_ahead_of_the_reads_of_every_lane() {
    let mut journal = roomy();
    journal.on_undelivered(2, &key("a"));
    journal.on_undelivered_flush_all();
    journal.on_undelivered(5, &key("b"));
    assert_eq!(journal.snapshot().depth, 1);
    let (zero, five) = (behind(journal.on_read(0, 1)), behind(journal.on_read(5, 9)));
    assert_eq!(
        (&zero.commands, &five.commands),
        (&vec![Command::FlushAll], &vec![Command::FlushAll])
    );
    assert_eq!(journal.on_read(0, 1), ReadOrder::Clear);
    journal.on_delivered(five);
    assert!(journal.is_empty(), "one that was carried out is enough");
    journal.on_delivered(zero);
    assert_eq!(journal.on_read(0, 2), ReadOrder::Clear);
}

#[test]
fn case_11_a_leased_save_is_refused_only_where_something_is_owed() {
    let mut journal = roomy();
    assert!(!journal.refuses_leased(0, &key("k")), "purged once in its life, and delivered");
    journal.on_undelivered(0, &key("k"));
    assert!(journal.refuses_leased(0, &key("k")) && journal.refuses_leased(0, &field("k", "f")));
    assert!(!journal.refuses_leased(0, &key("other")) && !journal.refuses_leased(1, &key("k")));
    journal.on_undelivered_flush(1);
    assert!(journal.refuses_leased(1, &key("any")));
    let mut full = journal_that_overflowed();
    assert!(full.refuses_leased(0, &key("lost count")));
    full.on_undelivered_flush_all();
    assert!(full.refuses_leased(9, &key("any")));
}

fn journal_that_overflowed() -> Journal {
    let mut journal = journal(1, Overflow::StayShed);
    owe(&mut journal, 0, &["a", "b"]);
    journal
}

#[test]
fn a_plain_save_goes_behind_the_removal_and_takes_it_out_of_the_journal() {
    let mut journal = roomy();
    assert_eq!(journal.on_save(0, [&key("k")]), None);
    owe(&mut journal, 0, &["k", "l"]);
    assert_eq!(journal.on_save(0, [&key("new")]), None);
    let ahead = journal.on_save(0, [&key("k"), &key("new")]).unwrap();
    assert_eq!(ahead.commands, [remove(key("k"))]);
    journal.on_lost(ahead);
    assert_eq!(journal.snapshot().depth, 2, "it did not land");
    let ahead = journal.on_save(0, [&key("k")]).unwrap();
    journal.on_delivered(ahead);
    assert_eq!(behind(journal.on_read(0, 1)).commands, [remove(key("l"))]);
}

#[test]
fn a_save_behind_a_flush_delivers_it() {
    let mut journal = roomy();
    journal.on_undelivered_flush(0);
    let ahead = journal.on_save(0, [&key("k")]).unwrap();
    assert_eq!(ahead.commands, [Command::Flush]);
    // A purge of what was saved, lost as well, is not covered by that flush.
    journal.on_undelivered(0, &key("k"));
    journal.on_delivered(ahead);
    assert_eq!(behind(journal.on_read(0, 1)).commands, [remove(key("k"))]);
}

#[test]
fn a_save_into_a_database_that_lost_count_removes_first() {
    let mut journal = journal_that_overflowed();
    let ahead = journal.on_save(0, [&key("a"), &key("c")]).unwrap();
    assert_eq!(ahead.commands, [remove(key("a")), remove(key("c"))]);
    journal.on_delivered(ahead);
    assert_eq!(journal.on_read(0, 1), ReadOrder::Shed, "the others are lost still");
}

#[test]
fn fields_and_their_keys_cover_each_other() {
    let mut journal = roomy();
    for name in ["f", "g"] {
        journal.on_undelivered(0, &field("h", name));
    }
    assert_eq!(journal.snapshot().depth, 2);
    assert_eq!(journal.on_save(0, [&field("h", "other")]), None);
    let one = journal.on_save(0, [&field("h", "f")]).unwrap();
    assert_eq!(one.commands, [remove(field("h", "f"))]);
    let whole = journal.on_save(0, [&key("h")]).unwrap();
    assert_eq!(whole.commands, [remove(key("h"))]);
    journal.on_undelivered(0, &key("h"));
    assert_eq!(journal.snapshot().depth, 1, "the whole key covers its fields");
    journal.on_undelivered(0, &field("h", "f"));
    assert_eq!(behind(journal.on_read(0, 1)).commands, [remove(key("h"))]);
    // The receipts of before are for fields that are no longer owed as such.
    journal.on_delivered(one);
    journal.on_delivered(whole);
    assert_eq!(journal.snapshot().depth, 1);
}

#[test]
fn an_invalidation_that_lands_makes_an_older_entry_moot_but_no_newer() {
    let mut journal = roomy();
    journal.on_undelivered(0, &key("k"));
    let mark = journal.mark();
    journal.on_undelivered(0, &key("l"));
    ["k", "l"].iter().for_each(|name| journal.on_invalidated(0, &key(name), mark));
    assert_eq!(behind(journal.on_read(0, 1)).commands, [remove(key("l"))]);
    let mark = journal.mark();
    journal.on_undelivered(0, &key("m"));
    journal.on_flushed(None, mark);
    assert_eq!(behind(journal.on_read(0, 2)).commands, [remove(key("m"))]);
}

#[test]
fn more_than_one_replay_lets_no_read_through_until_it_is_sent() {
    let config = JournalConfig { batch: 10, ..JournalConfig::default() };
    let mut journal = Journal::new(config);
    for n in 0..25 {
        journal.on_undelivered(0, &key(&format!("k{n}")));
    }
    let mut sizes = Vec::new();
    while journal.on_read(0, 1) == ReadOrder::Shed {
        let batch = journal.next_batch(0, 1).expect("there is more to send");
        sizes.push(batch.commands.len());
        journal.on_delivered(batch);
    }
    assert_eq!(sizes, [10, 10], "the last five go ahead of the read");
    assert_eq!(journal.snapshot().depth, 5);
}
