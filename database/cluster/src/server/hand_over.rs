//! A shard goes to another server: when the one that holds it is drained.
//!
//! Its leaves have gone to other shards before, while all went on. What is left is copied while nobody may use it: inner
//! nodes, small trees, what is written down of transactions. To clients and other shards it looks as if a server had
//! crashed and come back at another place: what a shard only remembers is forgotten, and whoever was not answered asks
//! again.
//!
//! *Known as:* shard migration, draining: who is to be empty has to hand over what it holds.

use super::replicas::Place;
use super::shard::Shard;
use super::{Event, Held, Known, Synced, Turn};
use crate::map::HandOver;
use crate::message::{MapRequest, Message};
use crate::name::DatabaseNumber;
use fulmar_kv::{Commit, Database, Error, Moved, ObjectId, Refusal, Restructuring, ShardId, Timestamp};
use fulmar_node::{Lsn, NodeId};
use std::sync::Arc;

/// A part holds so many bytes, or one object.
const PART_BYTES: usize = 4 << 10;
/// A part that was sent so often without an answer goes to somebody who is gone, or has forgotten those before it.
const PATIENCE: u32 = 20;

/// A shard on its way from here.
pub(super) struct Leaving {
    /// Nothing, as long as clients may use it: it may have to be opened anew, as its disk has failed.
    database: Option<Database>,
    /// What the map must say before anything is sent.
    hand_over: HandOver,
    /// Which part is underway, where it begins and the next one does, if there is one.
    number: u64,
    from: ObjectId,
    next: Option<ObjectId>,
    /// How often it was sent.
    sent: u32,
    /// Whether all parts have arrived.
    is_done: bool,
}

/// A shard on its way to here.
pub(super) struct Arriving {
    attempt: u64,
    /// How many parts have come.
    parts: u64,
    /// Nothing, if they were all.
    database: Option<Database>,
}

/// A part that has come, and what must be durable before that is said: all of the shard, with the last.
pub(super) struct Unanswered {
    until: Lsn,
    from: NodeId,
    place: (DatabaseNumber, ShardId),
    attempt: u64,
    number: u64,
    whole: Option<Database>,
}

/// Objects, and with the last ones where the shard's commits and names go on.
type Part = (Vec<(ObjectId, Arc<[u8]>)>, Option<(Timestamp, u64)>);

impl Leaving {
    fn new(database: Option<Database>, hand_over: HandOver) -> Self {
        let from = ObjectId(0);
        Self { database, hand_over, number: 0, from, next: None, sent: 0, is_done: false }
    }

