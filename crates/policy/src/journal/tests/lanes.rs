//! The journal between callers and a store whose connections break at any point: nothing that was
//! invalidated is ever served after the caller was told so, across restarts with a file too.
//!
//! Two databases, a lane each. What is sent waits on the lane; the store carries it out in order,
//! or the connection breaks first; replies come back in order, or are lost with the connection.

use super::*;
use crate::jitter::Jitter;
use std::collections::VecDeque;

enum Sent {
    Batch(Batch),
    Save(Item, u64),
    /// With the version that was the latest when it was sent.
    Purge(Item, Mark, u64),
    Flush(Mark, u64),
    Read {
        item: Item,
        at_least: u64,
        losses: u64,
        got: Option<u64>,
    },
}

#[derive(Default)]
struct Lane {
    connection: u64,
    /// Sent, not carried out.
    waiting: VecDeque<Sent>,
    /// Carried out, not answered; false: with an error that changed nothing.
    answered: VecDeque<(Sent, bool)>,
    /// What the store holds: the version of each item.
    store: BTreeMap<Item, u64>,
    /// Versions up to this were invalidated, and the caller was told.
    purged: BTreeMap<Item, u64>,
}

struct World {
    journal: Journal,
    config: JournalConfig,
    file: Vec<u8>,
    lanes: [Lane; 2],
    connections: u64,
    version: u64,
    served: u64,
}

impl World {
    fn new(config: JournalConfig) -> World {
        let (journal, lanes) = (Journal::new(config), [Lane::default(), Lane::default()]);
        let file = HEADER.to_vec();
        World { journal, config, file, lanes, connections: 0, version: 0, served: 0 }
    }

    /// The caller of an invalidation of `item` (all, if none) that began at `version` is answered.
    fn told(&mut self, database: usize, item: Option<&Item>, version: u64) {
        for known in [key("a"), key("h"), field("h", "f"), field("h", "g")] {
            let covered = item.is_none_or(|it| {
                it.key == known.key && (it.field.is_none() || it.field == known.field)
            });
            if covered {
                let purged = self.lanes[database].purged.entry(known).or_default();
                *purged = version.max(*purged);
            }
        }
    }

    fn read(&mut self, database: usize, item: &Item) {
        let lane = &mut self.lanes[database];
        match self.journal.on_read(database as Database, lane.connection) {
            ReadOrder::Shed => return,
            ReadOrder::Clear => {}
            ReadOrder::Behind(batch) => lane.waiting.push_back(Sent::Batch(batch)),
        }
        let at_least = lane.purged.get(item).copied().unwrap_or(0);
        let losses = self.journal.losses();
        lane.waiting.push_back(Sent::Read { item: item.clone(), at_least, losses, got: None });
    }

    fn save(&mut self, database: usize, item: &Item) {
        let ahead = self.journal.on_save(database as Database, [item]);
        let lane = &mut self.lanes[database];
        lane.waiting.extend(ahead.map(Sent::Batch));
        self.version += 1;
        lane.waiting.push_back(Sent::Save(item.clone(), self.version));
    }

    /// An invalidation: sent, or (circuit open) journalled at once.
    fn purge(&mut self, database: usize, item: &Item, sent: bool) {
        if sent {
            let mark = self.journal.mark();
            self.lanes[database].waiting.push_back(Sent::Purge(item.clone(), mark, self.version));
        } else {
            self.journal.on_undelivered(database as Database, item);
            self.told(database, Some(item), self.version);
        }
    }

    fn flush(&mut self, database: usize, sent: bool) {
        if sent {
            let mark = self.journal.mark();
            self.lanes[database].waiting.push_back(Sent::Flush(mark, self.version));
        } else {
            self.journal.on_undelivered_flush(database as Database);
            self.told(database, None, self.version);
        }
    }

    fn flush_all(&mut self) {
        self.journal.on_undelivered_flush_all();
        (0..2).for_each(|database| self.told(database, None, self.version));
    }

    /// The store carries out the next thing sent, or answers it with an error.
    fn carry_out(&mut self, database: usize, well: bool) {
        let Some(mut sent) = self.lanes[database].waiting.pop_front() else { return };
        let mut flush_all = false;
        let store = &mut self.lanes[database].store;
        match &mut sent {
            _ if !well => {}
            Sent::Save(item, version) => {
                if item.field.is_none() {
                    store.retain(|held, _| held.key != item.key);
                }
                store.insert(item.clone(), *version);
            }
            Sent::Purge(item, ..) => remove_from(store, item),
            Sent::Flush(..) => store.clear(),
            Sent::Read { item, got, .. } => *got = store.get(item).copied(),
            Sent::Batch(batch) => {
                for command in &batch.commands {
                    match command {
                        Command::Remove(item) => remove_from(store, item),
                        Command::Flush => store.clear(),
                        Command::FlushAll => flush_all = true,
                    }
                }
            }
        }
        if flush_all {
            self.lanes.iter_mut().for_each(|lane| lane.store.clear());
        }
        self.lanes[database].answered.push_back((sent, well));
    }

