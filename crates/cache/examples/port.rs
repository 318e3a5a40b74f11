//! A guarded port in front of a store: `port [memory | redis://host:port] [address to listen on]`.
//!
//! Says what happens to the store and its circuit on standard output.

use hedgerow_cache::settings::Shed;
use hedgerow_cache::{Clock, Guarded, GuardedSettings, Port, PortSettings, RedisSettings};
use hedgerow_policy::{Event, Observer};
use std::error::Error;
use std::sync::Arc;

struct Say;

impl Observer for Say {
    fn on(&self, event: &Event<'_>) {
        println!("{event:?}");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let store = args.next().unwrap_or_else(|| "memory".to_owned());
    let listen = args.next().unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse()?;
    let clock = Clock::start();
    let guarded = if store == "memory" {
        Guarded::memory_with(256 << 20, clock)
    } else {
        let redis = RedisSettings::from_url(&store)?;
        Guarded::redis(redis, GuardedSettings::default(), Arc::new(Say), clock)?
    };
    let settings = PortSettings {
        listen,
        password: String::new(),
        max_clients: 20_000,
        output_limit: 64 << 20,
        input_limit: 512 << 20,
        total_limit: 1 << 30,
        shed: Shed::Fallback,
    };
    let port = Port::start(settings, guarded, clock).await?;
    println!("listening on {}", port.local_addr());
    std::future::pending().await
}
