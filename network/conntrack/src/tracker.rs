//! What a packet is to the connections that there are.

use crate::agenda::Timeout;
use crate::connection::{Connection, Progress};
use crate::direction::{Direction, Followed};
use crate::packet::{Content, Packet};
use crate::request::{Request, Tracked, state};
use crate::rewriting;
use crate::table::{PART, Place, SWEEP, Table};
use crate::translation;
use crate::tuple::Tuple;
use fulmar_packet::{Field, FlowKey, Layers};
use parking_lot::Mutex;
use std::time::Duration;

/// How many connections are remembered at once, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In all zones; 3,000,000 by default, as Open vSwitch has it: some 650 MB.
    pub connections: u32,
    /// In each zone; as many as in all, by default.
    pub connections_in_zone: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 3_000_000, connections_in_zone: 3_000_000 }
    }
}

/// How many there were, since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were committed.
    pub committed: u64,
    /// Packets that could not be committed, because there were as many connections as may be.
    pub over_limit: u64,
    /// Packets that could not be committed, because all addresses and ports that were tried were taken.
    pub untranslatable: u64,
}

/// The connections of a switch.
///
/// Under one lock, as what replies to a translated connection have must be unique among all. Frames are read and rewritten without it;
/// with a thousand connections it lets 7 to 14 million packets a second through, with a hundred thousand 2 to 5 million, when it is
/// memory that takes the time (`examples/rate.rs`, two cores that others used, too).
pub struct Tracker {
    limits: Limits,
    state: Mutex<State>,
}

struct State {
    table: Table,
    counts: Counts,
}

/// What a packet is.
struct Verdict {
    tracked: Tracked,
    /// What its tuple is, and what that becomes.
    translated: Option<(Tuple, Tuple)>,
}

impl Tracker {
    /// One without connections. Whoever does not know the seed cannot make connections that all meet in one place of a hash table.
    pub fn new(limits: Limits, seed: u64) -> Self {
        let state = State { table: Table::new(seed), counts: Counts::default() };
        Self { limits, state: Mutex::new(state) }
    }

    /// Carries out a `ct` action on a frame of which `key` and `layers` have been extracted, at the time `now` since any fixed moment,
    /// and translates it. What has been rewritten is to be extracted again.
    ///
    /// `ct_state` and `ct_zone` in the key tell whether the zone has translated the packet before: that is not done twice.
    pub fn track(
        &self,
        now: Duration,
        key: &FlowKey,
        frame: &mut [u8],
        layers: Layers,
        request: &Request,
    ) -> Tracked {
        let packet = Packet::read(request.zone, key, frame, layers);
        let verdict = packet.as_ref().and_then(|packet| {
            let before = translated_before(key, request.zone);
            self.state.lock().judge(now, packet, before, request, self.limits)
        });
        let (Some(packet), Some(Verdict { mut tracked, translated })) = (packet, verdict) else {
            let state = state::TRACKED | state::INVALID;
            return Tracked { state, zone: request.zone, ..Tracked::default() };
        };
        if let Some((from, to)) = translated {
            tracked.rewritten = rewriting::translate(frame, (key, layers), &packet, (&from, &to));
        }
        tracked
    }

    /// Forgets so many connections that have timed out by `now`, or fewer, and says how many. Each packet that is tracked makes some
    /// be forgotten; this is for when there are none.
    pub fn forget(&self, now: Duration, at_most: usize) -> usize {
        let mut state = self.state.lock();
        state.table.advance(now);
        state.table.forget(at_most)
    }