    /// The next answer arrives.
    fn hear(&mut self, database: usize) {
        let Some((sent, well)) = self.lanes[database].answered.pop_front() else { return };
        let number = database as Database;
        match sent {
            Sent::Batch(batch) if well => self.journal.on_delivered(batch),
            Sent::Purge(item, mark, version) if well => {
                self.journal.on_invalidated(number, &item, mark);
                self.told(database, Some(&item), version);
            }
            Sent::Flush(mark, version) if well => {
                self.journal.on_flushed(Some(number), mark);
                self.told(database, None, version);
            }
            Sent::Read { item, at_least, losses, got } => {
                if let Some(version) = got.filter(|_| well && losses == self.journal.losses()) {
                    self.served += 1;
                    assert!(version > at_least, "{item:?}: {version} was purged by {at_least}");
                }
            }
            other => self.unanswered(database, other),
        }
    }

    fn unanswered(&mut self, database: usize, sent: Sent) {
        match sent {
            Sent::Batch(batch) => self.journal.on_lost(batch),
            Sent::Purge(item, ..) => self.purge(database, &item, false),
            Sent::Flush(..) => self.flush(database, false),
            Sent::Save(..) | Sent::Read { .. } => {}
        }
    }

    fn break_connection(&mut self, database: usize) {
        self.connections += 1;
        let lane = &mut self.lanes[database];
        lane.connection = self.connections;
        let answered = lane.answered.drain(..).map(|(sent, _)| sent);
        let lost: Vec<Sent> = answered.chain(lane.waiting.drain(..)).collect();
        lost.into_iter().for_each(|sent| self.unanswered(database, sent));
    }

    /// Somebody removes everything, which is the prefix here, and says so.
    fn resume(&mut self, database: usize) {
        self.break_connection(database);
        let mark = self.journal.mark();
        self.lanes[database].store.clear();
        self.journal.on_resumed(database as Database, mark);
    }

    fn restart(&mut self) {
        (0..2).for_each(|database| self.break_connection(database));
        self.write_down();
        let restored = read_file(&self.file).unwrap();
        self.journal = Journal::restore(self.config, &restored);
        self.file = self.journal.whole_file();
    }

    fn write_down(&mut self) {
        self.file.extend(self.journal.take_unwritten());
    }

    fn step(&mut self, event: u64, pick: u64) {
        let database = (pick & 1) as usize;
        let item = match pick >> 1 & 3 {
            0 => key("a"),
            1 => key("h"),
            2 => field("h", "f"),
            _ => field("h", "g"),
        };
        let chance = pick >> 3;
        match event {
            0..=2 => self.read(database, &item),
            3 | 4 => self.save(database, &item),
            5 if chance & 3 == 0 => self.purge(database, &item, chance & 4 == 0),
            6 | 7 => (0..4).for_each(|n| self.carry_out(database, (chance >> n) & 15 != 0)),
            8 | 9 => (0..4).for_each(|_| self.hear(database)),
            10 if chance & 15 == 0 => self.break_connection(database),
            11 if chance & 7 == 0 => self.flush(database, chance & 8 == 0),
            12 if chance & 31 == 0 => self.flush_all(),
            13 => {
                let lane = &mut self.lanes[database];
                let batch = self.journal.next_batch(database as Database, lane.connection);
                lane.waiting.extend(batch.map(Sent::Batch));
            }
            14 if chance & 15 == 0 => self.restart(),
            15 if chance & 3 == 0 => self.resume(database),
            _ => {}
        }
        self.write_down();
    }
}

fn remove_from(store: &mut BTreeMap<Item, u64>, item: &Item) {
    store.retain(|held, _| {
        held.key != item.key || (item.field.is_some() && held.field != item.field)
    });
}

#[test]
fn case_08_09_10_what_was_invalidated_is_never_served() {
    let mut served = 0;
    for seed in 0..600 {
        println!("seed {seed}");
        let mut random = Jitter::new(seed);
        let config = JournalConfig {
            capacity: 1 + (seed % 7) as usize,
            batch: 1 + (seed % 3) as usize,
            overflow: if seed % 4 == 0 { Overflow::Flush } else { Overflow::StayShed },
            file: true,
            ..JournalConfig::default()
        };
        let mut world = World::new(config);
        for _ in 0..800 {
            world.step(random.bits() % 16, random.bits() >> 16);
        }
        served += world.served;
    }
    assert!(served > 10_000, "the store did serve: {served}");
}

#[test]
fn every_short_sequence_serves_nothing_invalidated() {
    // Nine kinds of event on one key of one database, all sequences of six after a save: half a
    // million.
    for number in 0..9u64.pow(6) {
        let mut world = World::new(JournalConfig { capacity: 1, ..JournalConfig::default() });
        world.save(0, &key("a"));
        world.carry_out(0, true);
        let mut rest = number;
        for _ in 0..6 {
            match rest % 9 {
                0 => world.read(0, &key("a")),
                1 => world.save(0, &key("a")),
                2 => world.purge(0, &key("a"), true),
                3 => world.purge(0, &key("a"), false),
                4 => world.carry_out(0, true),
                5 => world.carry_out(0, false),
                6 => world.hear(0),
                7 => world.break_connection(0),
                _ => world.flush(0, false),
            }
            rest /= 9;
        }
        // And then the rest happens, with a read at the end.
        world.read(0, &key("a"));
        while !world.lanes[0].waiting.is_empty() {
            world.carry_out(0, true);
        }
        while !world.lanes[0].answered.is_empty() {
            world.hear(0);
        }
    }
}
