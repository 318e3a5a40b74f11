//! A pool of scripted workers, and requests to it.

use bytes::{Bytes, BytesMut};
use hedgerow_policy::backoff::BackoffConfig;
use hedgerow_policy::failure::Phase;
use hedgerow_policy::pool::PoolConfig;
use hedgerow_policy::queue::QueueConfig;
use hedgerow_policy::{Deadline, Failure};
use hedgerow_testkit::events::Events;
use hedgerow_testkit::program::stage;
use hedgerow_wire::capabilities::Capabilities;
use hedgerow_wire::request::{Body as WireBody, EncodeError, Request, Sent};
use hedgerow_worker::settings::{Launch, Source};
use hedgerow_worker::{Answer, Body, Clock, Content, Head, Job, Pool, Settings};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Fixture {
    pub(crate) pool: Pool,
    pub(crate) events: Arc<Events>,
    pub(crate) clock: Clock,
}

/// A pool of `size` with a queue of `capacity`; the worker gets `flags`.
pub(crate) fn settings(size: u32, capacity: usize, flags: &[&str]) -> Settings {
    let mut command = vec![stage().display().to_string(), "worker".to_owned()];
    command.extend(flags.iter().map(|f| (*f).to_owned()));
    Settings {
        source: Source::Supervised(Launch {
            command,
            cwd: None,
            env: BTreeMap::new(),
            socket_dir: None,
            kill_grace: Duration::from_millis(200),
        }),
        pool: PoolConfig {
            size,
            supervised: true,
            queue: QueueConfig { capacity, timeout: Duration::from_secs(10) },
            backoff: BackoffConfig {
                base: Duration::from_millis(50),
                max: Duration::from_millis(400),
                reset_after: Duration::from_secs(10),
            },
            start_timeout: Duration::from_secs(5),
            max_requests: 0,
            max_requests_jitter: 0.0,
            max_rss: 0,
        },
        connect_timeout: Duration::from_millis(500),
        read_timeout: Duration::from_secs(10),
        stream_idle_timeout: Duration::from_secs(10),
        answer_buffer: 256 << 10,
        output_line_limit: 4096,
    }
}

pub(crate) async fn start(settings: Settings) -> Fixture {
    let events = Arc::new(Events::default());
    let clock = Clock::start();
    let pool = Pool::start(settings, events.clone(), None, clock).await.expect("the pool starts");
    Fixture { pool, events, clock }
}

impl Fixture {
    pub(crate) fn within(&self, limit: Duration) -> Deadline {
        Deadline::NEVER.within(self.clock.now(), limit, Phase::Request)
    }

    pub(crate) async fn ask(&self, target: &str) -> Result<Answer, Failure> {
        self.ask_with(target, Bytes::new(), Duration::from_secs(20)).await
    }

    pub(crate) async fn ask_with(
        &self,
        target: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Answer, Failure> {
        let deadline = self.within(limit);
        let lease = self.pool.acquire(deadline).await?;
        lease.exchange(job(target, Body::Memory(body), deadline)).await
    }

    /// Asks for nothing but the head.
    pub(crate) async fn head(&self, target: &str) -> Result<Answer, Failure> {
        let deadline = self.within(Duration::from_secs(20));
        let lease = self.pool.acquire(deadline).await?;
        let mut job = job(target, Body::Memory(Bytes::new()), deadline);
        job.wants_body = false;
        lease.exchange(job).await
    }

    pub(crate) async fn stop(self) {
        self.pool.stop(self.clock.now() + Duration::from_secs(10)).await;
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.pool.snapshot().workers.iter().filter_map(|w| w.pid).collect()
    }
}

pub(crate) fn job(target: &str, body: Body, deadline: Deadline) -> Job {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let head = TestHead { path: path.into(), query: query.into() };
    Job::new(Arc::new(head), body, deadline)
}

struct TestHead {
    path: String,
    query: String,
}

impl Head for TestHead {
    fn encode(
        &self,
        body: &Body,
        capabilities: Capabilities,
        out: &mut BytesMut,
    ) -> Result<Sent, EncodeError> {
        let body = match body {
            Body::Memory(bytes) => WireBody::Inline(bytes),
            Body::File(_, length) => WireBody::Raw(*length),
        };
        let request = Request {
            id: "trace-1",
            request_id: "request-1",
            deadline_unix_ms: None,
            method: "POST",
            path: &self.path,
            query: &self.query,
            scheme: "http",
            host: "localhost",
            port: 80,
            protocol_version: "1.1",
            remote_addr: "127.0.0.1",
            headers: &[],
            body,
        };
        request.encode(out, capabilities)
    }

    fn id(&self) -> &str {
        "trace-1"
    }
}

/// The whole body of an answer that is a response.
pub(crate) async fn body(answer: Answer) -> Vec<u8> {
    let Answer::Response(response) = answer else { panic!("no response: {answer:?}") };
    match response.content {
        Content::Full(bytes) => bytes.to_vec(),
        Content::Pieces { length, mut pieces } => {
            let mut all = Vec::new();
            while let Some(piece) = pieces.recv().await {
                all.extend_from_slice(&piece.expect("the body is whole"));
            }
            assert_eq!(all.len() as u64, length);
            all
        }
    }
}
