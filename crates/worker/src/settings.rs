//! What a pool is told at start. Plain values; where they come from is the binary's business.

use hedgerow_policy::pool::PoolConfig;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Where the workers of a pool come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// Processes this pool starts and supervises.
    Supervised(Launch),
    /// Sockets of workers that somebody else starts: same queue, same accounting, no supervision.
    Sockets(Vec<PathBuf>),
}

/// How one worker process is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// The program and its arguments, already split. `{socket}` in an argument is replaced by the
    /// socket's path; where none has it, `--socket PATH` is appended.
    pub command: Vec<String>,
    /// Working directory; the gateway's own where absent.
    pub cwd: Option<PathBuf>,
    /// Added to the environment; wins over what the pool sets.
    pub env: BTreeMap<String, String>,
    /// Where the sockets are made. A private directory is made and removed where absent.
    pub socket_dir: Option<PathBuf>,
    /// Between SIGTERM and SIGKILL to the process group.
    pub kill_grace: Duration,
}

/// A pool's settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Where the workers come from.
    pub source: Source,
    /// Bounds of the pool's decisions: size, queue, backoff, recycling.
    pub pool: PoolConfig,
    /// Bound on connecting to a worker's socket.
    pub connect_timeout: Duration,
    /// Bound on the wait for a worker's answer, and for each further piece of it.
    pub read_timeout: Duration,
    /// Bound on the silence between two chunks of a stream.
    pub stream_idle_timeout: Duration,
    /// Bytes of an answer read ahead of a slow client before the worker has to wait.
    pub answer_buffer: usize,
    /// Bytes of one worker's output line kept; the rest of the line is dropped.
    pub output_line_limit: usize,
}
