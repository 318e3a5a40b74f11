//! What a command is answered while it is not carried out.
//!
//! Invariant: as if nothing were stored, or nothing had been done; where that would be an invention,
//! an error that says why.

use crate::commands::{Class, Fallback, Row};
use crate::fault::Fault;
use crate::settings::Shed;
use bytes::BytesMut;
use hedgerow_wire::resp::{Protocol, reply};

/// Why a command was not carried out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why<'a> {
    /// The circuit is open, or the read may not pass what is owed.
    Shed,
    /// It was sent, and no answer came.
    Fault(&'a Fault),
}

/// Appends the answer. `count`: keys or fields it asked for.
pub(super) fn write(
    out: &mut BytesMut,
    protocol: Protocol,
    row: &Row,
    count: usize,
    why: Why<'_>,
    shed: Shed,
) {
    let must_say =
        row.fallback == Fallback::None || row.class == Class::Read && shed == Shed::Error;
    if must_say {
        return error(out, why);
    }
    match row.fallback {
        Fallback::Nil | Fallback::None => reply::null(out, protocol),
        Fallback::Nils => {
            reply::array(out, count);
            (0..count).for_each(|_| reply::null(out, protocol));
        }
        Fallback::Empty => reply::array(out, 0),
        Fallback::EmptyMap => reply::map(out, protocol, 0),
        Fallback::EmptySet => reply::set(out, protocol, 0),
        Fallback::Zero => reply::integer(out, 0),
        Fallback::NoKey => reply::integer(out, -2),
        Fallback::NoType => reply::status(out, "none"),
        Fallback::Ok => reply::status(out, "OK"),
        Fallback::Scan => {
            reply::array(out, 2);
            reply::bulk(out, b"0");
            reply::array(out, 0);
        }
    }
}

/// Appends the error.
pub(super) fn error(out: &mut BytesMut, why: Why<'_>) {
    reply::error(
        out,
        match why {
            Why::Shed => "CIRCUITOPEN the cache is shedding: nothing was sent to the store",
            Why::Fault(Fault::Timeout) => {
                "TIMEOUT the store did not answer in time; it may have been carried out"
            }
            Why::Fault(Fault::Lost(_)) => {
                "STORELOST the connection to the store was lost; it may have been carried out"
            }
            Why::Fault(Fault::Busy) => {
                "STOREBUSY too much is waiting for the store; nothing was sent"
            }
            Why::Fault(_) => "STOREDOWN there is no connection to the store; nothing was sent",
        },
    );
}

/// How many nulls a list of nulls has.
pub(super) fn count(row: &Row, args: usize) -> usize {
    // HMGET has the key in front of its fields.
    let before = if row.name == "HMGET" { 2 } else { 1 };
    args.saturating_sub(before)
}
