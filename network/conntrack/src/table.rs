//! The connections that are remembered, by both of their tuples.

use crate::agenda::{Agenda, Timeout};
use crate::connection::Connection;
use crate::direction::{Direction, Followed};
use crate::packet::Content;
use crate::tuple::Tuple;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use slab::Slab;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::time::Duration;

/// So many connections that have timed out are forgotten with each packet, at most: more than a packet can bring.
pub(crate) const SWEEP: usize = 4;

/// So many places are looked at together when all are looked at.
pub(crate) const PART: usize = 4096;

/// Where a tuple is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    number: u32,
    pub(crate) direction: Direction,
}

impl Place {
    /// The same connection, the other way.
    pub(crate) fn turned(self) -> Self {
        Self { direction: self.direction.other(), ..self }
    }
}

/// A place and half of its tuple's hash: so that a table that grows does not look at each connection again.
#[derive(Clone, Copy)]
struct Slot {
    half: u32,
    place: Place,
}

impl Slot {
    /// By what the table is ordered: the half, spread over all bits.
    fn hash(&self) -> u64 {
        spread(self.half)
    }
}

fn half(hash: u64) -> u32 {
    u32::try_from(hash >> 32).unwrap_or_else(|_| unreachable!("32 bits are left"))
}

fn spread(half: u32) -> u64 {
    u64::from(half).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// No two packets that can be told apart by their tuples have one: each is of one connection, in one direction.
pub(crate) struct Table {
    connections: Slab<Connection>,
    index: HashTable<Slot>,
    agenda: Agenda,
    /// How many connections a zone has, if any.
    zones: BTreeMap<u16, u32>,
    seed: FixedState,
    now: Duration,
}

impl Table {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            connections: Slab::new(),
            index: HashTable::new(),
            agenda: Agenda::new(),
            zones: BTreeMap::new(),
            seed: FixedState::with_seed(seed),
            now: Duration::ZERO,
        }
    }

    /// It is at least so late, as threads may tell the time out of order.
    pub(crate) fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// Forgets so many connections that have timed out, or fewer, and says how many.
    pub(crate) fn forget(&mut self, at_most: usize) -> usize {
        let mut forgotten = 0;
        while forgotten < at_most
            && let Some(number) = self.agenda.due(self.now)
        {
            self.remove_number(number);
            forgotten += 1;
        }
        forgotten
    }

    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn in_zone(&self, zone: u16) -> u32 {
        self.zones.get(&zone).copied().unwrap_or(0)
    }

    pub(crate) fn hash(&self, tuple: &Tuple) -> u64 {
        self.seed.hash_one(tuple)
    }

    /// The connection that packets with this tuple are of. One that has timed out is forgotten.
    pub(crate) fn find(&mut self, tuple: &Tuple) -> Option<Place> {
        let half = half(self.hash(tuple));
        let is_here = |slot: &Slot| slot.half == half && self.tuple(slot.place) == tuple;
        let place = self.index.find(spread(half), is_here)?.place;
        if self.agenda.is_over(place.number, self.now) {
            self.remove(place);
            return None;
        }
        Some(place)
    }

    fn tuple(&self, place: Place) -> &Tuple {
        &self.get(place).tuples[place.direction as usize]
    }

    pub(crate) fn get(&self, place: Place) -> &Connection {
        &self.connections[place.number as usize]
    }

    /// What a packet means for its connection.
    pub(crate) fn follow(&mut self, place: Place, content: &Content) -> Followed {
        let connection = &mut self.connections[place.number as usize];
        let followed = connection.progress.follow(place.direction, content);
        if let Followed::Valid(Some(timeout)) = followed {
            self.agenda.renew(place.number, self.now, timeout);
        }
        followed
    }

    /// Sets those bits of its mark and its label that the masks have.
    pub(crate) fn label(&mut self, place: Place, mark: Option<(u32, u32)>, label: Option<(u128, u128)>) {
        let connection = &mut self.connections[place.number as usize];
        if let Some((value, mask)) = mark {
            connection.mark = connection.mark & !mask | value & mask;
        }
        if let Some((value, mask)) = label {
            connection.label = connection.label & !mask | value & mask;
        }
    }

    /// Takes a connection in, neither of whose tuples is known.
    pub(crate) fn insert(&mut self, connection: Connection, timeout: Timeout) -> Place {
        let tuples = connection.tuples;
        let number = u32::try_from(self.connections.insert(connection))
            .unwrap_or_else(|_| unreachable!("limits are of 32 bits"));
        self.agenda.insert(number, self.now, timeout);
        *self.zones.entry(tuples[0].zone).or_default() += 1;
        for direction in directions(&tuples) {
            let half = half(self.hash(&tuples[direction as usize]));
            let slot = Slot { half, place: Place { number, direction } };
            self.index.insert_unique(slot.hash(), slot, Slot::hash);
        }
        Place { number, direction: Direction::Original }
    }

    pub(crate) fn remove(&mut self, place: Place) {
        self.remove_number(place.number);
    }

    fn remove_number(&mut self, number: u32) {
        let connection = self.connections.remove(number as usize);
        self.agenda.remove(number);
        if let Some(count) = self.zones.get_mut(&connection.tuples[0].zone) {
            *count -= 1;
            if *count == 0 {
                self.zones.remove(&connection.tuples[0].zone);
            }
        }
        for direction in directions(&connection.tuples) {
            let half = half(self.hash(&connection.tuples[direction as usize]));
            let is_it = |slot: &Slot| slot.place == Place { number, direction };
            if let Ok(entry) = self.index.find_entry(spread(half), is_it) {
                entry.remove();
            }
        }
    }

    /// Those of so many places from the `first` on that have not timed out, with their numbers. Nothing behind the last.
    pub(crate) fn part(&self, first: usize) -> Option<impl Iterator<Item = (u32, &Connection)>> {
        let is_alive = |number: &u32| !self.agenda.is_over(*number, self.now);
        let numbers = (first..first + PART).filter_map(|number| u32::try_from(number).ok());
        let found = numbers.filter_map(|number| Some((number, self.connections.get(number as usize)?)));
        (first < self.connections.capacity()).then(|| found.filter(move |(number, _)| is_alive(number)))
    }

    /// Forgets the connections of a zone, or all, in these places.
    pub(crate) fn flush_part(&mut self, first: usize, zone: Option<u16>) -> bool {
        let Some(part) = self.part(first) else { return false };
        let is_meant = |connection: &Connection| zone.is_none_or(|zone| connection.tuples[0].zone == zone);
        let meant: Vec<_> = part.filter(|(_, c)| is_meant(c)).map(|(number, _)| number).collect();
        meant.into_iter().for_each(|number| self.remove_number(number));
        true
    }
}

/// A packet from an end to itself is its own answer.
fn directions(tuples: &[Tuple; 2]) -> impl Iterator<Item = Direction> + use<> {
    let both = tuples[0] != tuples[1];
    [Direction::Original].into_iter().chain(both.then_some(Direction::Reply))
}
