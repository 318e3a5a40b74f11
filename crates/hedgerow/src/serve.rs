//! `hedgerow serve`: starts the parts in order, serves, reloads, and ends them in the opposite order.
//!
//! Invariant: what cannot be started is one sentence and exit code 2, with nothing left running.
//! After a signal to stop nothing new is taken, what was begun is finished within its bound, and no
//! process, socket or file of a run is left behind.

use crate::cache_port::CachePort;
use crate::calls;
use crate::cli::ConfigArguments;
use crate::config::{Config, Loaded};
use crate::narrator::Narrator;
use crate::wiring;
use hedgerow_clock::Clock;
use hedgerow_gateway::admin::{Admin, Plane};
use hedgerow_gateway::record::Recorder;
use hedgerow_gateway::{Calls, Egress, Gateway, StartError};
use hedgerow_policy::{Event, Observer};
use hedgerow_worker::{Guard, Pool, PoolError};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Threads for file I/O.
const BLOCKING_THREADS: usize = 32;
/// Bound on what the ledger may still have to write.
const LAST_LINES: Duration = Duration::from_secs(2);
/// Bound on what workers may still do once every client is gone.
const AFTER_DRAIN: Duration = Duration::from_secs(1);
/// Bound on sending the last spans to a collector.
const TRACES: Duration = Duration::from_secs(2);

/// Loads the configuration and serves until a signal.
#[must_use]
pub fn run(arguments: &ConfigArguments) -> ExitCode {
    match Config::load(arguments) {
        Ok(loaded) => {
            complain(&loaded.warnings.to_string());
            let reload = || Config::load(arguments).map_err(|report| report.to_string());
            start(&loaded.config, &reload, |_| {})
        }
        Err(report) => {
            complain(&report.to_string());
            ExitCode::from(2)
        }
    }
}

/// Where a running gateway listens.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// For clients; none without workers.
    pub server: Option<SocketAddr>,
    /// For operators.
    pub admin: SocketAddr,
    /// For Redis clients; none without the port.
    pub cache: Option<SocketAddr>,
    /// For calls of the application; none without the port.
    pub egress: Option<SocketAddr>,
}

impl Addresses {
    fn all(&self) -> Vec<SocketAddr> {
        let all = [self.server, Some(self.admin), self.cache, self.egress];
        all.into_iter().flatten().collect()
    }
}

/// Where new settings come from, or why there are none.
pub(crate) type Reload<'a> = &'a dyn Fn() -> Result<Loaded, String>;

/// Serves under `config`; calls `started` once clients are answered.
pub(crate) fn start(
    config: &Config,
    reload: Reload<'_>,
    started: impl FnOnce(Addresses),
) -> ExitCode {
    more_descriptors();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // For reading and writing spooled bodies, which a disk cannot do in hundreds at once.
        .max_blocking_threads(BLOCKING_THREADS)
        .build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(serve(config, reload, started)),
        Err(error) => Err(format!("the runtime cannot start: {error}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            complain(&format!("hedgerow: {reason}\n"));
            ExitCode::from(2)
        }
    }
}

