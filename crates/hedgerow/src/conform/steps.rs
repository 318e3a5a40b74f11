//! Requirements on streams in steps, which a gateway offers where it has `worker.stream_dispatch`.

use hedgerow_wire::dispatch::{Event, Step};
use hedgerow_wire::stream::StreamKind;

use super::client::{Exchange, Plain};
use super::requirement::{Requirement, Subject, Unmet, expect};

pub(super) const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        id: "W-STEP-1",
        sentence: "A stream in steps that it does not take is refused, or answered at once.",
        check: |subject| {
            let exchange = asked(subject, "/conform/nothing-in-steps", Event::Open, b"{}")?;
            let taken = exchange.step.is_some_and(|step| step.handled);
            expect(!taken, || "it takes what it knows nothing of".to_owned())?;
            subject.still_answers()
        },
    },
    Requirement {
        id: "A-STEP-1",
        sentence: "A stream in steps is opened, asked for more with its own state, and done.",
        check: |subject| {
            subject.needs_routes()?;
            let (mut event, mut state, mut seen) = (Event::Open, b"{}".to_vec(), Vec::new());
            for _ in 0..4 {
                let step = step(subject, event, &state)?;
                expect(step.start.kind == StreamKind::Sse, || "no stream of events".to_owned())?;
                seen.extend(step.chunks.iter().flat_map(|chunk| chunk.data.to_vec()));
                if step.done {
                    return expect(seen == b"onetwothree", || {
                        String::from_utf8_lossy(&seen).into_owned()
                    });
                }
                state = step.state.map_or(state, |state| state.to_vec());
                event = Event::Next;
            }
            Err(Unmet::seen("four steps, and it is not done"))
        },
    },
    Requirement {
        id: "A-STEP-2",
        sentence: "A stream in steps that is closed early is answered.",
        check: |subject| {
            subject.needs_routes()?;
            let opened = step(subject, Event::Open, b"{}")?;
            step(subject, Event::Close, &opened.state.unwrap_or_default()).map(drop)
        },
    },
];

fn asked(subject: &Subject, path: &str, event: Event, state: &[u8]) -> Result<Exchange, Unmet> {
    subject.connect()?.step(&Plain::get(path), event, state)
}

fn step(subject: &Subject, event: Event, state: &[u8]) -> Result<Step, Unmet> {
    const NONE: Unmet = Unmet::Skipped("the application makes no stream in steps");
    match asked(subject, "/conform/dispatch", event, state)?.step {
        Some(step) if step.handled || event == Event::Close => Ok(step),
        Some(_) if event == Event::Open => Err(NONE),
        None if event == Event::Open => Err(NONE),
        _ => Err(Unmet::seen("a step that was begun is not handled")),
    }
}
