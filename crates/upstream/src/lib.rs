//! Calls to HTTP services that do not wait for the slowest.
//!
//! A call that has gone quiet gets a twin, on another endpoint where there is one and always over
//! another connection; the first success wins, and no failure displaces a twin that still runs.
//! Whether to hedge, retry, wait or give up is decided by `hedgerow_policy::hedge`; this crate
//! connects, writes, reads and cancels.
//!
//! ```no_run
//! use hedgerow_policy::hedge::{HedgeConfig, RaceConfig};
//! use hedgerow_upstream::{Body, Client, Settings};
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut models = Settings::new("models", ["http://10.0.0.1:8000", "http://10.0.0.2:8000"])?;
//! let after = Some(Duration::from_millis(200));
//! models.race.hedge = Some(HedgeConfig { after, after_quantile: None, ..HedgeConfig::default() });
//! let client = Client::new([models])?;
//!
//! let request = http::Request::get("/v1/answer?q=6x7").body(Body::empty())?;
//! let mut response = client.call("models", request).await?;
//! println!("{} after {:?}", response.status(), response.report().hedged_after);
//! while let Some(piece) = response.next().await {
//!     println!("{} bytes", piece?.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: bytes of two attempts are never spliced; a loser is cancelled by dropping it, which
//! closes its connection (HTTP/1) or resets its stream (HTTP/2), and nobody waits for that; a call
//! whose future or response is dropped leaves nothing running.
#![forbid(unsafe_code)]

mod allow;
mod attempt;
mod batch;
mod body;
mod client;
mod coalescing;
mod connection;
mod dial;
mod driven;
mod flight;
mod head;
mod ledger;
mod origin;
mod plan;
mod pool;
mod registry;
mod report;
mod response;
mod settings;
mod tls;
mod turn;
mod unreached;
mod uploading;
mod upstream;

pub use allow::{AllowList, AllowListError};
pub use batch::{Batch, BatchOptions, Settled};
pub use body::Body;
pub use client::{CallOptions, Client, ClientBuilder, Taken, UpstreamView};
pub use coalescing::{Coalescing, is_little};
pub use dial::{Dial, Dialled, Io, Tcp};
pub use hedgerow_clock::Clock;
pub use ledger::{AttemptEntry, KeyEntry, Ledger, LedgerConfig, Totals};
pub use origin::{Origin, Scheme};
pub use plan::{Opened, Piece, PlanContext, PlanFailure, PlanSettings, PlanStream};
pub use pool::Connections;
pub use registry::{Session, Sessions};
pub use report::{CallError, Report};
pub use response::Response;
pub use settings::{Protocol, Settings, SettingsError, Trust};
pub use turn::EndOfTurn;
pub use unreached::Unreached;