    /// The part that is underway.
    fn part(&mut self, database: &Database) -> Result<Part, Error> {
        let storage = database.storage();
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

/// As the server that is to be empty.
impl Held {
    /// Hands over what the leaves have left.
    pub(super) fn hand_over(&mut self, turn: &mut Turn<'_>) {
        let me = turn.known.me;
        if !turn.known.clock.is_known() || !turn.known.map.draining.contains(&me) {
            return;
        }
        // What is replicated is made anew elsewhere.
        let map = &turn.known.map;
        let held: Vec<_> = map.held(me).filter(|place| map.replicas(*place).is_none()).collect();
        let done: Vec<_> =
            self.shards.leaving.keys().copied().filter(|place| !held.contains(place)).collect();
        for place in done {
            self.shards.leaving.remove(&place);
            let shard = Self::called(place, turn.known);
            turn.out.event(Event::HandedOver { shard: shard.clone() });
            if let Some(placement) = turn.known.map.databases.get(&place.0)
                && let Err(why) = self.directory.discard(&placement.name, place.1)
            {
                let what =
                    format!("cannot remove what is left of {shard}: {why}; it takes room, and no more");
                turn.out.event(Event::Fails(what));
            }
        }
        for place in held {
            let is_leaving = turn.known.map.leaving.contains_key(&place);
            let is_ready = is_leaving
                || matches!(self.holds(place, turn), Ok(true))
                    && self.shards.open.get_mut(&place).is_some_and(Shard::is_steady);
            if is_ready {
                // For want of another server it waits.
                if self.prepare_to_leave(place, turn) {
                    self.hand_part(place, turn);
                }
            }
        }
    }

    /// Sees to it that there is an attempt to hand the shard over, a new one if the last has failed.
    fn prepare_to_leave(&mut self, place: Place, turn: &mut Turn<'_>) -> bool {
        let known = &*turn.known;
        if self.shards.leaving.get(&place).is_some_and(|leaving| leaving.is_done || leaving.sent <= PATIENCE)
        {
            return true;
        }
        let Some(to) = Self::successor(known) else { return false };
        self.shards.attempts += 1;
        // No attempt of an earlier life of this server, or of another, is as late.
        let hand_over = HandOver { to, attempt: (known.clock.born().0 << 16) + self.shards.attempts };
        let database = self.shards.leaving.remove(&place).and_then(|failed| failed.database);
        self.shards.leaving.insert(place, Leaving::new(database, hand_over));
        turn.out.event(Event::HandsOver { shard: Self::called(place, known), to });
        true
    }

    /// What is to be handed over. From here on nobody uses it: who waits for an answer is to ask who holds it next. Nothing, if its disk has failed:
    /// what it holds then is not what it will be when it is opened anew.
    fn close_for_good(&mut self, place: Place, turn: &mut Turn<'_>) -> Result<Option<Database>, Error> {
        if let Some(begun) = self.shards.leaving.get(&place).and_then(|leaving| leaving.database.clone()) {
            return Ok(Some(begun));
        }
        if self.shards.open.get(&place).is_some_and(|shard| shard.database().storage().has_failed()) {
            return Ok(None);
        }
        let database = match self.shards.open.remove(&place) {
            Some(mut shard) => {
                shard.redirect(turn);
                shard.database().clone()
            }
            None => match turn.known.map.databases.get(&place.0) {
                Some(placement) => self.directory.open(&placement.name, place.1)?,
                None => return Ok(None),
            },
        };
        if let Some(leaving) = self.shards.leaving.get_mut(&place) {
            leaving.database = Some(database.clone());
        }
        Ok(Some(database))
    }

    /// Who holds least, and stays.
    fn successor(known: &Known) -> Option<NodeId> {
        let stays = |server: &NodeId| !known.map.draining.contains(server);
        let loads = known.loads.iter().filter(|(server, _)| stays(server));
        loads.min_by_key(|(_, load)| load.objects).map(|(server, _)| *server)
    }

    /// Goes on with an attempt: has the map say that it is made; sends the part that is underway, perhaps again; has the map
    /// say that it has succeeded.
    fn hand_part(&mut self, place: (DatabaseNumber, ShardId), turn: &mut Turn<'_>) {
        let Some(leaving) = self.shards.leaving.get_mut(&place) else { return };
        let (database, shard) = place;
        let HandOver { to, attempt } = leaving.hand_over;
        let manager = turn.known.map.manager;
        let (receiver, message) = if turn.known.map.leaving.get(&place) != Some(&leaving.hand_over) {
            (manager, Message::Ask(MapRequest::Leave(database, shard, leaving.hand_over)))
        } else if leaving.is_done {
            (manager, Message::Ask(MapRequest::HandOver(database, shard, attempt)))
        } else {
            let closed = self.close_for_good(place, turn);
            let reading = |known: &Known| format!("read {}", Self::called(place, known));
            let Some(Some(closed)) = turn.report(reading, closed) else { return };
            let Some(leaving) = self.shards.leaving.get_mut(&place) else { return };
            leaving.sent += 1;
            let part = leaving.part(&closed);
            let Some((objects, last)) = turn.report(reading, part) else { return };
            let number = leaving.number;
            (to, Message::HandOver { database, shard, attempt, number, objects, last })
        };
        turn.send(receiver, message);
    }

    /// A part has arrived.
    pub(super) fn hand_on(
        &mut self,
        place: (DatabaseNumber, ShardId),
        arrived: (u64, u64),
        turn: &mut Turn<'_>,
    ) {
        let Some(leaving) = self.shards.leaving.get_mut(&place) else { return };
        if (leaving.hand_over.attempt, leaving.number) != arrived {
            return;
        }
        match leaving.next {
            Some(next) => (leaving.number, leaving.from, leaving.sent) = (leaving.number + 1, next, 0),
            None => leaving.is_done = true,
        }
        self.hand_part(place, turn);
    }
}

/// As the server that takes over.
impl Held {
    /// See [`Server::arrived`](super::Server::arrived).
    pub(super) fn arrived(&self) -> impl Iterator<Item = &Database> {
        self.shards.unanswered.iter().filter_map(|unanswered| unanswered.whole.as_ref())
    }

    /// Takes a part of a shard, and says so, when it was the last as soon as they are all durable.
    pub(super) fn take_over(
        &mut self,
        from: NodeId,
        place: (DatabaseNumber, ShardId),
        ((attempt, number), part): ((u64, u64), Part),
        turn: &mut Turn<'_>,
    ) {
        let (database, shard) = place;
        let is_agreed = turn.known.map.leaving.get(&place) == Some(&HandOver { to: turn.known.me, attempt });
        // The sender tries again what cannot be done now.
        if is_agreed && turn.known.map.server(database, shard) == Some(from) {
            match self.try_take_over(place, (attempt, number), part, turn.known) {
                Ok(Some(whole)) => {
                    let until = match &whole {
                        Some(whole) => {
                            turn.out.event(Event::TookOver { shard: Self::called(place, turn.known), from });
                            turn.out.record(Synced::of(whole))
                        }
                        None => turn.out.logged(),
                    };
                    self.shards.unanswered.push_back(Unanswered {
                        until,
                        from,
                        place,
                        attempt,
                        number,
                        whole,
                    });
                    self.answer_parts(turn);
                }
                Ok(None) => {}
                Err(why) => {
                    // A part of it may be there: all of it comes anew.
                    self.shards.arriving.remove(&place);
                    turn.report::<()>(|known| format!("take over {}", Self::called(place, known)), Err(why));
                }
            }
        }
    }

    /// Says which parts have arrived, as far as they must be durable. If the disk does not hold them, none has.
    pub(super) fn answer_parts(&mut self, turn: &mut Turn<'_>) {
        let durable = turn.known.durable;
        while let Some(first) = self.shards.unanswered.pop_front_if(|first| first.until <= durable) {
            let Unanswered { from, place, attempt, number, whole, .. } = first;
            if whole.is_some_and(|whole| whole.storage().has_failed()) {
                self.shards.arriving.remove(&place);
            }
            if self.shards.arriving.get(&place).is_some_and(|arriving| arriving.attempt == attempt) {
                let (database, shard) = place;
                let message = Message::Arrived { database, shard, attempt, number };
                turn.send(from, message);
            }
        }
    }

    /// If the part is here, now or already: the shard, if that has made it whole. What an earlier attempt has brought is
    /// forgotten when a later one begins, and nothing of an earlier one is taken any more.
    fn try_take_over(
        &mut self,
        place: (DatabaseNumber, ShardId),
        (attempt, number): (u64, u64),
        (objects, last): Part,
        known: &Known,
    ) -> Result<Option<Option<Database>>, Error> {
        let Some(placement) = known.map.databases.get(&place.0) else { return Ok(None) };
        if number == 0 && self.shards.arriving.get(&place).is_none_or(|arriving| arriving.attempt < attempt) {
            self.shards.arriving.remove(&place);
            let database = Some(self.directory.arrive(&placement.name, place.1)?);
            self.shards.arriving.insert(place, Arriving { attempt, parts: 0, database });
        }
        let Some(arriving) = self.shards.arriving.get_mut(&place) else { return Ok(None) };
        if arriving.attempt != attempt || number > arriving.parts {
            return Ok(None);
        }
        if number < arriving.parts {
            return Ok(Some(None));
        }
        let Some(database) = &arriving.database else { return Ok(None) };
        let placed = |(object, stored): (ObjectId, Arc<[u8]>)| {
            let moved = Moved { object: stored, touched: Vec::new() };
            Restructuring::Place { object, moved }
        };
        let restructurings = objects.into_iter().map(placed).collect();
        let commit = Commit { restructurings, ..Commit::default() };
        database.execute(&commit).map_err(|refusal| match refusal {
            Refusal::Failed(error) => error,
            Refusal::Misplaced(_) => Error::Conflict,
        })?;
        if let Some((last, next_object)) = last {
            database.storage().inherit(last, next_object)?;
        }
        arriving.parts += 1;
        // Whoever opens it when that is told finds it closed.
        Ok(Some(if last.is_some() { arriving.database.take() } else { None }))
    }
}
