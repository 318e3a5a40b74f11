//! Requirements that need an application with the routes under `/conform`: what a worker makes of
//! an application's requests, responses, streams and errors.

use hedgerow_wire::Capabilities;
use hedgerow_wire::stream::StreamKind;
use serde_json::Value;

use super::client::{Exchange, Plain, Stream};
use super::requirement::{Requirement, Subject, Unmet, expect};

/// The SHA-1 of the 256 byte values in order, and of 4,096 times that.
const SHA1_ALL_BYTES: &str = "4916d6bdb7f78e6803698cab32d1586ea457dfc8";
const SHA1_MEBIBYTE: &str = "ecfc8e86fdd83811f9cc9bf500993b63069923be";

/// What every request frame has beside its body. An application may leave that out of what it
/// shows, since bytes are no JSON; other requirements look at it.
const MEMBERS: [&str; 14] = [
    "id",
    "method",
    "path",
    "scheme",
    "host",
    "port",
    "protocol_version",
    "remote_addr",
    "query",
    "headers",
    "cookies",
    "attributes",
    "server",
    "uploaded_files",
];

pub(super) const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        id: "A-ECHO-1",
        sentence: "A text body reaches the application, and comes back, unchanged.",
        check: |subject| {
            let text = "line\r\n\ttab \"quote\" \\ \u{0} \u{7f} grün 🌿\n".as_bytes();
            echo(subject, text)
        },
    },
    Requirement {
        id: "A-ECHO-2",
        sentence: "A body of every byte value comes back unchanged.",
        check: |subject| echo(subject, &all_bytes()),
    },
    Requirement {
        id: "A-SHA1-1",
        sentence: "The application sees the bytes that were sent, inside the frame or after it.",
        check: |subject| {
            subject.needs_routes()?;
            let bytes = all_bytes();
            let mebibyte = bytes.repeat(4096);
            for (body, digest) in [(&bytes, SHA1_ALL_BYTES), (&mebibyte, SHA1_MEBIBYTE)] {
                for set in [Capabilities::NONE, subject.capabilities()] {
                    let request = Plain::post("/conform/sha1", body);
                    let exchange = ok(subject.connect()?.ask(&request, set)?)?;
                    let seen = String::from_utf8_lossy(&exchange.body).trim().to_owned();
                    expect(seen == digest, || format!("{} bytes became {seen}", body.len()))?;
                }
            }
            Ok(())
        },
    },
    Requirement {
        id: "A-ENVELOPE-1",
        sentence: "The envelope reaches the application complete, as it was sent.",
        check: envelope,
    },
    Requirement {
        id: "A-COOKIES-1",
        sentence: "Two cookies are two, the comma of a date notwithstanding.",
        check: |subject| {
            subject.needs_routes()?;
            let exchange = ok(subject.ask(&Plain::get("/conform/cookies"))?)?;
            let cookies: Vec<&str> = exchange
                .headers
                .iter()
                .filter(|(name, _)| name == "set-cookie")
                .map(|(_, value)| value.as_str())
                .collect();
            let expected = ["a=1; Path=/; Expires=Wed, 21 Oct 2099 07:28:00 GMT", "b=2"];
            expect(cookies == expected, || format!("{cookies:?}"))
        },
    },
    Requirement {
        id: "A-BINARY-1",
        sentence: "A response of every byte value arrives unchanged.",
        check: |subject| {
            subject.needs_routes()?;
            let exchange = ok(subject.ask(&Plain::get("/conform/binary"))?)?;
            same_bytes(&exchange.body, &all_bytes())
        },
    },
    Requirement {
        id: "A-STREAM-1",
        sentence: "A text stream is its start, its pieces in order, and its end.",
        check: |subject| {
            let stream = stream(subject, "/conform/stream/text", StreamKind::Text)?;
            let text: Vec<u8> = stream.chunks.iter().flat_map(|c| c.data.to_vec()).collect();
            same_bytes(&text, b"onetwothree")?;
            expect(stream.error.is_none(), || "it ended with an error".to_owned())
        },
    },
    Requirement {
        id: "A-STREAM-2",
        sentence: "An event stream has three events with id, event and data.",
        check: |subject| {
            let stream = stream(subject, "/conform/stream/sse", StreamKind::Sse)?;
            let complete = stream.chunks.iter().all(|chunk| {
                let fields = chunk.sse.as_ref();
                !chunk.data.is_empty()
                    && fields.is_some_and(|f| f.id.is_some() && f.event.is_some())
            });
            expect(stream.chunks.len() == 3 && complete, || format!("{:?}", stream.chunks))?;
            expect(stream.error.is_none(), || "it ended with an error".to_owned())
        },
    },
    Requirement {
        id: "A-ERROR-1",
        sentence: "An uncaught error is a worker_runtime_error, its message in one line.",
        check: |subject| {
            let (exchange, class) = reported(subject, "/conform/error/runtime")?;
            expect(class == "worker_runtime_error", || format!("the class {class:?}"))?;
            // Looked for in the frame itself: our own reading would have cleaned it up.
            let json: Value = serde_json::from_slice(&exchange.payload).unwrap_or_default();
            let headers = json["headers"].to_string();
            let broken = headers.contains("\\r") || headers.contains("\\n");
            expect(!broken, || "a line end in a header".to_owned())?;
            let smuggled = json["headers"].get("x-evil").is_some();
            expect(!smuggled, || "the message became a header".to_owned())?;
            expect(headers.contains("boom"), || "the message is lost".to_owned())
        },
    },
    Requirement {
        id: "A-ERROR-2",
        sentence: "What is no response is an app_contract_error.",
        check: |subject| {
            let (_, class) = reported(subject, "/conform/error/contract")?;
            expect(class == "app_contract_error", || format!("the class {class:?}"))
        },
    },
    Requirement {
        id: "A-ERROR-3",
        sentence: "An error inside a stream is an error frame after what was sent.",
        check: |subject| {
            let stream = stream(subject, "/conform/error/late", StreamKind::Sse)?;
            expect(stream.chunks.len() == 1, || format!("{} events", stream.chunks.len()))?;
            expect(stream.error.is_some(), || "it ended as if nothing had happened".to_owned())
        },
    },
    Requirement {
        id: "A-NOISE-1",
        sentence: "What the application prints does not reach the answer.",
        check: |subject| {
            subject.needs_routes()?;
            let exchange = ok(subject.ask(&Plain::get("/conform/noise"))?)?;
            same_bytes(&exchange.body, b"quiet")
        },
    },
];

