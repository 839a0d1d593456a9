//! Where stations are, as the frames tell that they send (IEEE 802.1D, section 7.8).

use fulmar_node::Time;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Stations are forgotten when nothing was heard of them for so long.
const AGE: Duration = Duration::from_secs(300);
/// So many stations are known at most.
const MOST: usize = 8192;

/// A station in its VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Station {
    /// Its VLAN, 0 for none.
    pub vlan: u16,
    /// Its Ethernet address.
    pub address: u64,
}

/// Where one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    port: u32,
    heard: Time,
}

/// What is known of stations.
#[derive(Debug, Default)]
pub(crate) struct Macs(HashMap<Station, Place, foldhash::fast::RandomState>);

impl Macs {
    pub(crate) fn find(&self, station: Station) -> Option<u32> {
        self.0.get(&station).map(|place| place.port)
    }

    /// A station was heard at a port. Says whether that is news.
    pub(crate) fn hear(&mut self, station: Station, port: u32, now: Time) -> bool {
        if let Some(place) = self.0.get_mut(&station) {
            let is_news = place.port != port;
            *place = Place { port, heard: now.max(place.heard) };
            return is_news;
        }
        if self.0.len() >= MOST && !self.forget_oldest() {
            return false;
        }
        self.0.insert(station, Place { port, heard: now });
        true
    }

    /// A station was heard once more where it is known to be; if it is not there, this is of no account.
    pub(crate) fn hear_again(&mut self, station: Station, port: u32, now: Time) {
        if let Some(place) = self.0.get_mut(&station).filter(|place| place.port == port) {
            place.heard = now.max(place.heard);
        }
    }

    /// Of the port that has most of them, so that who makes up stations displaces no others than those that are made up.
    fn forget_oldest(&mut self) -> bool {
        let mut ports: BTreeMap<u32, (usize, Time)> = BTreeMap::new();
        self.0.values().for_each(|Place { port, heard }| {
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
        self.forget(|_, place| now.since(place.heard) >= AGE)
    }

    /// Forgets those at a port. Says whether there were any.
    pub(crate) fn forget_port(&mut self, port: u32) -> bool {
        self.forget(|_, place| place.port == port)
    }

    fn forget(&mut self, is_gone: impl Fn(&Station, &Place) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|station, place| !is_gone(station, place));
        self.0.len() < before
    }

    /// All stations in order, with their ports and how long ago each was heard.
    pub(crate) fn list(&self, now: Time) -> Vec<(Station, u32, Duration)> {
        let known = self.0.iter().map(|(station, place)| (*station, place.port, now.since(place.heard)));
        let mut list: Vec<_> = known.collect();
        list.sort_unstable();
        list
    }
}
