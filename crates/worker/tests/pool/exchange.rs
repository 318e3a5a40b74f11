//! One request and its answer, in every form and with every fault.

use crate::support::{Fixture, body, job, settings, start};
use bytes::Bytes;
use hedgerow_policy::failure::Phase;
use hedgerow_policy::{Class, Failure};
use hedgerow_worker::settings::Source;
use hedgerow_worker::{Answer, Body, Content, StreamItem};
use std::io::{Seek, Write};
use std::time::Duration;

async fn failure(fixture: &Fixture, target: &str) -> Failure {
    match fixture.ask(target).await {
        Err(failure) => failure,
        Ok(answer) => panic!("{target} was answered: {answer:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_arrive_whole_and_the_connection_is_kept() {
    let f = start(settings(1, 0, &[])).await;
    for _ in 0..3 {
        assert_eq!(body(f.ask("/hello").await.unwrap()).await, b"hello\n");
    }
    let every_byte: Vec<u8> = (0..=255).collect();
    assert_eq!(body(f.ask("/binary").await.unwrap()).await, every_byte);
    assert_eq!(body(f.ask("/binary?as=base64").await.unwrap()).await, every_byte);
    assert_eq!(body(f.ask("/bytes?n=5000000").await.unwrap()).await.len(), 5_000_000);
    let echoed = f.ask_with("/echo", every_byte.clone().into(), Duration::from_secs(20)).await;
    assert_eq!(body(echoed.unwrap()).await, every_byte);
    f.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_reach_old_and_new_workers_alike() {
    let content: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 % 256) as u8).collect();
    let mut sums = Vec::new();
    for flags in [&[][..], &["--no-capabilities"]] {
        let f = start(settings(1, 0, flags)).await;
        let from_memory =
            f.ask_with("/sha1", content.clone().into(), Duration::from_secs(20)).await;
        sums.push(body(from_memory.unwrap()).await);
        if flags.is_empty() {
            let mut file = tempfile();
            file.write_all(&content).unwrap();
            file.rewind().unwrap();
            let deadline = f.within(Duration::from_secs(20));
            let lease = f.pool.acquire(deadline).await.unwrap();
            let spooled = Body::File(file, content.len() as u64);
            let answer = lease.exchange(job("/sha1", spooled, deadline)).await.unwrap();
            sums.push(body(answer).await);
        } else {
            // Twenty megabytes fit no frame, and this worker takes nothing else.
            let large = Bytes::from(vec![b'x'; 20 << 20]);
            let refused = f.ask_with("/sha1", large, Duration::from_secs(20)).await.unwrap_err();
            assert_eq!(refused.class, Class::RequestTooLarge);
            assert_eq!(body(f.ask("/hello").await.unwrap()).await, b"hello\n");
        }
        f.stop().await;
    }
    assert!(sums.windows(2).all(|w| w[0] == w[1]), "{sums:?}");
}

fn tempfile() -> std::fs::File {
    let scratch = hedgerow_testkit::scratch::Scratch::new();
    let path = scratch.file("spool", b"");
    std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_broken_exchange_is_a_transport_error_and_costs_the_worker() {
    let f = start(settings(1, 5, &[])).await;
    let faults = [
        "/fault/close",
        "/fault/half",
        "/fault/zero",
        "/fault/oversize",
        "/fault/notjson",
        "/fault/array",
        "/fault/number",
        "/fault/nostatus",
        "/fault/wrongid",
        "/fault/reset",
        "/fault/exit",
    ];
    for fault in faults {
        let before = f.pids();
        assert_eq!(failure(&f, fault).await.class, Class::TransportError, "{fault}");
        assert_eq!(body(f.ask("/hello").await.unwrap()).await, b"hello\n", "after {fault}");
        assert_ne!(f.pids(), before, "{fault}: the worker was replaced");
    }
    assert_eq!(f.events.count("RestartScheduled"), 0, "no fault backs off");
    assert_eq!(body(f.ask("/fault/exact").await.unwrap()).await.len() >> 20, 15);
    f.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_http_does_not_have_is_the_applications_fault() {
    let f = start(settings(1, 0, &[])).await;
    let before = f.pids();
    for status in ["99", "600", "101", "abc"] {
        let failure = failure(&f, &format!("/fault/badstatus?status={status}")).await;
        assert_eq!(failure.class, Class::AppContractError, "{status}");
    }
    assert_eq!(f.pids(), before, "the worker is not at fault");
    f.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reported_error_is_its_class_and_keeps_the_report() {
    let f = start(settings(1, 0, &[])).await;
    let target = "/error?class=worker_runtime_error&exception=RuntimeException&message=boom";
    let failure = failure(&f, target).await;
    assert_eq!(failure.class, Class::WorkerRuntimeError);
    let report = failure.report.unwrap();
    assert_eq!(report.exception.as_deref(), Some("RuntimeException"));
    assert_eq!(report.message.as_deref(), Some("boom"));
    f.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_worker_times_out_and_is_killed() {
    let mut quick = settings(1, 5, &[]);
    quick.read_timeout = Duration::from_millis(300);
    let f = start(quick).await;
    let before = f.pids();
    let silent = failure(&f, "/hang").await;
    assert_eq!((silent.class, silent.phase), (Class::Timeout, Some(Phase::Read)));
    assert_eq!(body(f.ask("/hello").await.unwrap()).await, b"hello\n");
    assert_ne!(f.pids(), before);
    assert!(f.events.all().iter().any(|e| e.contains("Killed") && e.contains("Timeout")));
    f.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_is_gone_does_not_free_the_worker() {
    let f = start(settings(1, 0, &[])).await;
    let before = f.pids();
    let late = f.ask_with("/sleep?ms=400", Bytes::new(), Duration::from_millis(50)).await;
    assert_eq!(late.unwrap_err().phase, Some(Phase::Request));
    assert_eq!(failure(&f, "/hello").await.class, Class::WorkerPoolExhausted, "still busy");
    let answered = || (f.pool.snapshot().in_flight == 0).then_some(());
    hedgerow_testkit::until::until("the late answer", answered);
    assert_eq!(f.events.count("LateAnswer"), 1);
    assert_eq!(body(f.ask("/hello").await.unwrap()).await, b"hello\n");
    assert_eq!(f.pids(), before, "it answered: it serves on");
    f.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_comes_piece_by_piece_and_ends_as_the_worker_ended_it() {
    let f = start(settings(1, 5, &[])).await;
    for (target, chunks, end) in [
        ("/stream/text?n=3&ms=0", 3, "End"),
        ("/stream/sse?n=4&ms=0", 4, "End"),
        ("/stream/die?after=2", 2, "transport_error"),
        ("/stream/error?after=1", 1, "worker_runtime_error"),
    ] {
        let Answer::Stream(mut stream) = f.ask(target).await.unwrap() else { panic!("{target}") };
        let mut seen = 0;
        let last = loop {
            match stream.items.recv().await {
                Some(StreamItem::Chunk(_)) => seen += 1,
                Some(StreamItem::End) => break "End".to_owned(),
                Some(StreamItem::Failed(failure)) => break failure.class.name().to_owned(),
                None => break "lost".to_owned(),
            }
        };
        assert_eq!((seen, last.as_str()), (chunks, end), "{target}");
    }
    f.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_free_before_a_caller_that_wants_no_body_hears_of_it() {
    for (flags, killed) in [(&[][..], 0), (&["--no-capabilities"], 1)] {
        let mut quick = settings(1, 0, flags);
        quick.read_timeout = Duration::from_millis(400);
        let f = start(quick).await;
        f.ask("/hello").await.unwrap();
        for target in ["/bytes?n=200000", "/stream/text?n=3&ms=5", "/bytes?n=3000000", "/hello"] {
            for _ in 0..5 {
                f.head(target).await.unwrap_or_else(|e| panic!("{flags:?} {target}: {e}"));
            }
        }
        let Answer::Response(long) = f.head("/bytes?n=200000").await.unwrap() else { panic!() };
        assert!(matches!(long.content, Content::Full(none) if none.is_empty()));
        assert_eq!(long.head.declared_length, Some(200_000));
        // One that never ends is told so, or comes to its end by the read timeout.
        assert!(matches!(f.head("/stream/endless?ms=5").await.unwrap(), Answer::Stream(_)));
        assert_eq!(f.pool.snapshot().in_flight, 0);
        assert_eq!(f.events.count("WorkerKilled"), killed, "{flags:?}");
        f.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_falls_silent_is_said_to_have() {
    let mut quick = settings(1, 0, &[]);
    quick.stream_idle_timeout = Duration::from_millis(100);
    let f = start(quick).await;
    let Answer::Stream(mut stream) = f.ask("/stream/text?n=3&ms=5000").await.unwrap() else {
        panic!("no stream")
    };
    let failure = loop {
        match stream.items.recv().await {
            Some(StreamItem::Chunk(_)) => {}
            Some(StreamItem::Failed(failure)) => break failure,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((failure.class, failure.phase), (Class::Timeout, Some(Phase::Read)));
    assert!(failure.message.contains("the stream idle timeout"), "{failure}");
    f.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_a_stream_tells_a_worker_that_understands_and_kills_one_that_does_not() {
    for (flags, killed) in [(&[][..], 0), (&["--no-capabilities"], 1)] {
        let mut quick = settings(1, 5, flags);
        quick.read_timeout = Duration::from_millis(400);
        let f = start(quick).await;
        let Answer::Stream(mut stream) = f.ask("/stream/endless?ms=5").await.unwrap() else {
            panic!("no stream")
        };
        assert!(matches!(stream.items.recv().await, Some(StreamItem::Chunk(_))));
        drop(stream);
        assert_eq!(body(f.ask("/hello").await.unwrap()).await, b"hello\n");
        assert_eq!(f.events.count("WorkerKilled"), killed, "{flags:?}");
        f.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_socket_is_a_transport_error_and_the_worker_rests() {
    let mut external = settings(1, 0, &[]);
    external.source = Source::Sockets(vec!["/nonexistent/worker.sock".into()]);
    external.pool.supervised = false;
    let f = start(external).await;
    assert_eq!(failure(&f, "/hello").await.class, Class::TransportError);
    assert_eq!(failure(&f, "/hello").await.class, Class::WorkerPoolExhausted);
    f.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_are_handed_over_and_free_the_worker() {
    let f = start(settings(1, 0, &[])).await;
    assert!(matches!(f.ask("/plan").await, Ok(Answer::Plan(_))));
    assert!(matches!(f.ask("/batch").await, Ok(Answer::Batch(_))));
    assert_eq!(body(f.ask("/hello").await.unwrap()).await, b"hello\n");
    f.stop().await;
}
