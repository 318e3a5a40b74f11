//! Scenes in which breakers go wrong, in real time, each with a fresh breaker.

use crate::peers::{self, Got, OPEN, Peer, WINDOW, Work};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, timeout};

type Shared = Rc<dyn Peer>;

fn ends(after: Duration, said: Result<(), ()>) -> Work {
    Box::pin(async move {
        if !after.is_zero() {
            sleep(after).await;
        }
        said
    })
}

async fn now(peer: &Shared, said: Result<(), ()>) -> Got {
    peer.call(ends(Duration::ZERO, said)).await
}

async fn times(peer: &Shared, count: u32, said: Result<(), ()>) {
    for _ in 0..count {
        now(peer, said).await;
    }
}

async fn is_open(peer: &Shared) -> bool {
    now(peer, Ok(())).await.is_none()
}

async fn open(peer: &Shared) {
    times(peer, 40, Err(())).await;
}

/// 24 failures within half a window, spread over the end of the window that began with the first call.
async fn slides(peer: Shared) -> String {
    now(&peer, Ok(())).await;
    sleep(WINDOW.mul_f32(0.7)).await;
    times(&peer, 12, Err(())).await;
    sleep(WINDOW.mul_f32(0.5)).await;
    times(&peer, 12, Err(())).await;
    if is_open(&peer).await { "opens".into() } else { "**stays closed**".into() }
}

/// 15 failures, three windows of silence, 7 failures: too few to judge.
async fn forgets(peer: Shared) -> String {
    times(&peer, 15, Err(())).await;
    sleep(WINDOW * 3).await;
    times(&peer, 7, Err(())).await;
    if is_open(&peer).await { "**opens**".into() } else { "stays closed".into() }
}

/// 64 calls at once when the open time is over: how many get through.
async fn herd(peer: Shared) -> String {
    open(&peer).await;
    sleep(OPEN + Duration::from_millis(60)).await;
    let through = Rc::new(Cell::new(0));
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let (peer, through) = (peer.clone(), through.clone());
            tokio::task::spawn_local(async move {
                let got = peer.call(ends(Duration::from_millis(50), Err(()))).await;
                through.set(through.get() + u32::from(got.is_some()));
            })
        })
        .collect();
    for call in calls {
        let _ = call.await;
    }
    match through.get() {
        1 => "1".into(),
        many => format!("**{many}**"),
    }
}

/// 30 calls that began before the circuit opened fail after it has closed again.
async fn late(peer: Shared) -> String {
    let late: Vec<_> = (0..30)
        .map(|_| {
            let peer = peer.clone();
            tokio::task::spawn_local(async move {
                peer.call(ends(Duration::from_millis(900), Err(()))).await;
            })
        })
        .collect();
    tokio::task::yield_now().await;
    open(&peer).await;
    sleep(OPEN + Duration::from_millis(60)).await;
    let began = Instant::now();
    let mut good = 0;
    while good < 5 && began.elapsed() < Duration::from_millis(500) {
        good = if now(&peer, Ok(())).await.is_some() { good + 1 } else { 0 };
        sleep(Duration::from_millis(5)).await;
    }
    for call in late {
        let _ = call.await;
    }
    match (good, is_open(&peer).await) {
        (5, false) => "stays closed".into(),
        (5, true) => "**opens again**".into(),
        _ => "(had not closed)".into(),
    }
}

/// The probe of a half-open circuit is dropped by its caller: when is the next one let through?
async fn leak(peer: Shared) -> String {
    open(&peer).await;
    sleep(OPEN + Duration::from_millis(60)).await;
    let endless = peer.call(Box::pin(std::future::pending()));
    let _ = timeout(Duration::from_millis(20), endless).await;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        if now(&peer, Ok(())).await.is_some() {
            return format!("after {:.1} s", began.elapsed().as_secs_f32());
        }
        sleep(Duration::from_millis(20)).await;
    }
    "**never** (3 s)".into()
}

/// A table, a breaker a row.
pub fn run() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    println!("| | slides | forgets | half-open herd | late results | leaked probe |");
    println!("| --- | --- | --- | --- | --- | --- |");
    LocalSet::new().block_on(&runtime, async {
        let names: Vec<_> = peers::all().into_iter().map(|(name, _)| name).collect();
        for (at, name) in names.into_iter().enumerate() {
            let fresh = || Shared::from(peers::all().swap_remove(at).1);
            let (slides, forgets, herd, late, leak) = tokio::join!(
                slides(fresh()),
                forgets(fresh()),
                herd(fresh()),
                late(fresh()),
                leak(fresh()),
            );
            println!("| {name} | {slides} | {forgets} | {herd} | {late} | {leak} |");
        }
    });
}
