//! The one failure model: every failure has exactly one class.
//!
//! Invariant: a `Failure` says what went wrong, at whom, and whether the same work may be tried
//! again. It does not know statuses or headers; only the gateway's `failure` module does.
//! (The idea: pingora's error with a source and a retry decision in the value itself.)

use std::borrow::Cow;
use std::fmt;

macro_rules! classes {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)+) => {
        /// The class of a failure. The names are what clients, logs and metrics see.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum Class { $($(#[$doc])* $variant,)+ }

        impl Class {
            /// Every class, in the order of the contract's table.
            pub const ALL: &'static [Class] = &[$(Class::$variant,)+];

            /// The class as headers, log lines and metric labels spell it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Class::$variant => $name,)+ }
            }

            /// The class of that name, if there is one.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Class> {
                match name { $($name => Some(Class::$variant),)+ _ => None }
            }
        }
    };
}

classes! {
    /// The exchange with the worker broke.
    TransportError => "transport_error",
    /// The worker reported an uncaught error, or the application could not boot.
    WorkerRuntimeError => "worker_runtime_error",
    /// The application returned something that is no HTTP response.
    AppContractError => "app_contract_error",
    /// No usable answer within the connect, read or request timeout.
    Timeout => "timeout",
    /// No idle worker and no queue, or every worker that once was ready is down.
    WorkerPoolExhausted => "worker_pool_exhausted",
    /// No idle worker and the queue is full.
    WorkerQueueFull => "worker_queue_full",
    /// Waited in the queue, and no worker came in time.
    WorkerQueueTimeout => "worker_queue_timeout",
    /// Connect, read or decode of an upstream failed, or it answered a status the plan refuses.
    UpstreamError => "upstream_error",
    /// A plan names a transport this gateway does not speak.
    UnsupportedTransport => "unsupported_transport",
    /// A plan names a codec this gateway does not speak.
    UnsupportedCodec => "unsupported_codec",
    /// A plan names a mapper this gateway does not know.
    UnsupportedMapper => "unsupported_mapper",
    /// A plan asks for a destination this gateway does not allow.
    UpstreamForbidden => "upstream_forbidden",
    /// A configured timeout or a deadline ended an upstream call.
    UpstreamTimeout => "upstream_timeout",
    /// The upstream's breaker sheds.
    CircuitOpen => "circuit_open",
    /// The request breaks HTTP or the contract.
    BadRequest => "bad_request",
    /// The request did not arrive in time.
    RequestTimeout => "request_timeout",
    /// The request body is over the limit, or does not fit what the worker understands.
    RequestTooLarge => "request_too_large",
    /// The request head is over the limit.
    HeadersTooLarge => "headers_too_large",
    /// The gateway is shutting down.
    Draining => "draining",
    /// Nothing answers at that path.
    NotFound => "not_found",
    /// The client went away; nobody is left to answer.
    ClientClosed => "client_closed",
}

/// At whom a failure happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum At {
    /// The client: its request, or its leaving.
    Client,
    /// The gateway itself.
    Gateway,
    /// The wait for a worker.
    Queue,
    /// A worker process, or the exchange with it.
    Worker,
    /// An HTTP service that was called.
    Upstream,
    /// The cache store.
    Store,
}

/// Which wait a timeout ended. The name is the `timeout_phase` of the event line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Waiting in the queue.
    Queue,
    /// Connecting to the worker.
    Connect,
    /// Waiting for the worker's answer.
    Read,
    /// The bound over the whole request.
    Request,
}

impl Phase {
    /// The phase as the event line spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Queue => "queue",
            Phase::Connect => "connect",
            Phase::Read => "read",
            Phase::Request => "request",
        }
    }
}

/// Whether the same work may be tried again without running twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Retry {
    /// It may have run; a second try could run it twice.
    Never,
    /// Not one byte of it was written.
    Unsent,
}

/// Why there is no connection to a service, where that is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// It refused the connection.
    Refused,
    /// The network gave up waiting for it.
    TimedOut,
    /// There is no way to its address.
    Unroutable,
    /// Its name could not be resolved.
    Name,
    /// Its certificate is none that we trust.
    Certificate,
    /// It ended the handshake of TLS with an alert.
    Alert,
    /// The handshake of TLS broke in another way.
    Handshake,
}

/// One failure: its class, at whom, and what the log may say of it.
///
/// `message` and `exception` come from a worker or an upstream and are for the log; the client
/// sees the class, and the exception's class name where the configuration allows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The one class.
    pub class: Class,
    /// At whom it happened.
    pub at: At,
    /// Whether the same work may be tried again.
    pub retry: Retry,
    /// The wait that ended, where a timeout is the cause.
    pub phase: Option<Phase>,
    /// Why a service was not reached, where that is the failure and it is known.
    pub cause: Option<Cause>,
    /// For the log only. Never sent to a client.
    pub message: Cow<'static, str>,
    /// What a worker reported of itself.
    pub report: Option<Box<Report>>,
    /// When to come back, in whole seconds, where that was measured.
    pub retry_after_s: Option<u32>,
}

/// A worker's own report of a failure.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// `x-worker-error-class` as sent; kept on the answer to the client.
    pub class: String,
    /// `x-worker-exception`, a class name.
    pub exception: Option<String>,
    /// `x-worker-error`, for the log only.
    pub message: Option<String>,
}

impl Failure {
    /// A failure of `class` at `at`, not to be retried.
    #[must_use]
    pub fn new(class: Class, at: At, message: impl Into<Cow<'static, str>>) -> Failure {
        Failure {
            class,
            at,
            retry: Retry::Never,
            phase: None,
            cause: None,
            message: message.into(),
            report: None,
            retry_after_s: None,
        }
    }

    /// The same, with the wait that ended.
    #[must_use]
    pub fn in_phase(mut self, phase: Phase) -> Failure {
        self.phase = Some(phase);
        self
    }

    /// The same, with why the service was not reached.
    #[must_use]
    pub fn because(mut self, cause: Option<Cause>) -> Failure {
        self.cause = cause;
        self
    }

    /// The same, marked as not yet sent: it may be tried again.
    #[must_use]
    pub fn unsent(mut self) -> Failure {
        self.retry = Retry::Unsent;
        self
    }

    /// The same, with when to come back (whole seconds).
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Failure {
        self.retry_after_s = Some(seconds);
        self
    }

    /// The same, with a worker's own report.
    #[must_use]
    pub fn reported(mut self, report: Report) -> Failure {
        self.report = Some(Box::new(report));
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class.name(), self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_read_back() {
        for &class in Class::ALL {
            assert_eq!(Class::from_name(class.name()), Some(class));
        }
        assert_eq!(Class::from_name("worker_on_fire"), None);
    }
}
