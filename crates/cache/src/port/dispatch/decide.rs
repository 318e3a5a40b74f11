//! What becomes of one command.
//!
//! Invariant: the class of the command's row and the answers of the policies decide, and nothing
//! else does.

use super::{Look, Next, write_command};
use crate::commands::{Class, Undoes, refusal};
use crate::counts::ReadResult;
use crate::guarded::{Remote, hash};
use crate::keeper::{Behind, write_batch};
use crate::port::client::{At, Client};
use crate::port::fallback::{self, Why};
use crate::port::finish::{Item, invalid, journal_it};
use bytes::BytesMut;
use hedgerow_policy::breaker::State;
use hedgerow_policy::guard::{Permit, ReadDecision};
use hedgerow_policy::journal::{Item as Invalid, Mark};
use hedgerow_wire::resp::reply;
use std::sync::Arc;

impl Client {
    pub(super) fn decide(&mut self, look: &Look<'_>) -> Next {
        let row = look.row;
        if !self.known && !matches!(row.name, "AUTH" | "HELLO" | "QUIT" | "RESET") {
            self.answer_in_turn(look, |out, _| {
                reply::error(out, "NOAUTH Authentication required.");
            });
            return Next::Done;
        }
        if self.transaction.is_some() && row.class != Class::Foreign {
            self.send_run(look.input, look.now);
            self.in_transaction(look);
            return Next::Done;
        }
        match row.class {
            Class::Local => {
                self.send_run(look.input, look.now);
                self.local(look);
                return Next::Done;
            }
            Class::Foreign => {
                self.send_run(look.input, look.now);
                self.closing = true;
                return Next::Done;
            }
            Class::Refused => {
                let text = refusal(&look.args);
                self.answer_in_turn(look, |out, _| reply::error(out, &text));
                return Next::Done;
            }
            _ => {}
        }
        let Some(remote) = self.shared.guarded.remote().cloned() else {
            self.embedded(look);
            return Next::Done;
        };
        match row.class {
            Class::Pinned => self.pin(look),
            Class::Read | Class::Meaning => self.ask(&remote, look),
            _ => self.write(&remote, look),
        }
    }

    /// A command that needs a connection of its own: once all before it is answered.
    fn pin(&mut self, look: &Look<'_>) -> Next {
        let (name, state) = (look.row.name, self.shared.guarded.keeper().guard.state());
        match name {
            // Outside a transaction these mean nothing that the store has to know.
            "UNWATCH" => self.answer_in_turn(look, |out, _| reply::status(out, "OK")),
            "EXEC" | "DISCARD" => self.answer_in_turn(look, |out, _| {
                reply::error(out, &format!("ERR {name} without MULTI"));
            }),
            "MULTI" if state != State::Closed => {
                self.begin_transaction(false);
                self.answer_in_turn(look, |out, _| reply::status(out, "OK"));
            }
            _ if state == State::Open => {
                self.answer_in_turn(look, |out, _| fallback::error(out, Why::Shed));
            }
            _ => {
                self.wants_pin = true;
                return Next::Wait;
            }
        }
        Next::Done
    }

    /// A read, or a command whose reply carries meaning.
    fn ask(&mut self, remote: &Arc<Remote>, look: &Look<'_>) -> Next {
        let (row, now, keeper) = (look.row, look.now, &remote.keeper);
        if matches!(row.name, "INFO" | "ROLE")
            && (look.args.is(1, "hedgerow") || keeper.guard.state() == State::Open)
        {
            self.informed(look);
            return Next::Done;
        }
        let lane_of = self.lane_of(row);
        if self.must_wait(lane_of) {
            return Next::Wait;
        }
        let lane = remote.lanes.lane(lane_of.0, lane_of.1);
        if row.class == Class::Read && row.keys_of(&look.args).any(|key| lane.hides(key)) {
            keeper.counts.read(ReadResult::Miss);
            self.answer_instead(look, Why::Shed);
            return Next::Done;
        }
        if keeper.owing() {
            // What the read has to go behind is handed to the lane now, and what this client has
            // gathered goes before that.
            self.send_run(look.input, now);
        }
        let ticket = if row.class == Class::Read {
            keeper.read(now, &lane, self.database).map(|t| (t.behind(), t.permit))
        } else {
            match keeper.guard.read(now) {
                ReadDecision::Call(permit) => Some((Behind::NOTHING, permit)),
                ReadDecision::Shed => None,
            }
        };
        let Some((behind, permit)) = ticket else {
            self.shed(remote, look);
            return Next::Done;
        };
        if row.class == Class::Meaning && remote.near.on() {
            row.keys_of(&look.args).for_each(|key| remote.near.forget(self.database, key, now));
        }
        self.join(look, permit, behind, None)
    }

