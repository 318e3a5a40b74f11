//! Requirements on a worker whatever its application: readiness, frames, connections, its end.

use std::time::Duration;

use hedgerow_wire::Capabilities;
use hedgerow_wire::frame::MAX_FRAME;

use super::client::{Client, ID, Plain};
use super::requirement::{Requirement, Subject, Unmet, expect};

pub(super) const READINESS: &[Requirement] = &[
    Requirement {
        id: "W-READY-1",
        sentence: "When it says that it is ready, its socket accepts.",
        check: |subject| subject.connect().map(drop),
    },
    Requirement {
        id: "W-READY-2",
        sentence: "The readiness line is a JSON object with a boolean \"ready\".",
        check: |subject| match subject.process().ready() {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(Unmet::Failed(error.clone())),
            None => Err(Unmet::Skipped("it writes no readiness line")),
        },
    },
];

pub(super) const FRAMES: &[Requirement] = &[
    Requirement {
        id: "W-FRAME-1",
        sentence: "A request frame is answered with frames that parse, and a valid status.",
        check: Subject::still_answers_plainly,
    },
    Requirement {
        id: "W-FRAME-2",
        sentence: "The answer echoes the id of the request.",
        check: |subject| {
            let exchange = subject.ask(&Plain::get("/"))?;
            let json: serde_json::Value =
                serde_json::from_slice(&exchange.payload).unwrap_or_default();
            expect(json["id"] == ID, || format!("\"id\" is {}", json["id"]))
        },
    },
    Requirement {
        id: "W-FRAME-3",
        sentence: "A frame that arrives byte by byte is read like any other.",
        check: |subject| {
            let (out, _) = Plain::get("/").encode(Capabilities::NONE)?;
            let mut client = subject.connect()?;
            for byte in out.chunks(1) {
                client.write(byte)?;
            }
            client.answer().map(drop)
        },
    },
    Requirement {
        id: "W-FRAME-4",
        sentence: "Members that it does not know are ignored.",
        check: |subject| {
            let (out, _) = Plain::get("/").encode(Capabilities::NONE)?;
            let extended = extend(&out, b"\"x_future\":{\"a\":[1,null]},");
            let mut client = subject.connect()?;
            client.write(&extended)?;
            client.answer().map(drop)
        },
    },
    Requirement {
        id: "W-FRAME-5",
        sentence: "Half a frame and a close do not end the worker.",
        check: |subject| {
            let (out, _) = Plain::get("/").encode(Capabilities::NONE)?;
            subject.connect()?.write(&out[..out.len() / 2])?;
            subject.still_answers()?;
            subject.connect()?.write(&out[..2])?;
            subject.still_answers()
        },
    },
    Requirement {
        id: "W-FRAME-6",
        sentence: "A length over 16 MiB closes that connection, and nothing else.",
        check: |subject| closes_after(subject, &(MAX_FRAME as u32 + 1).to_be_bytes()),
    },
    Requirement {
        id: "W-FRAME-7",
        sentence: "A length of 0 closes that connection, and nothing else.",
        check: |subject| closes_after(subject, &[0; 4]),
    },
    Requirement {
        id: "W-FRAME-8",
        sentence: "A frame that is not JSON closes that connection, and nothing else.",
        check: |subject| closes_after(subject, b"\0\0\0\x08not json"),
    },
];

pub(super) const LIFETIME: &[Requirement] = &[
    Requirement {
        id: "W-KEEP-1",
        sentence: "With keep_alive it reads a second request on the connection.",
        check: |subject| {
            let mut client = kept(subject)?;
            client.ask(&Plain::get("/"), subject.capabilities()).map(drop)
        },
    },
    Requirement {
        id: "W-KEEP-2",
        sentence: "Without keep_alive it closes the connection after the answer.",
        check: |subject| {
            if subject.capabilities().keep_alive {
                return Err(Unmet::Skipped("it announces keep_alive"));
            }
            let mut client = subject.connect()?;
            client.ask(&Plain::get("/"), subject.capabilities())?;
            client.closes()
        },
    },
    Requirement {
        id: "W-KEEP-3",
        sentence: "A new connection is served while a kept one idles.",
        check: |subject| {
            let _idle = kept(subject)?;
            subject.still_answers()
        },
    },
    Requirement {
        id: "W-LIFE-1",
        sentence: "A gateway that closes before the answer does not end the worker.",
        check: |subject| {
            for _ in 0..3 {
                let mut client = subject.connect()?;
                let _ = client.send(&Plain::get("/"), subject.capabilities())?;
                drop(client);
            }
            subject.still_answers()
        },
    },
    Requirement {
        id: "W-LIFE-2",
        sentence: "A gateway that closes inside a raw body does not end the worker.",
        check: |subject| {
            needs_raw_body(subject)?;
            let body = vec![b'x'; 100_000];
            let (out, _) = Plain::post("/", &body).encode(subject.capabilities())?;
            let mut client = subject.connect()?;
            client.write(&out)?;
            client.write(&body[..1000])?;
            client.finish_writing();
            drop(client);
            subject.still_answers()
        },
    },
];

/// These end the process, and are the last.
pub(super) const STOP: &[Requirement] = &[
    Requirement {
        id: "W-STOP-1",
        sentence: "SIGTERM ends it within 2 s, an idle connection or not.",
        check: |subject| {
            let idle = match kept(subject) {
                Err(Unmet::Skipped(_)) => None,
                client => Some(client?),
            };
            let ended = subject.process().terminate(Duration::from_secs(2));
            drop(idle);
            subject.restart().map_err(Unmet::Failed)?;
            expect(ended, || "it is still there".to_owned())
        },
    },
    Requirement {
        id: "W-STOP-2",
        sentence: "A new process takes over the socket that an old one left behind.",
        check: |subject| {
            subject.restart().map_err(Unmet::Failed)?;
            subject.still_answers()
        },
    },
];

impl Subject {
    fn still_answers_plainly(&mut self) -> Result<(), Unmet> {
        let mut client = self.connect()?;
        client.ask(&Plain::get("/"), Capabilities::NONE).map(drop)
    }
}

/// A connection that has served one request and is kept.
fn kept(subject: &Subject) -> Result<Client, Unmet> {
    if !subject.capabilities().keep_alive {
        return Err(Unmet::Skipped("it does not announce keep_alive"));
    }
    let mut client = subject.connect()?;
    client.ask(&Plain::get("/"), subject.capabilities())?;
    Ok(client)
}

pub(super) fn needs_raw_body(subject: &Subject) -> Result<(), Unmet> {
    if subject.capabilities().raw_body {
        Ok(())
    } else {
        Err(Unmet::Skipped("it does not announce raw_body"))
    }
}

fn closes_after(subject: &Subject, bytes: &[u8]) -> Result<(), Unmet> {
    let mut client = subject.connect()?;
    client.write(bytes)?;
    client.closes()?;
    subject.still_answers()
}

/// The same frame with more members in front.
fn extend(frame: &[u8], members: &[u8]) -> Vec<u8> {
    let payload = [b"{", members, &frame[5..]].concat();
    [&(payload.len() as u32).to_be_bytes()[..], &payload].concat()
}
