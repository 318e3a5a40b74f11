use super::*;
use crate::record::tests::Kept;
use std::sync::mpsc;

const LIMIT: usize = 1 << 20;

/// A target whose every write waits for a word, and obeys it.
struct Told {
    kept: Kept,
    orders: mpsc::Receiver<Order>,
    asked: mpsc::Sender<()>,
}

enum Order {
    Write(usize),
    Fail(ErrorKind),
}

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = self.asked.send(());
        match self.orders.recv() {
            Ok(Order::Write(most)) => self.kept.write(&bytes[..most.min(bytes.len())]),
            Ok(Order::Fail(kind)) => Err(kind.into()),
            Err(_) => self.kept.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Stage {
    sink: Sink,
    kept: Kept,
    orders: mpsc::Sender<Order>,
    asked: mpsc::Receiver<()>,
}

fn stage(limit: usize, report: Option<Report>) -> Stage {
    let kept = Kept::default();
    let (orders, of_target) = mpsc::channel();
    let (asks, asked) = mpsc::channel();
    let target = Told { kept: kept.clone(), orders: of_target, asked: asks };
    let sink = Sink::start("test", Box::new(target), limit, report).expect("a thread");
    Stage { sink, kept, orders, asked }
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn lines_keep_their_order() {
    let kept = Kept::default();
    let sink = Sink::start("test", Box::new(kept.clone()), LIMIT, None).expect("a thread");
    let expected: String = (0..1_000).map(|n| format!("{n}\n")).collect();
    for n in 0..1_000 {
        assert!(sink.push(format!("{n}\n").as_bytes()));
    }
    sink.close(LONG);
    assert_eq!(kept.text(), expected);
    assert!(sink.push(b"late\n"), "a line after the end is ignored, not counted");
    assert_eq!(sink.dropped(), 0);
}

#[test]
fn what_has_no_room_is_dropped_counted_and_told() {
    let stage = stage(10, Some(|out, count| out.extend(format!("dropped {count}\n").bytes())));
    assert!(stage.sink.push(b"first\n"));
    // The writer now stands in its first write, and the buffer is empty.
    stage.asked.recv().expect("the writer asks");
    assert!(stage.sink.push(b"123456789\n"));
    assert!(!stage.sink.push(b"no\n"));
    assert!(!stage.sink.push(b"room\n"));
    drop(stage.orders);
    stage.sink.close(LONG);
    assert_eq!(stage.kept.text(), "first\n123456789\ndropped 2\n");
    assert_eq!(stage.sink.dropped(), 2);
}

#[test]
fn nobody_waits_for_a_target_that_stands_still() {
    let stage = stage(LIMIT, None);
    stage.sink.push(b"first\n");
    stage.asked.recv().expect("the writer asks");
    for _ in 0..1_000 {
        assert!(stage.sink.push(b"more\n"));
    }
    // The target still stands: closing gives up.
    stage.sink.close(Duration::from_millis(1));
    assert_eq!(stage.kept.text(), "");
}

#[test]
fn short_and_interrupted_writes_lose_nothing() {
    let stage = stage(LIMIT, None);
    for order in [Order::Write(1), Order::Fail(ErrorKind::Interrupted), Order::Write(3)] {
        stage.orders.send(order).expect("the writer listens");
    }
    stage.sink.push(b"one two three\n");
    drop(stage.orders);
    stage.sink.close(LONG);
    assert_eq!(stage.kept.text(), "one two three\n");
}

#[test]
fn a_broken_pipe_ends_the_writing_and_nothing_else() {
    let stage = stage(LIMIT, None);
    stage.orders.send(Order::Fail(ErrorKind::BrokenPipe)).expect("the writer listens");
    stage.sink.push(b"first\n");
    stage.sink.close(LONG);
    assert!(stage.sink.push(b"second\n"));
    assert_eq!((stage.kept.text(), stage.sink.dropped()), (String::new(), 0));
}

#[test]
fn a_torn_line_is_whole_in_the_next_file() {
    let stage = stage(LIMIT, None);
    stage.sink.push(b"one\ntwo\nthree\n");
    stage.asked.recv().expect("the writer asks");
    stage.orders.send(Order::Write(6)).expect("the writer listens");
    stage.asked.recv().expect("the writer asks for the rest");
    let next = Kept::default();
    stage.sink.replace(Box::new(next.clone()));
    stage.orders.send(Order::Fail(ErrorKind::StorageFull)).expect("the writer listens");
    stage.sink.push(b"four\n");
    stage.sink.close(LONG);
    assert_eq!(stage.kept.text(), "one\ntw");
    assert_eq!(next.text(), "two\nthree\nfour\n");
    assert_eq!(stage.sink.failures(), 1);
}

#[test]
fn a_missing_folder_is_named() {
    let error = open(Path::new("/nowhere/at/all.log")).expect_err("no such folder");
    assert!(error.to_string().contains("/nowhere/at/all.log"), "{error}");
}
