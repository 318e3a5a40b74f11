//! Requirements on how a worker takes request bodies, whatever its application does with them.

use hedgerow_wire::Capabilities;
use hedgerow_wire::request::Sent;

use super::client::Plain;
use super::connections::needs_raw_body;
use super::requirement::{Requirement, Unmet, expect};

/// More than fits inside a frame of a worker that takes raw bodies.
const LONG: usize = 100_000;

pub(super) const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        id: "W-BODY-1",
        sentence: "A request with an empty body is answered.",
        check: |subject| subject.ask(&Plain::post("/", b"")).map(drop),
    },
    Requirement {
        id: "W-BODY-2",
        sentence: "A body that travels as base64 inside the frame is taken.",
        check: |subject| {
            let mut client = subject.connect()?;
            client.ask(&Plain::post("/", &[0, 159, 146, 150]), Capabilities::NONE).map(drop)
        },
    },
    Requirement {
        id: "W-BODY-3",
        sentence: "A text body of 1 MiB inside the frame is taken.",
        check: |subject| {
            let body = vec![b'"'; 1 << 20];
            let mut client = subject.connect()?;
            client.ask(&Plain::post("/", &body), Capabilities::NONE).map(drop)
        },
    },
    Requirement {
        id: "W-BODY-4",
        sentence: "With raw_body, a body that follows its frame is read to its end.",
        check: |subject| {
            needs_raw_body(subject)?;
            let body: Vec<u8> = (0..=255).cycle().take(LONG).collect();
            let mut client = subject.connect()?;
            let sent = client.send(&Plain::post("/", &body), subject.capabilities())?;
            expect(sent == Sent::RawFollows(LONG as u64), || "it did not travel raw".to_owned())?;
            client.answer()?;
            if !subject.capabilities().keep_alive {
                return client.closes();
            }
            // What was left unread would now be taken for a frame.
            client.ask(&Plain::get("/"), subject.capabilities()).map(drop).map_err(|unmet| {
                let Unmet::Failed(seen) = unmet else { return unmet };
                Unmet::Failed(format!("the next request on the connection: {seen}"))
            })
        },
    },
];
