//! What the cache is told at start. Plain values; where they come from is the binary's business.

use hedgerow_policy::backoff::BackoffConfig;
use hedgerow_policy::guard::GuardSettings;
use hedgerow_policy::journal::JournalConfig;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Where a server is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// Whose certificates are trusted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trust {
    /// The authorities that browsers trust.
    WebRoots,
    /// Those, and the ones in a PEM file.
    File(PathBuf),
}

/// A name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The ACL user; the default user where absent.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.user.as_deref().unwrap_or("default"))
    }
}

/// A Redis or Valkey server and how it is spoken to.
#[derive(Clone, PartialEq, Debug)]
pub struct RedisSettings {
    /// Where it is.
    pub address: Address,
    /// Through TLS, and whom to trust; plain where absent.
    pub tls: Option<Trust>,
    /// Who we are, where the server asks.
    pub credential: Option<Credential>,
    /// The database of the Rust interface, and where clients of the port begin.
    pub database: u32,
    /// A caller waits so long for an answer.
    pub call_timeout: Duration,
    /// Bound on connecting and on everything said before the first command.
    pub connect_timeout: Duration,
    /// A connection that is silent for so long while answers are owed is replaced.
    pub liveness_timeout: Duration,
    /// Between two attempts to connect.
    pub reconnect: BackoffConfig,
    /// Bytes that may wait to be sent on one connection.
    pub queue_bytes: usize,
    /// Replies that may be owed on one connection.
    pub max_owed: usize,
}

impl RedisSettings {
    /// The defaults, for the server of a URL: `redis://[user[:password]@]host[:port][/db]`, `rediss://`
    /// for TLS.
    ///
    /// # Errors
    /// One sentence that says what is wrong with the URL. It never repeats the password.
    pub fn from_url(url: &str) -> Result<RedisSettings, String> {
        let parsed = crate::url::parse(url)?;
        Ok(RedisSettings {
            address: parsed.address,
            tls: parsed.tls.then_some(Trust::WebRoots),
            credential: parsed.credential,
            database: parsed.database,
            call_timeout: Duration::from_millis(100),
            connect_timeout: Duration::from_secs(1),
            liveness_timeout: Duration::from_secs(5),
            reconnect: BackoffConfig {
                base: Duration::from_millis(50),
                max: Duration::from_secs(1),
                reset_after: Duration::from_secs(5),
            },
            queue_bytes: 64 << 20,
            max_owed: 100_000,
        })
    }

    /// What cannot work, in one sentence.
    ///
    /// # Errors
    /// When a timeout is zero or the liveness timeout is below the call timeout: every slow call
    /// would then cost the connection.
    pub fn check(&self) -> Result<(), String> {
        if self.call_timeout.is_zero() || self.connect_timeout.is_zero() {
            return Err("call_timeout_ms and connect_timeout_ms must be above 0".to_owned());
        }
        if self.liveness_timeout < self.call_timeout {
            return Err("liveness_timeout_ms must not be below call_timeout_ms".to_owned());
        }
        Ok(())
    }
}

/// How a store is guarded.
#[derive(Clone, PartialEq, Debug)]
pub struct GuardedSettings {
    /// Breaker and canary. Its two deadlines are taken from [`RedisSettings`].
    pub guard: GuardSettings,
    /// Bounds of the journal. Whether it has a file is said by `journal_file`.
    pub journal: JournalConfig,
    /// The journal's file; without one it lasts as long as this process.
    pub journal_file: Option<PathBuf>,
    /// Age up to which shed reads are answered from the near copy; zero: there is none.
    pub stale: Duration,
    /// Bytes of the near copy.
    pub near_bytes: u64,
    /// What all keys of this cache begin with: what a resume removes.
    pub key_prefix: Vec<u8>,
}

impl Default for GuardedSettings {
    /// The contract's defaults.
    fn default() -> GuardedSettings {
        GuardedSettings {
            guard: GuardSettings::default(),
            journal: JournalConfig::default(),
            journal_file: None,
            stale: Duration::ZERO,
            near_bytes: 64 << 20,
            key_prefix: Vec::new(),
        }
    }
}

/// The port that speaks the Redis protocol.
#[derive(Clone, PartialEq, Debug)]
pub struct PortSettings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What clients must say first; empty for nothing.
    pub password: String,
    /// Clients at once; one more is told so and closed.
    pub max_clients: usize,
    /// Bytes of replies that may wait for one client; one reply that is larger still finds a place.
    pub output_limit: usize,
    /// Bytes that one client may have sent and that were not taken yet: its largest command. Who
    /// sends more is told so and closed.
    pub input_limit: usize,
    /// Bytes of commands and replies that may be held for all clients together, beyond the first
    /// 64 KiB of each. Who asks for more when they are used up is told so.
    pub total_limit: usize,
    /// What a read is answered while it is shed.
    pub shed: Shed,
}

/// What a shed read is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shed {
    /// As if nothing were stored.
    #[default]
    Fallback,
    /// `-CIRCUITOPEN`, or `-TIMEOUT`.
    Error,
}
