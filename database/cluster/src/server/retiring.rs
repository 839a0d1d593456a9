//! A server that is about to end: first others lead what it leads, so that nobody waits until they have missed it.

use super::replicas::Place;
use super::{Manager, Server};
use crate::map::RECORDS;
use fulmar_node::{Outbox, Time};

impl Server {
    /// Has others lead the groups that are led here, and then what keeps the clock and the map, as far as others are there for
    /// it. Whether there is nothing of that to be done any more; it is to be called again until then.
    pub fn retire(&mut self, now: Time, out: &mut Outbox<Self>) -> bool {
        let (records, groups): (Vec<_>, Vec<_>) =
            self.replicas.keys().copied().partition(|place| *place == RECORDS);
        // Who takes a group over needs the map.
        let has_retired =
            self.have_led_elsewhere(groups, now, out) && self.have_led_elsewhere(records, now, out);
        self.settle(now, out);
        has_retired
    }

    fn have_led_elsewhere(&mut self, places: Vec<Place>, now: Time, out: &mut Outbox<Self>) -> bool {
        let mut are_all = true;
        for place in places {
            let mut has_retired = true;
            self.step_replica(place, now, out, |replica, out| has_retired = replica.retire(now, out));
            are_all &= has_retired && self.is_served(place);
        }
        are_all
    }

    /// Whether the leader of a group's replicas serves it, as far as this server keeps the map.
    fn is_served(&self, place: Place) -> bool {
        let map = self.manager.as_ref().map(Manager::map);
        let replicas = map.and_then(|map| map.replicas(place));
        let view = self.replicas.get(&place).and_then(|hosted| hosted.replica.view());
        replicas.is_none_or(|replicas| replicas.view >= view)
    }
}
