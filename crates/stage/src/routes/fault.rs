//! What breaks the contract, one way a path. `/fault/reset` is seen earlier, while it is read.

use std::io;

use hedgerow_wire::frame::MAX_FRAME;

use super::{After, Call};
use crate::clock;
use crate::reply::Reply;

pub(super) fn serve(call: &Call<'_>, reply: &mut Reply<'_>, fault: &str) -> io::Result<After> {
    let id = serde_json::Value::from(reply.id()).to_string();
    match fault {
        "close" => return Ok(After::Close),
        "half" => {
            reply.connection().write(&100u32.to_be_bytes())?;
            reply.connection().write(&[b' '; 50])?;
            return Ok(After::Close);
        }
        "zero" => reply.connection().write(&[0; 4])?,
        "oversize" => reply.connection().write(&(MAX_FRAME as u32 + 1).to_be_bytes())?,
        "garbage" => reply.connection().write(b"HTTP/1.1 200 OK\r\n\r\nhello")?,
        "exact" => {
            let mut payload = format!("{{\"id\":{id},\"status\":200,\"body\":\"").into_bytes();
            payload.resize(MAX_FRAME - 2, b'x');
            payload.extend_from_slice(b"\"}");
            reply.raw(&payload)?;
            return Ok(After::Keep);
        }
        "notjson" => reply.raw(b"<h1>Fatal error</h1>")?,
        "array" => reply.raw(b"[]")?,
        "number" => reply.raw(b"200")?,
        "nostatus" => reply.raw(format!("{{\"id\":{id},\"body\":\"\"}}").as_bytes())?,
        "wrongid" => reply.raw(b"{\"id\":\"somebody-else\",\"status\":200,\"body\":\"late\"}")?,
        "badstatus" => {
            let status = call.text("status").unwrap_or("99");
            let status = match status.parse::<i64>() {
                Ok(number) => number.to_string(),
                Err(_) => serde_json::Value::from(status).to_string(),
            };
            reply.raw(format!("{{\"id\":{id},\"status\":{status},\"body\":\"\"}}").as_bytes())?;
            return Ok(After::Keep);
        }
        "late" => {
            clock::sleep_ms(call.number("ms", 1000));
            reply.text(200, "late\n")?;
            return Ok(After::Keep);
        }
        "exit" => std::process::exit(3),
        _ => {
            reply.text(404, "no such fault\n")?;
            return Ok(After::Keep);
        }
    }
    // The gateway is the one to give up on the connection: wait for it, so that the fault it sees
    // is the one that was asked for, and not a close.
    while !reply.connection().is_abandoned() {
        clock::sleep_ms(5);
    }
    Ok(After::Close)
}
