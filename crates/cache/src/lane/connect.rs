//! What is said on a new connection before the first command.
//!
//! Invariant: a connection serves only after the server has told who it is, and after what its
//! predecessor may still do has been dealt with.

use crate::fault::Fault;
use crate::lane::Store;
use crate::lane::doubt::Doubts;
use crate::lane::stream::Stream;
use crate::settings::RedisSettings;
use bytes::{Bytes, BytesMut};
use hedgerow_clock::Clock;
use hedgerow_wire::resp::{Limits, Protocol, Scanner, Value, decode, reply};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Who a connection is to the server, so that it can be ended from another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: Option<i64>,
    pub(crate) address: Option<Bytes>,
    pub(crate) run_id: Option<Bytes>,
    /// Whether the server lets us end connections.
    pub(crate) may_kill: bool,
    pub(crate) databases: Option<u32>,
}

impl Identity {
    /// Whether a successor can make sure that this connection does nothing any more.
    pub(crate) fn can_be_ended(&self) -> bool {
        self.may_kill && self.id.is_some() && self.address.is_some() && self.run_id.is_some()
    }
}

/// A connection that may serve.
pub(crate) struct Greeted {
    pub(crate) stream: Stream,
    pub(crate) identity: Identity,
}

/// A connection that was lost with answers owed, and what it may still write.
#[derive(Debug, Clone)]
pub(crate) struct Predecessor {
    pub(crate) identity: Identity,
    pub(crate) doubts: Doubts,
}

/// Connects and greets, all within the connect timeout.
pub(crate) async fn connect(
    store: &Store,
    database: u32,
    protocol: Protocol,
) -> Result<Greeted, Fault> {
    let (clock, settings) = (store.clock, &store.settings);
    let limit = clock.now() + store.waits.connect();
    let work = async {
        let mut stream = store.tls.connect(&settings.address).await.map_err(|e| refused(&e))?;
        let identity = greet(&mut stream, settings, database, protocol).await?;
        Ok(Greeted { stream, identity })
    };
    clock.until(limit, work).await.unwrap_or_else(|| {
        Err(Fault::Unconnected("it did not accept or answer within the connect timeout".into()))
    })
}

fn refused(error: &io::Error) -> Fault {
    Fault::Unconnected(error.to_string())
}

async fn greet(
    stream: &mut Stream,
    settings: &RedisSettings,
    database: u32,
    protocol: Protocol,
) -> Result<Identity, Fault> {
    let mut out = BytesMut::new();
    // (what is said, whether it must succeed)
    let mut must = Vec::new();
    let mut say = |args: &[&[u8]], needed: bool| {
        reply::command(&mut out, args);
        must.push(needed);
    };
    if let Some(credential) = &settings.credential {
        match &credential.user {
            Some(user) => say(&[b"AUTH", user.as_bytes(), credential.password.as_bytes()], true),
            None => say(&[b"AUTH", credential.password.as_bytes()], true),
        }
    }
    if protocol == Protocol::Resp3 {
        say(&[b"HELLO", b"3"], true);
    }
    if database != 0 {
        say(&[b"SELECT", database.to_string().as_bytes()], true);
    }
    say(&[b"CLIENT", b"SETNAME", b"hedgerow"], false);
    say(&[b"CLIENT", b"ID"], false);
    say(&[b"CLIENT", b"INFO"], false);
    say(&[b"INFO", b"server"], false);
    // Nobody has this number: the answer only says whether we would be allowed.
    say(&[b"CLIENT", b"KILL", b"ID", b"9223372036854775807"], false);
    say(&[b"CONFIG", b"GET", b"databases"], false);
    let answers = exchange(stream, &out, must.len()).await?;
    for (answer, needed) in answers.iter().zip(&must) {
        match answer {
            Value::Error(text) if *needed => return Err(Fault::Answered(text.clone())),
            // Every command before the password is refused alike: say the reason once.
            Value::Error(text) if text.starts_with(b"NOAUTH") => {
                return Err(Fault::Answered(text.clone()));
            }
            _ => {}
        }
    }
    Ok(identity(answers))
}

