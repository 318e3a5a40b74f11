//! Waiting for the end of a connection that the store does not let us end.
//!
//! Invariant: it is gone when everything it owed was answered, or when the store closed it; not
//! before. Nothing is written to it any more.

use super::stream::Stream;
use bytes::{Buf, BytesMut};
use hedgerow_wire::resp::{Kind, Scanner};
use tokio::io::AsyncReadExt;

/// Returns once the connection can do nothing any more.
pub(super) async fn gone(
    mut stream: Stream,
    mut held: BytesMut,
    mut scanner: Scanner,
    mut unanswered: u64,
) {
    while unanswered > 0 {
        scanner.discard(&mut held);
        held.reserve(4 << 10);
        match stream.read_buf(&mut held).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        loop {
            match scanner.scan(&held) {
                Ok(Some(whole)) => {
                    held.advance(whole.length);
                    if whole.kind != Kind::Push {
                        unanswered = unanswered.saturating_sub(1);
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}
