//! The state of one replica, copied to another part by part, while both go on.
//!
//! A part is what the donor holds of some objects after all that it has committed, which is no less than the copier has. So what
//! the copier carries out from its log afterwards, blind writes over objects that are newer in part, brings them to where all others are,
//! however long the rest takes, and whatever is written meanwhile: no log is kept for it.

use super::super::message::{CopiedPart, Message};
use super::replicas::{Hosted, Place};
use super::{Server, Turn};
use crate::ObjectId;
use crate::replicated::Part;
use fulmar_node::{NodeId, Outbox, Process, Time};
use fulmar_replication::Wish;

/// One that was asked for so often is asked of another.
const ATTEMPTS: u32 = 8;

/// The state of another replica on its way to here.
pub(super) struct Copying {
    from: NodeId,
    attempts: u32,
}

impl Hosted {
    fn ask_part(&self, (database, group): Place, turn: &mut Turn<'_>) {
        if let Some(copying) = &self.copying {
            turn.send(copying.from, Message::Copy { database, group, from: self.entries.copied() });
        }
    }

    /// Begins to copy the state of another, or goes on after a crash.
    pub(super) fn copy_from(&mut self, other: NodeId, place: Place, turn: &mut Turn<'_>) {
        self.copying = Some(Copying { from: other, attempts: 0 });
        self.ask_part(place, turn);
    }

    /// Asks again for what has not come.
    pub(super) fn copy_on(&mut self, place: Place, turn: &mut Turn<'_>) {
        let Some(mut copying) = self.copying.take() else { return };
        copying.attempts += 1;
        if copying.attempts > ATTEMPTS {
            copying = Copying { from: self.next_donor(turn.site.me, copying.from), attempts: 0 };
        }
        self.copying = Some(copying);
        self.ask_part(place, turn);
    }

    fn next_donor(&self, me: NodeId, last: NodeId) -> NodeId {
        let others: Vec<_> = self.replica.group().nodes().filter(|node| *node != me).collect();
        let place = others.iter().position(|node| *node == last).map_or(0, |place| place + 1);
        others.get(place % others.len().max(1)).copied().unwrap_or(last)
    }
}

impl Server {
    /// Another server wants to copy the replica here.
    pub(super) fn give_part(
        &mut self,
        place: Place,
        to: NodeId,
        from: ObjectId,
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        let Some(hosted) = self.replicas.get(&place) else { return };
        if hosted.replica.is_copying() || hosted.is_broken {
            return;
        }
        let bytes = self.directory.options().copied_bytes;
        // Who asks and is not answered asks another.
        let Ok(Part { upto, entries, next }) = hosted.entries.part(from, bytes) else { return };
        let (database, group) = place;
        let part = CopiedPart { upto, from, entries, next };
        self.site.turn(now, out).send(to, Message::Copied { database, group, part });
    }

    /// A part of another replica has come.
    pub(super) fn take_part(
        &mut self,
        place: Place,
        from: NodeId,
        part: CopiedPart,
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        let Some(hosted) = self.replicas.get_mut(&place).filter(|hosted| !hosted.is_broken) else { return };
        let CopiedPart { upto, from: begin, entries, next } = part;
        let Some(copying) = hosted.copying.as_mut().filter(|copying| copying.from == from) else { return };
        if begin != hosted.entries.copied() || upto < hosted.replica.committed() {
            return;
        }
        copying.attempts = 0;
        if let Err(why) = hosted.entries.replace(next, entries) {
            return self.fail_replica(place, why, now, out);
        }
        let is_whole = next.is_none();
        if is_whole {
            hosted.copying = None;
        } else {
            hosted.ask_part(place, &mut self.site.turn(now, out));
        }
        let wish = Wish::Copied { upto, is_whole };
        self.step_replica(place, now, out, |replica, out| replica.request(now, wish, out));
    }
}
