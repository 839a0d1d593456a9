//! The state of one replica, copied to another part by part, while the first goes on.

use super::super::message::{CopiedPart, Message};
use super::replicas::{Hosted, Place};
use super::{Server, Turn};
use crate::ObjectId;
use fulmar_node::{NodeId, Outbox, Process, Time};
use fulmar_replication::{Checkpoint, Wish};
use std::sync::Arc;

/// A part holds so many bytes of entries, or one object.
const PART_BYTES: usize = 64 << 10;
/// One that was asked for so often is asked of another.
const ATTEMPTS: u32 = 8;

/// The state of another replica on its way to here. Meanwhile this one is deaf.
pub(super) struct Copying {
    from: NodeId,
    checkpoint: Option<Arc<Checkpoint>>,
    next: ObjectId,
    attempts: u32,
}

impl Copying {
    fn of(from: NodeId) -> Self {
        Self { from, checkpoint: None, next: ObjectId(0), attempts: 0 }
    }

    fn ask_part(&self, (database, group): Place, turn: &mut Turn<'_>) {
        turn.send(self.from, Message::Copy { database, group, from: self.next });
    }
}

impl Hosted {
    /// Begins to copy the state of another, if none is on its way.
    pub(super) fn copy_from(&mut self, other: NodeId, place: Place, turn: &mut Turn<'_>) {
        if self.copying.is_none() {
            self.copying.insert(Copying::of(other)).ask_part(place, turn);
        }
    }

    /// Asks again for what has not come.
    pub(super) fn copy_on(&mut self, place: Place, turn: &mut Turn<'_>) {
        let Some(mut copying) = self.copying.take() else { return };
        copying.attempts += 1;
        if copying.attempts > ATTEMPTS {
            copying = Copying::of(self.next_donor(turn.site.me, copying.from));
        }
        copying.ask_part(place, turn);
        self.copying = Some(copying);
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
        if hosted.copying.is_some() || hosted.is_broken {
            return;
        }
        // Who asks and is not answered asks another.
        let Ok((entries, next)) = hosted.entries.part(from, PART_BYTES) else { return };
        let checkpoint = (from == ObjectId(0)).then(|| hosted.replica.checkpoint().clone());
        let (database, group) = place;
        let part = CopiedPart { checkpoint, from, entries, next };
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
        let Some(hosted) = self.replicas.get_mut(&place) else { return };
        let Some(copying) = hosted.copying.as_mut() else { return };
        if (copying.from, copying.next) != (from, part.from) {
            return;
        }
        if let Err(why) = hosted.entries.replace((part.from, part.next), part.entries) {
            return self.fail_replica(place, why, now, out);
        }
        copying.checkpoint = part.checkpoint.or_else(|| copying.checkpoint.take());
        copying.attempts = 0;
        if let Some(next) = part.next {
            copying.next = next;
            return copying.ask_part(place, &mut self.site.turn(now, out));
        }
        let checkpoint = copying.checkpoint.take();
        hosted.copying = None;
        if let Some(checkpoint) = checkpoint {
            let wish = Wish::Adopt(checkpoint);
            self.step_replica(place, now, out, |replica, out| replica.request(now, wish, out));
        }
    }
}
