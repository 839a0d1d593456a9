//! What clients read.

use super::{Answer, Asked, AtOnce, Lost, Progress, Shard, Sighted, Turn};
use crate::message::{Begun, Found, LONGEST_PIECE, Piece};
use fulmar_kv::{Error, Expected, Interval, Object, ObjectId, Part, Timestamp, TransactionId, View};
use fulmar_node::NodeId;
use std::sync::Arc;

/// Answers of level 0 hold at most so many bytes of cells, if a single cell is not larger.
const LARGEST_PART: usize = 256 << 10;

/// What a reader wants.
#[derive(Clone, Copy)]
pub(in super::super) struct Wanted<'a> {
    pub(in super::super) object: ObjectId,
    pub(in super::super) part: Part<'a>,
    /// So many bytes of cells, about.
    pub(in super::super) bytes: u64,
    pub(in super::super) begun: Option<Begun>,
}

impl Wanted<'_> {
    fn bytes(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(LARGEST_PART).min(LARGEST_PART)
    }
}

/// An inner node, as it is answered.
fn inner(node: Arc<Object>, begun: Option<Begun>) -> Found {
    if node.size() > LONGEST_PIECE {
        Found::Piece(Piece::of(node.id(), &node.encoded(), begun))
    } else {
        Found::Object(node)
    }
}

/// What a snapshot sees of a leaf, as it is answered.
fn seen(leaf: ObjectId, view: &View<'_>, begun: Option<Begun>) -> Found {
    if view.size() > LONGEST_PIECE {
        Found::Piece(Piece::of(leaf, &view.encoded(), begun))
    } else {
        Found::Object(Arc::new(view.copy()))
    }
}

impl Shard {
    /// What a snapshot saw may be forgotten if the server has begun anew since, or has lost its holder.
    pub(in super::super) fn require_readable(&self, at: Timestamp) -> Result<(), Error> {
        if at < self.database.oldest_snapshot() { Err(Error::SnapshotGone) } else { Ok(()) }
    }

    /// An inner node, or a part of a leaf.
    pub(super) fn read(
        &mut self,
        asked: &Asked,
        wanted: Wanted<'_>,
        sight: &Sighted,
        turn: &mut Turn<'_>,
    ) -> Result<Progress, Error> {
        let opened = sight.at;
        self.require_readable(opened)?;
        self.reads += 1;
        // No commit to come shall be one that this snapshot should have seen.
        self.database.storage().advance(opened, Timestamp(0));
        let at = self.beneath_the_lost(opened)?;
        if let Some(expected) = &sight.expected
            && let Some(progress) = self.refute(expected, opened, at)?
        {
            return Ok(progress);
        }
        let Wanted { object: mut id, part, begun, .. } = wanted;
        let (mut found, mut by) = (None, None);
        if let Some(mut object) = self.database.read(id)? {
            if object.level() > 0 {
                found = Some(inner(object, begun));
            } else {
                if !object.holds(part)
                    && let Some(right) = self.leaf_from(&object, part)?
                {
                    (id, object) = (right.id(), right);
                }
                if let Some(view) = object.view(part, at, wanted.bytes()) {
                    let part = seen(id, &view, begun);
                    by = match &part {
                        Found::Object(part) => self.blocker(id, part.interval(), opened),
                        Found::Piece(_) => self.blocker(id, &view.interval(), opened),
                    };
                    found = Some(part);
                }
                if let Part::From(key) | Part::Before(Some(key)) = part {
                    self.heat.note(id, key);
                }
            }
        }
        if found.is_none() && sight.waits {
            // What is looked for may be here in a moment, and was then here at any time before.
            by = self.database.storage().pending(|pending| pending.restructurer(id));
        }
        if let Some(by) = by {
            return Ok(Progress::Blocked(by));
        }
        let answer = match found {
            _ if sight.is_new => Answer::Opened(opened, found),
            Some(found) => Answer::Found(found),
            None => Answer::Nothing,
        };
        self.show(asked, at, answer, turn);
        Ok(Progress::Done)
    }

