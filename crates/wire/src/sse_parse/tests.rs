//! Events, however they arrive.

use super::*;

fn read(reads: &[&[u8]]) -> Vec<Message> {
    let (mut decoder, mut buf, mut found) = (Decoder::new(), BytesMut::new(), Vec::new());
    for read in reads {
        buf.extend_from_slice(read);
        while let Some(message) = decoder.decode(&mut buf).unwrap() {
            found.push(message);
        }
    }
    while let Some(message) = decoder.finish(&mut buf).unwrap() {
        found.push(message);
    }
    found
}

fn datas(text: &str) -> Vec<String> {
    let events = read(&[text.as_bytes()]).into_iter().filter_map(|message| match message {
        Message::Event(event) => Some(String::from_utf8(event.data.to_vec()).unwrap()),
        Message::Comment => None,
    });
    events.collect()
}

#[test]
fn any_cut_and_any_line_end_gives_the_same_events() {
    let text = "\u{feff}: hello\nid: 7\nevent: add\nretry: 50\ndata: one\ndata:two\n\n\
                data\n\nevent: none\n\n:\ndata: ä\n\n";
    let whole = read(&[text.as_bytes()]);
    let Message::Event(first) = &whole[1] else { panic!("{whole:?}") };
    assert_eq!((first.id.as_deref(), first.event.as_deref()), (Some("7"), Some("add")));
    assert_eq!((first.retry, &first.data[..]), (Some(50), &b"one\ntwo"[..]));
    assert_eq!(whole.len(), 5, "{whole:?}");
    for end in ["\n", "\r\n", "\r"] {
        let bytes = text.replace('\n', end).into_bytes();
        for cut in 0..bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(read(&[head, tail]), whole, "{end:?} cut at {cut}");
        }
        assert_eq!(read(&bytes.chunks(1).collect::<Vec<_>>()), whole);
    }
}

#[test]
fn the_standards_own_examples() {
    assert_eq!(datas("data: YHOO\ndata: +2\ndata: 10\n\n"), ["YHOO\n+2\n10"]);
    assert_eq!(datas("data\n\ndata\ndata\n\ndata:\n\n"), ["", "\n", ""]);
    assert_eq!(datas("data:test\n\ndata: test\n\n"), ["test", "test"]);
    assert_eq!(datas("data:  two\n\n"), [" two"]);
}

#[test]
fn a_last_event_without_its_empty_line_counts() {
    assert_eq!(datas("data: a\n\ndata: b\n"), ["a", "b"]);
    assert_eq!(datas("data: a\n\ndata: b"), ["a", "b"]);
    assert_eq!(datas("data: a\n\nid: 3"), ["a"]);
}

#[test]
fn fields_that_are_none_are_ignored() {
    let messages = read(&[b"id: a\0b\nretry: 5x\nfoo: bar\nevent:\ndata: x\n\n"]);
    let event = Event { data: Bytes::from_static(b"x"), ..Event::default() };
    assert_eq!(messages, [Message::Event(event)]);
}

#[test]
fn what_is_too_long_is_an_error_whether_in_one_line_or_many() {
    let mut buf = BytesMut::from(&vec![b'd'; MAX_EVENT + 1][..]);
    assert_eq!(Decoder::new().decode(&mut buf), Err(TooLong));
    let line = format!("data: {}\n", "x".repeat(MAX_EVENT / 2));
    let mut buf = BytesMut::from(line.repeat(3).as_bytes());
    assert_eq!(Decoder::new().decode(&mut buf), Err(TooLong));
}

#[test]
fn comments_are_no_pulse() {
    let mut pulse = Pulse::default();
    assert!(!pulse.has_data(b": ping\n\n:"));
    assert!(!pulse.has_data(b" still the comment\r\n"));
    assert!(pulse.has_data(b"data: x"));
    assert!(pulse.has_data(b"more"), "the field goes on");
    assert!(!pulse.has_data(b"\n\n: c\n"));
}
