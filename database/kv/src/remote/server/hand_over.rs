//! A group goes to another server: when the one that holds it is drained.
//!
//! Its leaves have gone to other groups before, while all went on. What is left is copied while nobody may use it: inner
//! nodes, small trees, what is written down of transactions. To clients and other groups it looks as if a server had
//! crashed and come back at another place: what a group only remembers is forgotten, and whoever was not answered asks
//! again.

use super::super::message::{DatabaseNumber, MapRequest, Message};
use super::{Server, Synced};
use crate::{Commit, Database, Error, GroupId, Moved, ObjectId, Restructuring, Timestamp};
use fulmar_node::{NodeId, Outbox, Time};
use std::cmp::Ordering;
use std::sync::Arc;

/// A part holds so many bytes, or one object.
const PART_BYTES: usize = 1 << 20;
/// A part that was sent so often without an answer goes to somebody who has forgotten those before it.
const PATIENCE: u32 = 20;

/// A group on its way.
pub(super) struct Leaving {
    database: Database,
    to: NodeId,
    /// Which part is underway, where it begins and the next one does, if there is one.
    number: u64,
    from: ObjectId,
    next: Option<ObjectId>,
    /// How often it was sent.
    sent: u32,
}

/// What has become of a part.
enum Taken {
    Nothing,
    /// It is here.
    Part,
    /// It was the last.
    Whole(Database),
}

/// Objects, and with the last ones where the group's commits and names go on.
type Part = (Vec<(ObjectId, Arc<[u8]>)>, Option<(Timestamp, u64)>);

impl Leaving {
    /// The part that is underway.
    fn part(&mut self) -> Result<Part, Error> {
        self.sent += 1;
        if self.sent > PATIENCE {
            (self.number, self.from, self.sent) = (0, ObjectId(0), 0);
        }
        let storage = self.database.storage();
        let (mut objects, mut bytes) = (Vec::new(), 0);
        self.next = storage.next(self.from)?;
        while let Some(object) = self.next.filter(|_| bytes < PART_BYTES) {
            if let Some(Moved { object: stored, .. }) = storage.moved(object)? {
                bytes += stored.len();
                objects.push((object, stored));
            }
            self.next = storage.next(ObjectId(object.0 + 1))?;
        }
        let last = self.next.is_none().then(|| (storage.last(), storage.next_object()));
        Ok((objects, last))
    }
}

impl Server {
    /// If this server is to be empty: hands over what its leaves have left.
    pub(super) fn hand_over(&mut self, now: Time, out: &mut Outbox<Self>) {
        let me = self.site.me;
        if !self.site.clock.is_known() || !self.site.map.draining.contains(&me) {
            return;
        }
        let held: Vec<_> = self.site.map.held(me).collect();
        let done: Vec<_> = self.leaving.keys().copied().filter(|place| !held.contains(place)).collect();
        for place in done {
            self.leaving.remove(&place);
            if let Some(placement) = self.site.map.databases.get(&place.0) {
                // It is nobody's: what is left of it takes room, and no more.
                let _ = self.directory.discard(&placement.name, place.1);
            }
        }
        for place in held {
            if self.site.map.leaving.contains_key(&place) {
                self.hand_part(now, place, out);
            } else if matches!(self.holds(place, out, now), Ok(true))
                && let Some(to) = self.successor()
                && self.groups.get_mut(&place).is_some_and(super::Group::is_steady)
            {
                let turn = &mut self.site.turn(now, out);
                turn.send(turn.site.clock.keeper(), Message::Ask(MapRequest::Leave(place.0, place.1, to)));
            }
        }
    }

    /// What is underway of a group that this server is to hand over.
    fn leaving(&mut self, place: (DatabaseNumber, GroupId)) -> Result<Option<&mut Leaving>, Error> {
        let Some(to) = self.site.map.leaving.get(&place).copied() else { return Ok(None) };
        let Some(placement) = self.site.map.databases.get(&place.0) else { return Ok(None) };
        if !self.leaving.contains_key(&place) {
            let database = match self.groups.remove(&place) {
                Some(group) => group.database().clone(),
                None => self.directory.make(&placement.name, place.1)?,
            };
            let leaving = Leaving { database, to, number: 0, from: ObjectId(0), next: None, sent: 0 };
            self.leaving.insert(place, leaving);
        }
        Ok(self.leaving.get_mut(&place))
    }

