//! A server that is about to end: first others lead what it leads, so that nobody waits until they have missed it.

use super::replicas::Place;
use super::{Held, Manager, Turn};
use crate::map::RECORDS;

impl Held {
    /// See [`Server::retire`](super::Server::retire).
    pub(super) fn retire(&mut self, turn: &mut Turn<'_>) -> bool {
        let (records, shards): (Vec<_>, Vec<_>) =
            self.replicas.hosted.keys().copied().partition(|place| *place == RECORDS);
        // Who takes a shard over needs the map.
        self.have_led_elsewhere(shards, turn) && self.have_led_elsewhere(records, turn)
    }

    fn have_led_elsewhere(&mut self, places: Vec<Place>, turn: &mut Turn<'_>) -> bool {
        let mut are_all = true;
        for place in places {
            let mut has_retired = true;
            self.step_replica(place, turn, |replica, now, out| has_retired = replica.retire(now, out));
            are_all &= has_retired && self.is_served(place);
        }
        are_all
    }

    /// Whether the leader of a shard's replicas serves it, as far as this server keeps the map.
    fn is_served(&self, place: Place) -> bool {
        let map = self.membership.manager.as_ref().map(Manager::map);
        let replicas = map.and_then(|map| map.replicas(place));
        let view = self.replicas.hosted.get(&place).and_then(|hosted| hosted.replica.view());
        replicas.is_none_or(|replicas| replicas.view >= view)
    }
}
