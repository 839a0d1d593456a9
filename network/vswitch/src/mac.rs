//! Where stations are, as the frames tell that they send (IEEE 802.1D, section 7.8).

use fulmar_node::Time;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How much is remembered of stations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learning {
    /// So many are known at most; one at least.
    pub most: usize,
    /// They are forgotten when nothing was heard of them for so long.
    pub age: Duration,
}

impl Default for Learning {
    fn default() -> Self {
        Self { most: 8_192, age: Duration::from_secs(300) }
    }
}

/// A station in its VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Station {
    /// Its VLAN, 0 for none.
    pub vlan: u16,
    /// Its Ethernet address.
    pub address: u64,
}

/// Within this time…
const SECOND: Duration = Duration::from_secs(1);
/// …no station moves so often: its frames come back by another way.
const LOOPS: u32 = 10;
/// So many such stations are remembered, until that is told.
const MOST_FLAPPING: usize = 16;

/// Where one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    port: u32,
    heard: Time,
    /// Since then it was heard so often at another port than before: a second at most.
    since: Time,
    moves: u32,
}

/// A station that was heard here and there as no station is: by a loop of links, probably.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flapping {
    /// Which.
    pub station: Station,
    /// Two ports where it was heard.
    pub ports: [u32; 2],
}

/// What is known of stations.
#[derive(Debug, Default)]
pub(crate) struct Macs {
    learning: Learning,
    known: HashMap<Station, Place, foldhash::fast::RandomState>,
    /// How often one was heard at another port than before.
    moves: u64,
    flapping: Vec<Flapping>,
}

impl Macs {
    pub(crate) fn find(&self, station: Station) -> Option<u32> {
        self.known.get(&station).map(|place| place.port)
    }

    /// A station was heard at a port. Says whether that is news.
    pub(crate) fn hear(&mut self, station: Station, port: u32, now: Time) -> bool {
        if let Some(place) = self.known.get_mut(&station) {
            place.heard = now.max(place.heard);
            if place.port == port {
                return false;
            }
            if now.since(place.since) >= SECOND {
                (place.since, place.moves) = (now, 0);
            }
            place.moves += 1;
            self.moves += 1;
            if place.moves == LOOPS && self.flapping.len() < MOST_FLAPPING {
                self.flapping.push(Flapping { station, ports: [place.port, port] });
            }
            place.port = port;
            return true;
        }
        if self.known.len() >= self.learning.most && !self.forget_oldest() {
            return false;
        }
        self.known.insert(station, Place { port, heard: now, since: now, moves: 0 });
        true
    }

    /// So much is remembered from now on. Says whether any were forgotten.
    pub(crate) fn set_learning(&mut self, learning: Learning) -> bool {
        self.learning = Learning { most: learning.most.max(1), ..learning };
        let before = self.known.len();
        while self.known.len() > self.learning.most && self.forget_oldest() {}
        self.known.len() < before
    }

    /// How often a station was heard at another port than before.
    pub(crate) const fn moves(&self) -> u64 {
        self.moves
    }

    /// Those that move as no station does, since this was asked last.
    pub(crate) fn take_flapping(&mut self) -> Vec<Flapping> {
        std::mem::take(&mut self.flapping)
    }

    /// A station was heard once more where it is known to be; if it is not there, this is of no account.
    pub(crate) fn hear_again(&mut self, station: Station, port: u32, now: Time) {
        if let Some(place) = self.known.get_mut(&station).filter(|place| place.port == port) {
            place.heard = now.max(place.heard);
        }
    }

    /// Of the port that has most of them, so that who makes up stations displaces no others than those that are made up.
    fn forget_oldest(&mut self) -> bool {
        let mut ports: BTreeMap<u32, (usize, Time)> = BTreeMap::new();
        self.known.values().for_each(|Place { port, heard, .. }| {
            let (count, oldest) = ports.entry(*port).or_insert((0, *heard));
            (*count, *oldest) = (*count + 1, *heard.min(oldest));
        });
        let Some((port, (_, oldest))) = ports.into_iter().max_by_key(|(_, (count, _))| *count) else {
            return false;
        };
        self.forget(|_, place| place.port == port && place.heard == oldest)
    }

    /// Forgets those of which nothing was heard for long. Says whether there were any.
    pub(crate) fn age(&mut self, now: Time) -> bool {
        let age = self.learning.age;
        self.forget(|_, place| now.since(place.heard) >= age)
    }

    /// Forgets those at a port, and says which.
    pub(crate) fn forget_port(&mut self, port: u32) -> Vec<Station> {
        let at_port = self.known.iter().filter(|(_, place)| place.port == port).map(|(station, _)| *station);
        let gone: Vec<Station> = at_port.collect();
        self.forget(|_, place| place.port == port);
        gone
    }

    /// Forgets these, wherever they are. Says whether any were known.
    pub(crate) fn forget_all(&mut self, stations: &[Station]) -> bool {
        let before = self.known.len();
        for station in stations {
            self.known.remove(station);
        }
        self.known.len() < before
    }

    fn forget(&mut self, is_gone: impl Fn(&Station, &Place) -> bool) -> bool {
        let before = self.known.len();
        self.known.retain(|station, place| !is_gone(station, place));
        self.known.len() < before
    }

    /// All stations in order, with their ports and how long ago each was heard.
    pub(crate) fn list(&self, now: Time) -> Vec<(Station, u32, Duration)> {
        let known = self.known.iter().map(|(station, place)| (*station, place.port, now.since(place.heard)));
        let mut list: Vec<_> = known.collect();
        list.sort_unstable();
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_remembered_than_is_asked_for_and_for_no_longer() {
        let mut macs = Macs::default();
        let station = |address| Station { vlan: 0, address };
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        for address in 0..100 {
            macs.hear(station(address), 1, at(address));
        }
        let learning = Learning { most: 10, age: Duration::from_secs(15) };
        assert!(macs.set_learning(learning) && !macs.set_learning(learning));
        assert_eq!((macs.list(at(100)).len(), macs.find(station(99))), (10, Some(1)));
        assert_eq!(macs.find(station(89)), None, "the oldest go first");
        macs.hear(station(100), 1, at(100));
        assert_eq!((macs.list(at(100)).len(), macs.find(station(90))), (10, None));
        assert!(macs.age(at(108)));
        assert_eq!((macs.find(station(93)), macs.find(station(94))), (None, Some(1)));
        // One is remembered, whatever is asked for.
        macs.set_learning(Learning { most: 0, ..learning });
        assert_eq!(macs.find(station(100)), Some(1));
    }
}
