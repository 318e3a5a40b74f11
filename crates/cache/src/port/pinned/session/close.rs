//! The end of a session.
//!
//! Invariant: whoever is still owed a reply gets one, or is closed; what was sent and not answered is
//! not carried out later over newer values.

use super::{ABORTED, Client, End, Owed, Session};
use crate::fault::Fault;
use crate::lane::Slot;
use crate::port::fallback::{self, Why};
use bytes::BytesMut;
use hedgerow_policy::breaker::Outcome;
use hedgerow_wire::resp::{Protocol, reply};

impl Session {
    /// Ends the session. What cannot be answered any more is answered here.
    pub(in crate::port::pinned) fn close(
        mut self,
        client: &mut Client,
        end: End,
    ) -> Result<(), ()> {
        client.held.elsewhere = 0;
        let owes = self.owed.iter().any(|owed| !matches!(owed, Owed::Known(_)));
        match end {
            End::Done => {
                let clean = !self.used_up && self.from_store.is_empty() && !self.scanner.midway();
                if clean {
                    client.shared.pinned.keep(self.own);
                }
                Ok(())
            }
            End::Gone => {
                if owes {
                    self.end_at_the_store();
                }
                // A client that is to be closed is told first.
                let told = (client.closing || self.leaving) && !client.out.is_empty();
                client.closing = true;
                if told { Ok(()) } else { Err(()) }
            }
            End::Failed(fault) => {
                if let Some(permit) = self.permit.take() {
                    let outcome = match fault {
                        Fault::Timeout => Outcome::Timeout,
                        _ => Outcome::Connection,
                    };
                    self.remote.keeper.settle(permit, outcome);
                }
                if owes {
                    self.end_at_the_store();
                }
                let farewell =
                    |owed: &Owed| matches!(owed, Owed::Counted(_, change, _) if !change.joins);
                // Some of its answers may have come, and how many were to is not always known.
                let midway = self.owed.iter().any(farewell);
                if self.subscriptions.any() || self.leaving || midway {
                    // A subscriber has to notice that messages are lost.
                    client.closing = true;
                    return Err(());
                }
                for owed in std::mem::take(&mut self.owed) {
                    match owed {
                        Owed::Known(bytes) => client.out.extend_from_slice(&bytes),
                        // Its EXEC was never sent.
                        Owed::Aborted(_) => client.out.extend_from_slice(ABORTED),
                        Owed::Store(..) | Owed::Counted(..) => {
                            fallback::error(&mut client.out, Why::Fault(&fault));
                        }
                    }
                }
                if self.transaction || self.watching {
                    // Its end will say that nothing of it was done.
                    client.begin_transaction(false);
                }
                Ok(())
            }
        }
    }

    /// Makes sure that what was sent is not carried out later, over newer values.
    fn end_at_the_store(&mut self) {
        let identity = &self.own.identity;
        let mut out = BytesMut::new();
        let mut commands = 0;
        if let (true, Some(id), Some(address)) =
            (identity.can_be_ended(), identity.id, &identity.address)
        {
            let id = id.to_string();
            let args: [&[u8]; 6] = [b"CLIENT", b"KILL", b"ID", id.as_bytes(), b"ADDR", address];
            reply::command(&mut out, &args);
            commands += 1;
        }
        commands += self.doubts.write_removal(&mut out);
        if commands == 0 {
            return;
        }
        // On the lane of the writes: ahead of whatever is written from now on.
        let lane = self.remote.lanes.lane(self.own.of.0, Protocol::Resp2);
        let slot = Slot::next(None, commands);
        if lane.submit(out.freeze(), commands, &slot).is_ok() {
            tokio::spawn(async move { slot.settled().await });
        }
    }
}
