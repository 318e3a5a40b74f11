//! A data plane for one test, with everything around it.

use crate::client::Client;
use crate::worker::{self, Stage};
use hedgerow_gateway::record::{self, Outputs, Recorder};
use hedgerow_gateway::{Gateway, Settings};
use hedgerow_policy::backoff::BackoffConfig;
use hedgerow_policy::observe::Silent;
use hedgerow_policy::pool::PoolConfig;
use hedgerow_policy::queue::QueueConfig;
use hedgerow_wire::Capabilities;
use hedgerow_worker::settings::Source;
use hedgerow_worker::{Clock, Pool};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// Takes what is written, for a look at it later.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a test chooses.
pub(crate) struct Setup {
    pub(crate) settings: Settings,
    pub(crate) workers: usize,
    pub(crate) queue: QueueConfig,
    pub(crate) read_timeout: Duration,
    pub(crate) capabilities: Option<Capabilities>,
}

impl Default for Setup {
    fn default() -> Setup {
        let queue = QueueConfig { capacity: 100, timeout: Duration::from_secs(5) };
        Setup {
            settings: Settings { listen: ([127, 0, 0, 1], 0).into(), ..Settings::default() },
            workers: 1,
            queue,
            read_timeout: Duration::from_secs(3),
            capabilities: None,
        }
    }
}

/// A running data plane.
pub(crate) struct Plane {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) addr: SocketAddr,
    pub(crate) stage: Arc<Stage>,
    pub(crate) clock: Clock,
    pub(crate) recorder: Recorder,
    pub(crate) pool: Pool,
    arrivals: mpsc::UnboundedReceiver<String>,
    events: Kept,
    dir: PathBuf,
}

impl Plane {
    pub(crate) async fn start() -> Plane {
        Plane::with(|_| ()).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Setup)) -> Plane {
        let mut setup = Setup::default();
        change(&mut setup);
        let dir = scratch();
        let (arrived, arrivals) = mpsc::unbounded_channel();
        let stage = Arc::new(Stage {
            seen: Mutex::default(),
            gate: Semaphore::new(0),
            arrived,
            capabilities: setup.capabilities,
        });
        let sockets: Vec<PathBuf> =
            (0..setup.workers).map(|n| dir.join(format!("w{n}.sock"))).collect();
        for socket in &sockets {
            worker::start(socket, stage.clone());
        }
        let clock = Clock::start();
        let events = Kept::default();
        let outputs = Outputs { access: None, events: Some(Box::new(events.clone())) };
        let recorder = Recorder::with_outputs(record::Settings::default(), clock, outputs).unwrap();
        let pool = Pool::start(pool(&setup, sockets), Arc::new(Silent), None, clock).await.unwrap();
        let gateway =
            Gateway::start(setup.settings, pool.clone(), recorder.clone(), clock).unwrap();
        let addr = gateway.local_addr();
        Plane {
            gateway: Arc::new(gateway),
            addr,
            stage,
            clock,
            recorder,
            pool,
            arrivals,
            events,
            dir,
        }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.addr, self.clock).await
    }

    /// Sends bytes on a connection of their own; everything that comes back until its end.
    pub(crate) async fn raw(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut client = self.client().await;
        client.send(bytes).await;
        client.rest().await
    }

    /// A GET on a connection of its own.
    pub(crate) async fn get(&self, path: &str) -> String {
        let head = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        self.raw(head).await
    }

    /// Waits until the next request is with a worker; its path.
    pub(crate) async fn arrival(&mut self) -> String {
        let limit = self.clock.now() + Duration::from_secs(5);
        self.clock.until(limit, self.arrivals.recv()).await.expect("an arrival").unwrap()
    }

    /// Drops the gateway; another one stands in for it.
    pub(crate) fn drop_gateway(&mut self) {
        let settings = Settings { listen: ([127, 0, 0, 1], 0).into(), ..Settings::default() };
        let (pool, recorder) = (self.pool.clone(), self.recorder.clone());
        self.gateway = Arc::new(Gateway::start(settings, pool, recorder, self.clock).unwrap());
    }

    /// How many requests reached a worker.
    pub(crate) fn served(&self) -> usize {
        self.stage.seen.lock().unwrap().len()
    }

    /// The event lines so far. Ends the log.
    pub(crate) async fn events(&self) -> Vec<serde_json::Value> {
        let recorder = self.recorder.clone();
        tokio::task::spawn_blocking(move || recorder.close()).await.unwrap();
        let text = String::from_utf8(self.events.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// The events of requests.
    pub(crate) async fn requests(&self) -> Vec<serde_json::Value> {
        self.events().await.into_iter().filter(|event| event["type"] == "http.request").collect()
    }

    /// Waits until something holds that another task brings about.
    pub(crate) async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let limit = self.clock.now() + Duration::from_secs(5);
        while !holds() {
            assert!(self.clock.now() < limit, "{what} did not come to be");
            self.clock.sleep_until(self.clock.now() + Duration::from_millis(2)).await;
        }
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A directory of this test's own.
pub(crate) fn scratch() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("hg-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let dir = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn pool(setup: &Setup, sockets: Vec<PathBuf>) -> hedgerow_worker::Settings {
    hedgerow_worker::Settings {
        pool: PoolConfig {
            size: sockets.len() as u32,
            supervised: false,
            queue: setup.queue,
            backoff: BackoffConfig {
                base: Duration::from_millis(10),
                max: Duration::from_millis(20),
                reset_after: Duration::from_secs(10),
            },
            start_timeout: Duration::from_secs(5),
            max_requests: 0,
            max_requests_jitter: 0.0,
            max_rss: 0,
        },
        source: Source::Sockets(sockets),
        connect_timeout: Duration::from_millis(500),
        read_timeout: setup.read_timeout,
        stream_idle_timeout: Duration::from_secs(5),
        answer_buffer: 256 << 10,
        output_line_limit: 8 << 10,
    }
}