    /// How many connections are remembered, with those that have timed out and are not forgotten yet.
    pub fn len(&self) -> usize {
        self.state.lock().table.len()
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The connections, in no order that means anything. Packets are tracked meanwhile: of the connections that come or go, some are
    /// there.
    pub fn connections(&self) -> Vec<Connection> {
        let mut found = Vec::new();
        for first in (0..).step_by(PART) {
            let state = self.state.lock();
            let Some(part) = state.table.part(first) else { break };
            found.extend(part.map(|(_, connection)| connection.clone()));
        }
        found
    }

    /// Forgets the connections of a zone, or all: those that have been there before.
    pub fn flush(&self, zone: Option<u16>) {
        for first in (0..).step_by(PART) {
            if !self.state.lock().table.flush_part(first, zone) {
                break;
            }
        }
    }

    /// How many connections have come, and could not.
    pub fn counts(&self) -> Counts {
        self.state.lock().counts
    }
}

/// The bits that say that this zone has translated the packet.
fn translated_before(key: &FlowKey, zone: u16) -> u32 {
    let translated = state::SOURCE_TRANSLATED | state::DESTINATION_TRANSLATED;
    let is_here = key.get(Field::CT_ZONE) == zone.into();
    u32::try_from(key.get(Field::CT_STATE)).map_or(0, |state| if is_here { state & translated } else { 0 })
}

impl State {
    /// What a packet is; nothing, if it is invalid.
    fn judge(
        &mut self,
        now: Duration,
        packet: &Packet,
        before: u32,
        request: &Request,
        limits: Limits,
    ) -> Option<Verdict> {
        self.table.advance(now);
        self.table.forget(SWEEP);
        let is_error = matches!(packet.content, Content::Error(_));
        let mut found = self.find(&packet.tuple, before != 0);
        if let Some(place) = found
            && request.force
            && place.direction == Direction::Reply
            && !is_error
        {
            self.table.remove(place);
            found = None;
        }
        let followed = found.map_or(Followed::Anew, |place| self.table.follow(place, &packet.content));
        let place = match (followed, found) {
            (Followed::Invalid, _) => return None,
            (Followed::Valid(_), Some(place)) => place,
            (_, found) => {
                if let Some(over) = found {
                    self.table.remove(over);
                }
                match self.begin(packet, request, limits)? {
                    Some(place) => place,
                    None => return Some(unremembered(before, request)),
                }
            }
        };
        if request.commit {
            self.table.label(place, request.mark, request.label);
        }
        Some(verdict(self.table.get(place), place.direction, is_error, before, request))
    }

    /// The connection of packets with a tuple, and their direction. What was translated in this zone has the mirror image of the tuple
    /// of what comes the other way.
    fn find(&mut self, tuple: &Tuple, is_translated: bool) -> Option<Place> {
        if is_translated {
            return self.table.find(&tuple.reversed()).map(Place::turned);
        }
        self.table.find(tuple)
    }

    /// Makes a connection of a packet that can be the first of one, and remembers it if that is asked for. The outer nothing is a
    /// packet that cannot.
    fn begin(&mut self, packet: &Packet, request: &Request, limits: Limits) -> Option<Option<Place>> {
        let (progress, timeout) = Progress::begin(&packet.content)?;
        if !request.commit {
            return Some(None);
        }
        let is_full = self.table.len() >= limits.connections as usize;
        if is_full || self.table.in_zone(request.zone) >= limits.connections_in_zone {
            self.counts.over_limit += 1;
            return None;
        }
        self.commit(packet.tuple, progress, timeout, request).map(Some)
    }

    fn commit(
        &mut self,
        tuple: Tuple,
        progress: Progress,
        timeout: Timeout,
        request: &Request,
    ) -> Option<Place> {
        let spread = self.table.hash(&tuple);
        // A packet from an end to itself is its own answer, and that is free.
        let is_free = |reply: &Tuple| *reply == tuple || self.table.find(reply).is_none();
        let Some(reply) = translation::choose(&tuple, request.translation.as_ref(), spread, is_free) else {
            self.counts.untranslatable += 1;
            return None;
        };
        self.counts.committed += 1;
        Some(self.table.insert(Connection { tuples: [tuple, reply], progress, mark: 0, label: 0 }, timeout))
    }
}

/// Of a packet that would be the first of its connection, if that were committed.
fn unremembered(before: u32, request: &Request) -> Verdict {
    let state = state::TRACKED | state::NEW | before;
    Verdict { tracked: Tracked { state, zone: request.zone, ..Tracked::default() }, translated: None }
}

fn verdict(
    connection: &Connection,
    direction: Direction,
    is_error: bool,
    before: u32,
    request: &Request,
) -> Verdict {
    let kind = match connection.is_answered() {
        _ if is_error => state::RELATED,
        true => state::ESTABLISHED,
        false => state::NEW,
    };
    let way = if direction == Direction::Reply { state::REPLY } else { 0 };
    let (from, to) = (connection.tuples[direction as usize], connection.translated(direction));
    let is_translated_now = request.translation.is_some() && before == 0 && from != to;
    let mut translated = before;
    if is_translated_now && from.source != to.source {
        translated |= state::SOURCE_TRANSLATED;
    }
    if is_translated_now && from.destination != to.destination {
        translated |= state::DESTINATION_TRANSLATED;
    }
    let tracked = Tracked {
        state: state::TRACKED | kind | way | translated,
        zone: request.zone,
        mark: connection.mark,
        label: connection.label,
        rewritten: crate::Rewritten::default(),
    };
    Verdict { tracked, translated: is_translated_now.then_some((from, to)) }
}