fn all_bytes() -> Vec<u8> {
    (0..=255).collect()
}

fn ok(exchange: Exchange) -> Result<Exchange, Unmet> {
    match &exchange.worker_error {
        Some(error) => Err(Unmet::Failed(format!("it reports {error:?}"))),
        None if exchange.status == 200 => Ok(exchange),
        None => Err(Unmet::Failed(format!("status {}", exchange.status))),
    }
}

fn same_bytes(seen: &[u8], expected: &[u8]) -> Result<(), Unmet> {
    expect(seen == expected, || {
        let at = seen.iter().zip(expected).take_while(|(a, b)| a == b).count();
        format!("{} bytes for {}, different from byte {at} on", seen.len(), expected.len())
    })
}

fn echo(subject: &mut Subject, body: &[u8]) -> Result<(), Unmet> {
    subject.needs_routes()?;
    for set in [Capabilities::NONE, subject.capabilities()] {
        let exchange = ok(subject.connect()?.ask(&Plain::post("/conform/echo", body), set)?)?;
        same_bytes(&exchange.body, body)?;
    }
    Ok(())
}

fn envelope(subject: &mut Subject) -> Result<(), Unmet> {
    subject.needs_routes()?;
    let request = Plain {
        query: "a=1&b=x+y%21&a=2",
        headers: &[
            ("Host", b"localhost"),
            ("X-Repeated", b"one"),
            ("X-Repeated", b"two"),
            ("Cookie", b"session=abc; theme=dark"),
        ],
        ..Plain::get("/conform/envelope")
    };
    let exchange = ok(subject.ask(&request)?)?;
    let json: Value = serde_json::from_slice(&exchange.body)
        .map_err(|error| Unmet::Failed(format!("no JSON: {error}")))?;
    for member in MEMBERS {
        expect(json.get(member).is_some(), || format!("no {member:?}"))?;
    }
    let expected = [
        ("/method", "GET"),
        ("/path", "/conform/envelope"),
        ("/remote_addr", "::1"),
        ("/protocol_version", "1.1"),
        ("/query/a", "2"),
        ("/query/b", "x y!"),
        ("/headers/x-repeated", "one, two"),
        ("/cookies/session", "abc"),
        ("/cookies/theme", "dark"),
        ("/server/url", "/conform/envelope?a=1&b=x+y%21&a=2"),
        ("/attributes/request_id", "conform"),
    ];
    for (pointer, value) in expected {
        let seen = json.pointer(pointer).unwrap_or(&Value::Null);
        expect(seen == value, || format!("{pointer} is {seen}, not {value:?}"))?;
    }
    Ok(())
}

fn stream(subject: &mut Subject, path: &str, kind: StreamKind) -> Result<Stream, Unmet> {
    subject.needs_routes()?;
    let exchange = ok(subject.ask(&Plain::get(path))?)?;
    match exchange.stream {
        Some(stream) if stream.start.kind == kind => Ok(stream),
        Some(_) => Err(Unmet::seen("a stream of the other kind")),
        None => Err(Unmet::seen("no stream")),
    }
}

fn reported(subject: &mut Subject, path: &str) -> Result<(Exchange, String), Unmet> {
    subject.needs_routes()?;
    let exchange = subject.ask(&Plain::get(path))?;
    let Some(error) = &exchange.worker_error else {
        return Err(Unmet::Failed(format!("status {} and no report", exchange.status)));
    };
    expect(exchange.status == 500, || format!("status {}", exchange.status))?;
    let class = error.class.clone();
    Ok((exchange, class))
}
