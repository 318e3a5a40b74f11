//! A guarded cache in front of a redis-server of one's own.

use hedgerow_cache::settings::Shed;
use hedgerow_cache::{Clock, Guarded, GuardedSettings, Port, PortSettings, RedisSettings};
use hedgerow_testkit::events::Events;
use hedgerow_testkit::redis::Redis;
use hedgerow_testkit::resp::Raw;
use hedgerow_testkit::until::until;
use std::sync::Arc;
use std::time::Duration;

/// A port in front of a server.
pub(crate) struct Fixture {
    pub(crate) server: Redis,
    pub(crate) guarded: Guarded,
    pub(crate) port: Port,
    pub(crate) events: Arc<Events>,
}

impl Fixture {
    pub(crate) async fn start() -> Fixture {
        Fixture::with(Redis::start(), |_, _, _| {}).await
    }

    pub(crate) async fn with(
        server: Redis,
        change: impl FnOnce(&mut RedisSettings, &mut GuardedSettings, &mut PortSettings),
    ) -> Fixture {
        let clock = Clock::start();
        let events = Arc::new(Events::default());
        let mut redis = settings(&server);
        // Tests run beside each other on few processors: a deadline is met or the store stands still.
        redis.call_timeout = Duration::from_millis(500);
        let mut settings = GuardedSettings::default();
        let mut port = port_settings();
        change(&mut redis, &mut settings, &mut port);
        let guarded =
            Guarded::redis(redis, settings, events.clone(), clock).expect("settings that work");
        let port = Port::start(port, guarded.clone(), clock).await.expect("a port");
        let fixture = Fixture { server, guarded, port, events };
        fixture.connected();
        fixture
    }

    pub(crate) fn connected(&self) {
        until("a connection to the store", || {
            self.guarded.snapshot().lanes.iter().all(|lane| lane.connected).then_some(())
        });
    }

    pub(crate) fn client(&self) -> Raw {
        Raw::connect(self.port.local_addr())
    }

    /// Stops the store and lets the guard notice.
    pub(crate) fn stall(&self) {
        self.server.pause();
        let mut client = self.client();
        until("the circuit to open", || {
            client.send_all(&["GET stall"; 16]);
            (0..16).for_each(|_| drop(client.next()));
            self.state_is("Open").then_some(())
        });
    }

    pub(crate) fn state_is(&self, name: &str) -> bool {
        format!("{:?}", self.guarded.snapshot().breaker.state) == name
    }

    /// Waits until the circuit is closed again.
    pub(crate) fn recovered(&self) {
        let mut client = self.client();
        until("the circuit to close", || {
            client.ask("GET recovered");
            self.state_is("Closed").then_some(())
        });
    }
}

/// What reaches this server.
pub(crate) fn settings(server: &Redis) -> RedisSettings {
    RedisSettings::from_url(&format!("redis://127.0.0.1:{}/0", server.port)).expect("a URL")
}

pub(crate) fn port_settings() -> PortSettings {
    PortSettings {
        listen: ([127, 0, 0, 1], 0).into(),
        password: String::new(),
        max_clients: 10_000,
        output_limit: 64 << 20,
        input_limit: 512 << 20,
        total_limit: 1 << 30,
        shed: Shed::Fallback,
    }
}
