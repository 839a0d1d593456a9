//! The state of one replica, copied to another part by part, while both go on.
//!
//! A part is what the donor holds of some objects after all that it has committed, which is no less than the copier has. So what
//! the copier carries out from its log afterwards, blind writes over objects that are newer in part, brings them to where all others are,
//! however long the rest takes, and whatever is written meanwhile: no log is kept for it.
//!
//! A part goes in chunks, as an object that is not split yet may be as large as a commit: the copier asks for the next when one has come.
//! The donor keeps the part until the copier has all of it.
//!
//! *Known as:* state transfer, snapshot installation.

use super::replicas::{Hosted, Place};
use super::{Held, Turn};
use crate::map::Replicas;
use crate::message::{Chunk, Message};
use crate::replicated::Part;
use fulmar_kv::ObjectId;
use fulmar_node::{NodeId, Process};
use fulmar_replication::{SequenceNumber, Wish};

/// One that was asked for so often is asked of another; and a part that nobody has asked for during so many sweeps is not kept.
const ATTEMPTS: u32 = 8;

/// A chunk has so many times as many bytes as a part is made of: most parts are one.
const PARTS: usize = 4;

/// The state of another replica on its way to here.
pub(super) struct Copying {
    donor: NodeId,
    attempts: u32,
    /// What has come of the part that is asked for, and of which it is.
    bytes: Vec<u8>,
    of: (SequenceNumber, u64),
}

impl Copying {
    fn of(donor: NodeId) -> Self {
        Self { donor, attempts: 0, bytes: Vec::new(), of: Default::default() }
    }
}

/// A part that another copies.
pub(super) struct Given {
    from: ObjectId,
    upto: SequenceNumber,
    bytes: Vec<u8>,
    /// For how many sweeps nobody has asked for it.
    unasked: u32,
}

impl Hosted {
    fn ask_chunk(&self, (database, shard): Place, turn: &mut Turn<'_>) {
        if let Some(copying) = &self.copying {
            let (from, upto, offset) =
                (self.entries.copied(), self.replica.committed(), copying.bytes.len() as u64);
            turn.send(copying.donor, Message::Copy { database, shard, from, upto, offset });
        }
    }

    /// Begins to copy the state of another, or goes on after a crash.
    pub(super) fn copy_from(&mut self, other: NodeId, place: Place, turn: &mut Turn<'_>) {
        self.copying = Some(Copying::of(other));
        self.ask_chunk(place, turn);
    }

    /// Asks again for what has not come. Once a sweep.
    pub(super) fn copy_on(&mut self, place: Place, turn: &mut Turn<'_>) {
        self.given.retain(|_, given| {
            given.unasked += 1;
            given.unasked <= ATTEMPTS
        });
        let Some(mut copying) = self.copying.take() else { return };
        copying.attempts += 1;
        if copying.attempts > ATTEMPTS {
            copying = Copying::of(self.next_donor(turn.known.me, copying.donor));
        }
        self.copying = Some(copying);
        self.ask_chunk(place, turn);
    }

    fn next_donor(&self, me: NodeId, last: NodeId) -> NodeId {
        let others: Vec<_> = self.replica.group().nodes().filter(|node| *node != me).collect();
        let place = others.iter().position(|node| *node == last).map_or(0, |place| place + 1);
        others.get(place % others.len().max(1)).copied().unwrap_or(last)
    }

    /// Of the part that begins at `from`, and has in it what is committed up to `upto`, what comes after so many bytes; or its beginning, if
    /// it had to be made anew. Nothing, if there is none.
    fn chunk(
        &mut self,
        to: NodeId,
        (from, upto, offset): (ObjectId, SequenceNumber, u64),
        bytes: usize,
    ) -> Option<Chunk> {
        let is_it = |given: &Given| given.from == from && given.upto >= upto;
        let is_new = !self.given.get(&to).is_some_and(is_it);
        if is_new {
            let part = self.entries.part(from, bytes).ok().filter(|part| part.upto >= upto)?;
            self.given.insert(to, Given { from, upto: part.upto, bytes: part.encode(), unasked: 0 });
        }
        let given = self.given.get_mut(&to)?;
        given.unasked = 0;
        // What has come of another part is no beginning of this one, however alike.
        let offset = usize::try_from(offset).ok().filter(|offset| !is_new && *offset < given.bytes.len());
        let begin = offset.unwrap_or(0);
        let (upto, size, offset) = (given.upto, given.bytes.len() as u64, begin as u64);
        let rest = &given.bytes[begin..];
        Some(Chunk { from, upto, size, offset, bytes: rest[..rest.len().min(PARTS * bytes)].to_vec() })
    }
}

impl Held {
    /// Another server wants to copy the replica here.
    pub(super) fn give_chunk(
        &mut self,
        place: Place,
        to: NodeId,
        asked: (ObjectId, SequenceNumber, u64),
        turn: &mut Turn<'_>,
    ) {
        let bytes = self.directory.options().copied_bytes;
        let Some(hosted) = self.replicas.hosted.get_mut(&place) else { return };
        let is_to_hold = |replicas: &Replicas| replicas.are_on(to);
        let is_member =
            hosted.replica.group().contains(to) || turn.known.map.replicas(place).is_some_and(is_to_hold);
        // Who asks and is not answered asks another.
        if hosted.replica.is_copying() || hosted.is_broken || !is_member {
            return;
        }
        let Some(chunk) = hosted.chunk(to, asked, bytes) else { return };
        let (database, shard) = place;
        turn.send(to, Message::Copied { database, shard, chunk });
    }

    /// Some of another replica has come.
    pub(super) fn take_chunk(&mut self, place: Place, from: NodeId, chunk: Chunk, turn: &mut Turn<'_>) {
        let Some(hosted) = self.replicas.hosted.get_mut(&place).filter(|hosted| !hosted.is_broken) else {
            return;
        };
        let Some(copying) = hosted.copying.as_mut().filter(|copying| copying.donor == from) else { return };
        let is_asked_for = chunk.from == hosted.entries.copied() && chunk.upto >= hosted.replica.committed();
        if !is_asked_for || chunk.bytes.is_empty() {
            return;
        }
        if chunk.offset == 0 {
            (copying.bytes, copying.of) = (Vec::new(), (chunk.upto, chunk.size));
        }
        if (chunk.upto, chunk.size) != copying.of || chunk.offset != copying.bytes.len() as u64 {
            return;
        }
        copying.attempts = 0;
        copying.bytes.extend(chunk.bytes);
        if (copying.bytes.len() as u64) < chunk.size {
            return hosted.ask_chunk(place, turn);
        }
        let Some(Part { upto, entries, next }) = Part::decode(&std::mem::take(&mut copying.bytes)) else {
            return;
        };
        if let Err(why) = hosted.entries.replace(next, entries) {
            return self.fail_replica(place, why, turn);
        }
        let is_whole = next.is_none();
        if is_whole {
            hosted.copying = None;
        } else {
            hosted.ask_chunk(place, turn);
        }
        let wish = Wish::Copied { upto, is_whole };
        self.step_replica(place, turn, |replica, now, out| replica.request(now, wish, out));
    }
}