    /// Who holds least, and stays.
    fn successor(&self) -> Option<NodeId> {
        let stays = |server: &NodeId| !self.site.map.draining.contains(server);
        let loads = self.site.loads.iter().filter(|(server, _)| stays(server));
        loads.min_by_key(|(_, load)| load.objects).map(|(server, _)| *server)
    }

    /// Sends the part that is underway, perhaps again.
    fn hand_part(&mut self, now: Time, place: (DatabaseNumber, GroupId), out: &mut Outbox<Self>) {
        // A disk that cannot be read now is tried again.
        let Ok(Some(leaving)) = self.leaving(place) else { return };
        let Ok((objects, last)) = leaving.part() else { return };
        let ((database, group), to, number) = (place, leaving.to, leaving.number);
        let message = Message::HandOver { database, group, number, objects, last };
        self.site.turn(now, out).send(to, message);
    }

    /// A part has arrived.
    pub(super) fn hand_on(
        &mut self,
        now: Time,
        place: (DatabaseNumber, GroupId),
        number: u64,
        out: &mut Outbox<Self>,
    ) {
        let Some(leaving) = self.leaving.get_mut(&place).filter(|leaving| leaving.number == number) else {
            return;
        };
        if let Some(next) = leaving.next {
            (leaving.number, leaving.from, leaving.sent) = (number + 1, next, 0);
            return self.hand_part(now, place, out);
        }
        let request = MapRequest::HandOver(place.0, place.1);
        let turn = &mut self.site.turn(now, out);
        turn.send(turn.site.clock.keeper(), Message::Ask(request));
    }

    /// Takes a part of a group that is to be this server's.
    pub(super) fn take_over(
        &mut self,
        now: Time,
        from: NodeId,
        place: (DatabaseNumber, GroupId),
        (number, part): (u64, Part),
        out: &mut Outbox<Self>,
    ) {
        let (database, group) = place;
        if self.site.map.server(database, group) != Some(from) {
            return;
        }
        // The sender tries again what cannot be done now.
        let Ok(taken) = self.try_take_over(place, number, part) else { return };
        let until = match taken {
            Taken::Part => out.logged(),
            Taken::Whole(database) => out.record(Synced::of(&database)),
            Taken::Nothing => return,
        };
        self.unanswered.push_back((until, from, Message::Arrived(database, group, number)));
        self.answer_parts(now, out);
    }

    /// Says which parts have arrived, as far as they must be durable.
    pub(super) fn answer_parts(&mut self, now: Time, out: &mut Outbox<Self>) {
        let durable = self.site.durable;
        while let Some((_, to, message)) = self.unanswered.pop_front_if(|(until, ..)| *until <= durable) {
            self.site.turn(now, out).send(to, message);
        }
    }

    /// Takes the part, unless it is here already.
    fn try_take_over(
        &mut self,
        place: (DatabaseNumber, GroupId),
        number: u64,
        (objects, last): Part,
    ) -> Result<Taken, Error> {
        let Some(placement) = self.site.map.databases.get(&place.0) else { return Ok(Taken::Nothing) };
        if number == 0 {
            self.arriving.remove(&place);
            self.directory.discard(&placement.name, place.1)?;
            let database = self.directory.make(&placement.name, place.1)?;
            self.arriving.insert(place, (database, 0));
        }
        let Some((database, expected)) = self.arriving.get_mut(&place) else {
            let is_known = self.arrived.get(&place) == Some(&number);
            return Ok(if is_known { Taken::Part } else { Taken::Nothing });
        };
        match number.cmp(expected) {
            Ordering::Less => return Ok(Taken::Part),
            Ordering::Greater => return Ok(Taken::Nothing),
            Ordering::Equal => {}
        }
        let placed = |(object, stored): (ObjectId, Arc<[u8]>)| {
            let moved = Moved { object: stored, touched: Vec::new() };
            Restructuring::Place { object, moved }
        };
        let restructurings = objects.into_iter().map(placed).collect();
        let commit = Commit { restructurings, ..Commit::default() };
        database.execute(commit).map_err(|refusal| match refusal {
            crate::Refusal::Failed(error) => error,
            crate::Refusal::Misplaced(_) => Error::Conflict,
        })?;
        *expected += 1;
        let Some((last, next_object)) = last else { return Ok(Taken::Part) };
        database.storage().succeed(last, next_object)?;
        let database = database.clone();
        self.arriving.remove(&place);
        self.arrived.insert(place, number);
        Ok(Taken::Whole(database))
    }
}
