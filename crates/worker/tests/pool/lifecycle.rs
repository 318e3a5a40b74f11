//! Starts, ends, replacements and reloads of real processes.

use crate::support::{body, job, settings, start};
use bytes::Bytes;
use hedgerow_policy::Class;
use hedgerow_policy::pool::SlotPhase;
use hedgerow_testkit::processes::{alive, children};
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use hedgerow_worker::{Body, PoolError};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

fn kill(pid: u32, signal: &str) {
    let status = std::process::Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(status.expect("kill runs").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_while_idle_is_replaced_without_a_request() {
    let f = start(settings(1, 0, &[])).await;
    let old = f.pids()[0];
    kill(old, "-9");
    let new = until("a new worker", || f.pids().first().copied().filter(|p| *p != old));
    assert!(alive(new));
    f.events.wait("WorkerReady", 2);
    assert_eq!(body(f.ask("/hello").await.unwrap()).await, b"hello\n");
    f.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_uploads_of_a_killed_worker_go_and_what_a_link_leads_to_stays() {
    let scratch = Scratch::new();
    let kept = scratch.file("kept", b"mine");
    let mut named = settings(2, 0, &[]);
    if let hedgerow_worker::settings::Source::Supervised(launch) = &mut named.source {
        launch.socket_dir = Some(scratch.path().to_owned());
    }
    let f = start(named).await;
    f.events.wait("WorkerReady", 2);
    let workers = f.pool.snapshot().workers;
    let uploads: Vec<PathBuf> =
        workers.iter().map(|w| PathBuf::from(format!("{}.uploads", w.socket.display()))).collect();
    std::fs::create_dir(&uploads[0]).unwrap();
    std::fs::write(uploads[0].join("hedgerow-upload-1"), b"left").unwrap();
    std::os::unix::fs::symlink(&kept, uploads[0].join("link")).unwrap();
    std::os::unix::fs::symlink(scratch.path(), &uploads[1]).unwrap();
    for pid in f.pids() {
        kill(pid, "-9");
    }
    f.events.wait("WorkerReady", 4);
    f.stop().await;
    assert!(!uploads[0].exists(), "the folder is gone with its worker");
    assert!(uploads[1].is_symlink(), "a link is not the folder of a worker");
    assert_eq!(std::fs::read(kept).unwrap(), b"mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_waits_for_the_request_and_leaves_nothing_behind() {
    let f = start(settings(2, 0, &["--fork-child"])).await;
    f.events.wait("WorkerReady", 2);
    let workers = f.pids();
    let grandchildren: Vec<u32> = workers.iter().flat_map(|w| children(*w)).collect();
    assert_eq!(grandchildren.len(), 2);
    let directory = f.pool.snapshot().workers[0].socket.parent().unwrap().to_owned();
    let (pool, clock) = (f.pool.clone(), f.clock);
    let f = Arc::new(f);
    let asking = f.clone();
    let request = tokio::spawn(async move { asking.ask("/sleep?ms=300").await });
    until("the request is with a worker", || (f.pool.snapshot().in_flight == 1).then_some(()));
    pool.stop(clock.now() + Duration::from_secs(10)).await;
    assert!(!body(request.await.unwrap().unwrap()).await.is_empty());
    for pid in workers.into_iter().chain(grandchildren) {
        until("the process is gone", || (!alive(pid)).then_some(()));
    }
    until("the directory is gone", || (!directory.exists()).then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn past_the_bound_stopping_kills() {
    let f = start(settings(1, 0, &[])).await;
    let pid = f.pids()[0];
    let f = Arc::new(f);
    let asking = f.clone();
    let request = tokio::spawn(async move { asking.ask("/hang").await });
    until("the request is with a worker", || (f.pool.snapshot().in_flight == 1).then_some(()));
    f.pool.stop(f.clock.now() + Duration::from_millis(50)).await;
    assert!(!alive(pid));
    assert_eq!(request.await.unwrap().unwrap_err().class, Class::TransportError);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_that_fails_says_why_and_is_tried_again() {
    let scratch = Scratch::new();
    let broken = scratch.file("broken", b"");
    let flag = broken.display().to_string();
    let f = start(settings(1, 5, &["--boot-fail-file", &flag])).await;
    for _ in 0..2 {
        let failure = f.ask("/hello").await.unwrap_err();
        assert_eq!(failure.class, Class::WorkerRuntimeError, "{failure}");
    }
    f.events.wait("RestartScheduled", 2);
    std::fs::remove_file(&broken).unwrap();
    until("it boots at last", || f.pool.ready().then_some(()));
    assert_eq!(body(f.ask("/hello").await.unwrap()).await, b"hello\n");
    f.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn boots_that_exit_or_hang_fail_and_silent_ones_are_judged_by_their_socket() {
    for boot in ["exit", "hang"] {
        let mut quick = settings(1, 0, &["--boot", boot]);
        quick.pool.start_timeout = Duration::from_millis(300);
        let f = start(quick).await;
        assert_eq!(f.ask("/hello").await.unwrap_err().class, Class::WorkerRuntimeError, "{boot}");
        f.stop().await;
    }
    let f = start(settings(1, 0, &["--boot", "silent"])).await;
    assert_eq!(body(f.ask("/hello").await.unwrap()).await, b"hello\n");
    f.stop().await;
    let f = start(settings(1, 0, &["--boot", "never-listen"])).await;
    assert_eq!(f.ask("/hello").await.unwrap_err().class, Class::TransportError);
    f.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there_is_named() {
    let mut missing = settings(1, 0, &[]);
    if let hedgerow_worker::settings::Source::Supervised(launch) = &mut missing.source {
        launch.command = vec!["/nonexistent/worker".to_owned()];
    }
    let f = start(missing).await;
    let failure = f.ask("/hello").await.unwrap_err();
    assert!(failure.message.contains("/nonexistent/worker"), "{failure}");
    f.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_changes_over_without_a_gap_or_not_at_all() {
    let scratch = Scratch::new();
    let broken = scratch.path().join("broken");
    let flag = broken.display().to_string();
    let f = start(settings(2, 20, &["--boot-fail-file", &flag])).await;
    f.events.wait("WorkerReady", 2);
    let first = f.pids();

    std::fs::write(&broken, b"").unwrap();
    let refused = f.pool.reload(settings(2, 20, &["--boot-fail-file", &flag])).await;
    assert!(matches!(refused, Err(PoolError::Abandoned(_))), "{refused:?}");
    assert_eq!(f.pids(), first, "the old ones serve on");
    assert_eq!(body(f.ask("/hello").await.unwrap()).await, b"hello\n");

    std::fs::remove_file(&broken).unwrap();
    let f = Arc::new(f);
    let asking = f.clone();
    let load = tokio::spawn(async move {
        for _ in 0..300 {
            assert_eq!(body(asking.ask("/hello").await.unwrap()).await, b"hello\n");
        }
    });
    f.pool.reload(settings(3, 20, &[])).await.unwrap();
    load.await.unwrap();
    let second = f.pids();
    assert_eq!(second.len(), 3);
    assert!(second.iter().all(|p| !first.contains(p)));
    for pid in first {
        until("the old worker is gone", || (!alive(pid)).then_some(()));
    }
    f.pool.stop(f.clock.now() + Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn max_requests_and_max_rss_replace_without_refusing_anybody() {
    let mut recycling = settings(1, 0, &[]);
    recycling.pool.max_requests = 5;
    let f = start(recycling).await;
    let first = f.pids()[0];
    for _ in 0..40 {
        assert_eq!(body(f.ask("/hello").await.unwrap()).await, b"hello\n");
    }
    f.events.wait("MaxRequests", 1);
    assert_ne!(f.pids()[0], first);
    f.stop().await;

    let mut heavy = settings(1, 0, &["--rss", "64"]);
    heavy.pool.max_rss = 32 << 20;
    let f = start(heavy).await;
    assert_eq!(body(f.ask("/hello").await.unwrap()).await, b"hello\n");
    f.events.wait("MaxRss", 1);
    f.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_gets_the_worker_in_order_and_leaving_gives_up_the_place() {
    let f = Arc::new(start(settings(1, 3, &[])).await);
    let holding = f.clone();
    let holder = tokio::spawn(async move { holding.ask("/sleep?ms=300").await });
    until("busy", || (f.pool.snapshot().in_flight == 1).then_some(()));
    let mut waiters = Vec::new();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    for number in 0..3 {
        let (asking, order) = (f.clone(), order.clone());
        waiters.push(tokio::spawn(async move {
            let deadline = asking.within(Duration::from_secs(20));
            let lease = asking.pool.acquire(deadline).await?;
            order.lock().unwrap().push(number);
            lease.exchange(job("/hello", Body::Memory(Bytes::new()), deadline)).await
        }));
        let depth = number + 1;
        until("in the queue", || (f.pool.snapshot().queue_depth == depth).then_some(()));
    }
    assert_eq!(f.ask("/hello").await.unwrap_err().class, Class::WorkerQueueFull);
    waiters.remove(1).abort();
    until("the place is free", || (f.pool.snapshot().queue_depth == 2).then_some(()));
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    holder.await.unwrap().unwrap();
    assert_eq!(*order.lock().unwrap(), [0, 2]);
    assert!(f.pool.snapshot().workers.iter().all(|w| w.phase == SlotPhase::Idle));

    let soon = f.within(Duration::from_millis(30));
    let holding = f.clone();
    let holder = tokio::spawn(async move { holding.ask("/sleep?ms=300").await });
    until("busy", || (f.pool.snapshot().in_flight == 1).then_some(()));
    let failure = f.pool.acquire(soon).await.err().expect("no worker in time");
    assert_eq!(failure.class, Class::WorkerQueueTimeout);
    holder.await.unwrap().unwrap();
    let fine = f.ask_with("/hello", Bytes::new(), Duration::from_secs(5)).await;
    assert_eq!(body(fine.unwrap()).await, b"hello\n");
    f.pool.stop(f.clock.now() + Duration::from_secs(10)).await;
}