async fn serve(
    config: &Config,
    reload: Reload<'_>,
    started: impl FnOnce(Addresses),
) -> Result<(), String> {
    // Signals first: one that comes while workers boot must not be lost.
    let mut signals = Signals::new().map_err(|e| format!("signals cannot be taken: {e}"))?;
    if config.serves() {
        free(config.server.listen, "server.listen")?;
    }
    free(config.admin.listen, "admin.listen")?;
    let clock = Clock::start();
    let recorder = Recorder::new(wiring::record(config), clock).map_err(|e| e.to_string())?;
    let narrator = Narrator::new(recorder.clone(), config.log.redact);
    let narrator = Arc::new(narrator.map_err(|e| format!("a thread cannot start: {e}"))?);
    let guard = Arc::new(guard()?);
    // Before the workers: an application may want its cache while it boots.
    let cache = CachePort::start(config, narrator.clone(), clock).await?;

    let mut pool = None;
    if config.worker.is_set() {
        let settings = wiring::pool(config);
        let booting = Pool::start(settings, narrator.clone(), Some(guard.clone()), clock);
        pool = Some(tokio::select! {
            pool = booting => pool.map_err(|e| e.to_string())?,
            // The guard and the kernel end what was started.
            () = signals.stop() => return Ok(()),
        });
    }
    let calls = calls::start(config, narrator.clone(), clock)?;
    let running = Running { clock, recorder, narrator, guard, pool, cache, calls };
    let plane = Plane::new(running.pool.clone());
    let plane = plane.with_cache(running.cache.as_ref().map(CachePort::guarded));
    let plane = plane.with_cache_port(running.cache.as_ref().map(CachePort::view));
    let plane = plane.with_calls(Some(running.calls.clone()));
    let opened = running.open(config, &plane);
    let Open { gateway, admin, egress } = match opened {
        Ok(open) => open,
        Err(reason) => {
            running.end("could not start").await;
            return Err(reason);
        }
    };
    let addresses = Addresses {
        server: gateway.as_ref().map(Gateway::local_addr),
        admin: admin.local_addr(),
        cache: running.cache.as_ref().map(CachePort::local_addr),
        egress: egress.as_ref().map(Egress::local_addr),
    };
    running.recorder.server_started(&addresses.all());
    plane.set_serving(true);
    announce(config, addresses);
    started(addresses);

    while signals.next().await == Asked::Reload {
        tokio::select! {
            () = running.reload(gateway.as_ref(), config, reload) => {}
            () = signals.stop() => break,
        }
    }
    plane.set_serving(false);
    let began = clock.now();
    if let Some(gateway) = &gateway {
        tokio::select! {
            _ = gateway.drain() => {}
            () = signals.stop() => {}
        }
    }
    drop(gateway);
    if let Some(egress) = egress {
        tokio::select! {
            () = egress.drain(clock, began) => {}
            () = signals.stop() => {}
        }
    }
    admin.stop().await;
    running.end("signal").await;
    Ok(())
}

/// What runs behind the listeners.
struct Running {
    clock: Clock,
    recorder: Recorder,
    narrator: Arc<Narrator>,
    guard: Arc<Guard>,
    pool: Option<Pool>,
    cache: Option<CachePort>,
    calls: Calls,
}

/// The listeners.
struct Open {
    gateway: Option<Gateway>,
    admin: Admin,
    egress: Option<Egress>,
}

impl Running {
    fn open(&self, config: &Config, plane: &Plane<Pool>) -> Result<Open, String> {
        let control = Arc::new(plane.clone());
        let (recorder, clock) = (self.recorder.clone(), self.clock);
        let admin = Admin::start(wiring::admin(config), recorder.clone(), control, clock)
            .map_err(|e| e.to_string())?;
        let settings = wiring::gateway(config);
        let egress = config.egress.listen.map(|listen| {
            Egress::start(listen, &settings, self.calls.clone(), recorder.clone(), clock)
                .map_err(|e| format!("egress.listen: {e}"))
        });
        let egress = egress.transpose()?;
        if !config.serves() {
            return Ok(Open { gateway: None, admin, egress });
        }
        let gateway = Gateway::start(settings, self.pool.clone(), recorder, clock);
        let gateway = gateway.map_err(|e| e.to_string())?;
        gateway.make_calls(self.calls.clone());
        Ok(Open { gateway: Some(gateway), admin, egress })
    }