fn identity(answers: Vec<Value>) -> Identity {
    let mut last = answers.into_iter().rev();
    let databases = last
        .next()
        .and_then(Value::into_elements)
        .and_then(|pair| std::str::from_utf8(pair.get(1)?.bytes()?).ok()?.parse().ok());
    let may_kill = matches!(last.next(), Some(Value::Integer(_)));
    let run_id = last.next().and_then(|info| field(info.bytes()?, b"run_id:", b'\n'));
    let address = last.next().and_then(|info| field(info.bytes()?, b" addr=", b' '));
    let id = last.next().and_then(|id| id.integer());
    Identity { id, address, run_id, may_kill, databases }
}

/// The value behind `name` in a text of the server, up to `end`.
fn field(text: &Bytes, name: &[u8], end: u8) -> Option<Bytes> {
    let from = text.windows(name.len()).position(|w| w == name)? + name.len();
    let rest = &text[from..];
    let length = rest.iter().position(|&b| b == end).unwrap_or(rest.len());
    let value = rest[..length].trim_ascii();
    (!value.is_empty()).then(|| text.slice_ref(value))
}

/// Makes sure that `old` does nothing any more, then removes what it may have written.
///
/// # Errors
/// When the server did not say that both was done: this connection must not serve.
pub(crate) async fn settle(
    greeted: &mut Greeted,
    old: &Predecessor,
    clock: Clock,
    within: Duration,
) -> Result<(), Fault> {
    let mut out = BytesMut::new();
    let mut commands = 0;
    // Another run of the server knows nothing of the old connection, and may have given its number
    // to somebody else.
    let same_server = old.identity.run_id == greeted.identity.run_id;
    if same_server
        && old.identity.can_be_ended()
        && greeted.identity.may_kill
        && let (Some(id), Some(address)) = (old.identity.id, &old.identity.address)
    {
        let id = id.to_string();
        reply::command(&mut out, &[b"CLIENT", b"KILL", b"ID", id.as_bytes(), b"ADDR", address]);
        commands += 1;
    }
    commands += old.doubts.write_removal(&mut out);
    if commands == 0 {
        return Ok(());
    }
    let limit = clock.now() + within;
    let work = exchange(&mut greeted.stream, &out, commands as usize);
    let answers = clock.until(limit, work).await.unwrap_or(Err(Fault::Timeout))?;
    for answer in answers {
        match answer {
            // A key that is no hash any more holds no such field.
            Value::Error(text) if text.starts_with(b"WRONGTYPE") => {}
            Value::Error(text) => return Err(Fault::Answered(text)),
            _ => {}
        }
    }
    Ok(())
}

/// Sends commands and reads as many replies.
async fn exchange(stream: &mut Stream, out: &[u8], replies: usize) -> Result<Vec<Value>, Fault> {
    let lost = |e: io::Error| Fault::Lost(e.to_string());
    stream.write_all(out).await.map_err(lost)?;
    stream.flush().await.map_err(lost)?;
    let mut held = BytesMut::with_capacity(8 << 10);
    let mut answers = Vec::new();
    let mut scanner = Scanner::new(Limits::STORE);
    while answers.len() < replies {
        let whole = scanner.scan(&held).map_err(|e| Fault::Protocol(e.to_string()))?;
        if whole.is_none() {
            if stream.read_buf(&mut held).await.map_err(lost)? == 0 {
                return Err(Fault::Lost("it closed the connection".into()));
            }
            continue;
        }
        // The reply is whole: this finds its end at once.
        let frame = decode(&mut held, Limits::STORE).map_err(|e| Fault::Protocol(e.to_string()))?;
        let Some(frame) = frame else { continue };
        answers.push(Value::read(&frame).map_err(|e| Fault::Protocol(e.to_string()))?);
    }
    Ok(answers)
}