    /// A repair or an invalidation.
    fn write(&mut self, remote: &Arc<Remote>, look: &Look<'_>) -> Next {
        let (row, keeper) = (look.row, &remote.keeper);
        if self.must_wait(self.lane_of(row)) {
            return Next::Wait;
        }
        self.note_write(remote, look);
        keeper.void_leases(row, &look.args);
        let Some(permit) = keeper.write(look.now) else {
            keeper.counts.skipped();
            let on_disk = match row.class {
                Class::Invalidation => journal_it(&self.shared, self.database, &look.args),
                _ => None,
            };
            let Some(on_disk) = on_disk else {
                self.answer_instead(look, Why::Shed);
                return Next::Done;
            };
            self.send_run(look.input, look.now);
            let mut bytes = BytesMut::new();
            let shed = self.shared.settings.shed;
            fallback::write(&mut bytes, self.protocol, row, 0, Why::Shed, shed);
            self.later(bytes.len(), At::Back, async move {
                on_disk.wait().await;
                bytes.freeze()
            });
            return Next::Done;
        };
        if row.class == Class::Repair && keeper.owing() {
            return self.save_behind(remote, look, permit);
        }
        let mark = if row.class == Class::Invalidation { keeper.mark() } else { None };
        self.join(look, permit, Behind::NOTHING, mark)
    }

    /// A save while something is owed: what it overwrites is removed ahead of it, in one piece.
    fn save_behind(&mut self, remote: &Remote, look: &Look<'_>, permit: Permit) -> Next {
        self.send_run(look.input, look.now);
        let (row, args) = (look.row, &look.args);
        let items: Vec<Invalid> = match row.undoes {
            Undoes::Fields => {
                args.from(2).step_by(2).map(|f| Invalid::field(args.get(1), f)).collect()
            }
            Undoes::Keys => row.keys_of(args).map(Invalid::key).collect(),
            // EXPIRE and the like overwrite nothing.
            Undoes::Nothing => Vec::new(),
        };
        let mut out = BytesMut::new();
        let ahead = remote.keeper.ahead_of_save(self.database, &items).map(|batch| {
            let commands = write_batch(&batch, &mut out);
            Box::new((batch, commands))
        });
        let at = out.len();
        write_command(&mut out, args);
        let (permit, behind) = (Some(permit), Behind::NOTHING);
        let item = Item { row, permit, behind, count: 0, at, ahead, mark: None };
        self.send(out.freeze(), vec![item], self.lane_of(row), look.now);
        Next::Done
    }

    fn join(
        &mut self,
        look: &Look<'_>,
        permit: Permit,
        behind: Behind,
        mark: Option<Mark>,
    ) -> Next {
        let count = fallback::count(look.row, look.args.len());
        self.run.lane = Some(self.lane_of(look.row));
        if self.run.items.capacity() == 0 {
            self.run.items = std::mem::take(&mut self.spare_items);
        }
        let (row, at) = (look.row, self.run.length);
        Next::Join(Item { row, permit: Some(permit), behind, count, at, ahead: None, mark })
    }

    /// Answers a read or a command with meaning that may not go out.
    fn shed(&mut self, remote: &Remote, look: &Look<'_>) {
        let (row, keeper) = (look.row, &remote.keeper);
        if row.class == Class::Read {
            let near = &remote.near;
            let copy = (row.name == "GET" && near.on())
                .then(|| near.load(self.database, look.args.get(1), look.now))
                .flatten();
            if let Some(copy) = copy {
                keeper.counts.read(ReadResult::Stale);
                self.answer_in_turn(look, |out, _| reply::bulk(out, &copy));
                return;
            }
            keeper.counts.read(ReadResult::Shed);
        }
        keeper.stirred();
        self.answer_instead(look, Why::Shed);
    }

    /// What this process remembers of a key is void once it is written or removed.
    fn note_write(&self, remote: &Remote, look: &Look<'_>) {
        let (row, args, database) = (look.row, &look.args, self.database);
        match row.name {
            "FLUSHALL" => remote.near.forget_all(None),
            "FLUSHDB" => remote.near.forget_all(Some(database)),
            _ if remote.near.on() => {
                row.keys_of(args).for_each(|k| remote.near.forget(database, k, look.now));
            }
            _ => {}
        }
        if row.class == Class::Invalidation {
            match row.name {
                "FLUSHALL" | "FLUSHDB" => remote.keeper.purged.step_all(),
                _ => invalid(args, row)
                    .iter()
                    .for_each(|item| remote.keeper.purged.step(hash(&item.key))),
            }
        }
    }
}