    /// New settings and new workers, or neither. `config` is what the parts were started with.
    async fn reload(&self, gateway: Option<&Gateway>, config: &Config, reload: Reload<'_>) {
        let abandoned = |error: &str| self.narrator.on(&Event::ReloadAbandoned { error });
        if let Err(error) = self.recorder.reopen() {
            self.narrator.say(format!("hedgerow: {error}"));
        }
        let loaded = match reload() {
            Ok(loaded) => loaded,
            Err(report) => return abandoned(report.trim_end()),
        };
        let warnings = loaded.warnings.to_string();
        if !warnings.is_empty() {
            self.narrator.say(warnings.trim_end().to_owned());
        }
        // Checked first, put in force last: a certificate that does not load costs nothing.
        let settings = wiring::gateway(&loaded.config);
        if let Err(error) = Gateway::check(&settings) {
            return abandoned(&error.to_string());
        }
        if let Some(pool) = &self.pool {
            match pool.reload(wiring::pool(&loaded.config)).await {
                Ok(()) => {}
                // A boot that failed was reported by the pool.
                Err(PoolError::Abandoned(_)) => return,
                Err(error) => return abandoned(&error.to_string()),
            }
        }
        if let Some(gateway) = gateway
            && let Err(StartError::Tls(error)) = gateway.reconfigure(settings)
        {
            self.narrator.say(format!("hedgerow: the old certificate stays in force: {error}"));
        }
        if let Some(cache) = &self.cache
            && let Err(error) = cache.reconfigure(&loaded.config)
        {
            self.narrator.say(format!("hedgerow: the old thresholds of the cache stay: {error}"));
        }
        if let Err(error) = self.calls.current().client().ledger().reopen() {
            self.narrator.say(format!("hedgerow: {error}"));
        }
        if let Err(error) = calls::reload(&loaded.config, &self.calls) {
            self.narrator.say(format!("hedgerow: the old upstreams stay in force: {error}"));
        }
        if self.pool.is_none() {
            self.narrator.on(&Event::ReloadDone);
        }
        let kept = wiring::read_at_start(config, &loaded.config);
        if !kept.is_empty() {
            let keys = kept.join(", ");
            self.narrator.say(format!("hedgerow: changed, but read at start only: {keys}"));
        }
    }

    async fn end(self, reason: &str) {
        if let Some(pool) = self.pool {
            pool.stop(self.clock.now() + AFTER_DRAIN).await;
        }
        // After the workers: their last requests may still want it.
        if let Some(cache) = self.cache {
            cache.stop().await;
        }
        self.calls.current().client().ledger().close(LAST_LINES);
        self.guard.stop();
        self.recorder.end_traces(TRACES).await;
        self.recorder.server_stopped(reason);
        self.recorder.close();
    }
}

/// What a signal asks for.
#[derive(PartialEq, Eq)]
enum Asked {
    Stop,
    Reload,
}

struct Signals {
    term: Signal,
    interrupt: Signal,
    reload: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            term: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reload: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.term.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.reload.recv() => Asked::Reload,
        }
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// An address that somebody else has is found before anything is started. It is opened for good
/// once the workers have booted: until then a client is better refused than kept waiting.
fn free(address: SocketAddr, key: &str) -> Result<(), String> {
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("cannot listen on {address} ({key}): {error}")),
    }
}

fn guard() -> Result<Guard, String> {
    let exe = std::env::current_exe().map_err(|e| format!("the path of this program: {e}"))?;
    let command = [exe.to_string_lossy().into_owned(), "guard".to_owned()];
    Guard::start(&command).map_err(|e| format!("the guard process cannot start: {e}"))
}

/// As many descriptors as the system allows: each connection needs one, and the usual soft limit of
/// 1,024 is kept for programs that use select(2).
fn more_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

fn announce(config: &Config, addresses: Addresses) {
    let scheme = if config.server.tls.is_some() { "https" } else { "http" };
    let server = addresses.server.map(|server| format!("listens on {scheme}://{server}, "));
    let cache = addresses.cache.map(|cache| format!(", cache on redis://{cache}"));
    let egress = addresses.egress.map(|egress| format!(", egress on http://{egress}"));
    complain(&format!(
        "hedgerow {} {}admin on http://{}{}{}\n",
        env!("CARGO_PKG_VERSION"),
        server.unwrap_or_default(),
        addresses.admin,
        cache.unwrap_or_default(),
        egress.unwrap_or_default(),
    ));
}

/// To standard error; nobody reading it is no reason to fail.
fn complain(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