    /// Up to when a snapshot sees what the disk has not lost. With what may be lost a commit that was told would be hidden, too, or one
    /// that another shard shows by then: of such snapshots nobody can say what they see.
    fn beneath_the_lost(&self, snapshot: Timestamp) -> Result<Timestamp, Error> {
        let Some(lost) = self.lost.as_ref().filter(|lost| lost.from <= snapshot) else { return Ok(snapshot) };
        let storage = self.database.storage();
        let is_known = lost.is_shared || storage.newest() >= lost.from;
        let failure = storage.failure().filter(|_| is_known);
        failure.map_or(Ok(Timestamp(lost.from.0 - 1)), Err)
    }

    /// Commits from this time on may not be on the disk. Replicas have their next leader look.
    pub(super) fn doubt(&mut self, from: Timestamp, is_shared: bool) {
        if self.is_replicated() {
            return;
        }
        let lost = self.lost.get_or_insert(Lost { from, is_shared });
        lost.from = lost.from.min(from);
        lost.is_shared |= is_shared;
    }

    /// What everybody sees from now on of an inner node or a part of a leaf, for somebody who reads nothing else, and if
    /// everybody sees what is expected. Nothing, if it cannot be told without asking where the clock is: then there is a
    /// version that the clock may not have reached, or somebody may be about to commit one.
    ///
    /// Whatever was acknowledged before has left a version or a lock in each cell that it changed; so it is seen, and no
    /// clock need be asked (Spanner, section 4.2.2, does so for reads of one shard).
    pub(in super::super) fn read_newest(
        &mut self,
        client: NodeId,
        wanted: Wanted<'_>,
        expected: Option<&Expected>,
        reached: Timestamp,
    ) -> Option<AtOnce> {
        if self.lost.is_some() {
            return None;
        }
        let sure = self.first_unsure().map_or(reached, |first| reached.min(Timestamp(first.0 - 1)));
        if let Some(expected) = expected {
            let known = self.settled(expected.object, sure)?;
            if !self.holds(expected, sure).ok()? {
                // If it was not just that, whoever expects it is told what it is by others.
                return Some(AtOnce::Unexpected);
            }
            self.nobody_changes(&known, &Interval::point(&expected.key))?;
        }
        let part = wanted.part;
        let mut found = self.settled(wanted.object, sure)?;
        if found.level() == 0 && !found.holds(part) {
            let right = self.leaf_from(&found, part).ok()??;
            found = self.settled(right.id(), sure)?;
        }
        let answer = if found.level() > 0 {
            AtOnce::Settled(inner(found, wanted.begun))
        } else {
            let view = found.view(part, sure, wanted.bytes())?;
            if view.size() > LONGEST_PIECE {
                // What comes next is to be of the same snapshot.
                return None;
            }
            let seen = view.copy();
            self.nobody_changes(&found, seen.interval())?;
            if let Part::From(key) | Part::Before(Some(key)) = part {
                self.heat.note(found.id(), key);
            }
            AtOnce::Settled(Found::Object(Arc::new(seen)))
        };
        self.users.insert(client);
        self.reads += 1;
        Some(answer)
    }

    /// An object that has no version after `sure`.
    fn settled(&self, id: ObjectId, sure: Timestamp) -> Option<Arc<Object>> {
        let found = self.database.read(id).ok()??;
        (found.level() > 0 || found.newest() <= sure).then_some(found)
    }

    fn nobody_changes(&self, object: &Object, interval: &Interval) -> Option<()> {
        self.blocker(object.id(), interval, Timestamp(u64::MAX)).is_none().then_some(())
    }

    pub(super) fn blocker(
        &self,
        object: ObjectId,
        interval: &Interval,
        at: Timestamp,
    ) -> Option<TransactionId> {
        self.database.storage().pending(|pending| pending.may_change(object, interval, at))
    }

    pub(super) fn holds(&self, expected: &Expected, at: Timestamp) -> Result<bool, Error> {
        let Some(object) = self.database.read(expected.object)? else { return Ok(false) };
        // If it has become an inner node, the client has to look for itself.
        Ok(object.level() == 0
            && object.covers(&expected.key)
            && object.get(&expected.key, at) == expected.value.as_deref())
    }
}
