//! Disks that fail: what takes no part, why, and when it is tried again.

use super::replicas::{Hosted, Place};
use super::shard::Shard;
use super::{Event, Held, Known, Manager, Turn};
use crate::map::RECORDS;
use crate::status::CLOCK;
use fulmar_kv::Error;
use fulmar_node::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What has failed is tried again after so long: there may be room by then.
const REST: Duration = Duration::from_secs(2);

/// Replicas whose disk has failed; when what has no replicas is looked at next; and why clock and map could not be opened again then.
#[derive(Default)]
pub(super) struct Failures(BTreeMap<Place, Failure>, Time, Option<String>);

struct Failure {
    why: String,
    /// When it is to begin again.
    again: Time,
}

impl Failures {
    /// Whether a replica is not to begin again yet.
    pub(super) fn rests(&self, place: Place, now: Time) -> bool {
        self.0.get(&place).is_some_and(|failure| now < failure.again)
    }

    pub(super) fn retain(&mut self, is_wanted: impl Fn(Place) -> bool) {
        self.0.retain(|place, _| is_wanted(*place));
    }
}

impl Held {
    /// The disk of a replica fails: it takes part no more before it has begun again, as if the server had crashed.
    pub(super) fn fail_replica(&mut self, place: Place, why: Error, turn: &mut Turn<'_>) {
        if let Some(hosted) = self.replicas.hosted.get_mut(&place) {
            hosted.is_broken = true;
        }
        self.replicas.failures.0.insert(place, Failure { why: why.to_string(), again: turn.now + REST });
        self.follow(place, turn);
    }

    /// What a shard is called where an operator reads it.
    pub(super) fn called(place: Place, known: &Known) -> String {
        match place {
            RECORDS => format!("{CLOCK} and map"),
            (_, shard) => {
                format!(
                    "shard {} of {}",
                    shard.0,
                    known.map.name(place).map_or_else(|| "a database".into(), |name| name.to_string())
                )
            }
        }
    }

    /// Tells what takes no part any more, and what does again. Once a sweep.
    pub(super) fn tell_failures(&mut self, turn: &mut Turn<'_>) {
        let failures = self.failures(turn.known);
        let before = std::mem::replace(&mut self.replicas.told, failures);
        let (before, now) = (&before, &self.replicas.told);
        let begin = now.iter().filter(|failure| !before.contains(failure));
        begin.for_each(|failure| turn.out.event(Event::Fails(failure.clone())));
        let end = before.iter().filter(|failure| !now.contains(failure));
        end.for_each(|failure| turn.out.event(Event::Recovers(failure.clone())));
    }

    /// See [`Server::failures`](super::Server::failures).
    pub(super) fn failures(&self, known: &Known) -> Vec<String> {
        let replicas = self.replicas.failures.0.iter().map(|(place, failure)| {
            format!("the replica of {} takes no part: {}", Self::called(*place, known), failure.why)
        });
        let alone = self.failed_alone().map(|place| {
            let called = Self::called(place, known);
            format!("{called} is only read until there is room: a write to its disk has failed")
        });
        let manager = self.membership.manager.as_ref().filter(|manager| manager.has_failed());
        let manager = manager.map(|_| {
            let called = Self::called(RECORDS, known);
            let why = self.replicas.failures.2.as_deref().unwrap_or("a write to its disk has failed");
            format!("{called} cannot be written until there is room: {why}")
        });
        replicas.chain(alone).chain(manager).collect()
    }

    fn failed_alone(&self) -> impl Iterator<Item = Place> {
        let failed =
            |(_, shard): &(&Place, &Shard)| !shard.is_replicated() && shard.database().storage().has_failed();
        self.shards.open.iter().filter(failed).map(|(place, _)| *place)
    }

    /// Shards without replicas whose disk has failed, and the cluster's own records, are opened again when it takes something, as if the
    /// server had been started again.
    pub(super) fn reopen_failed(&mut self, turn: &mut Turn<'_>) {
        if turn.now < self.replicas.failures.1 {
            return;
        }
        self.replicas.failures.1 = turn.now + REST;
        if let Some(manager) = self.membership.manager.as_mut().filter(|manager| manager.has_failed())
            && self.directory.has_room()
        {
            manager.close();
            // Whoever is about to sync them may have them open yet; then it is tried again.
            let reopened = self.directory.records();
            let reopened = reopened.and_then(|records| manager.reopen(records, turn));
            self.replicas.failures.2 = reopened.err().map(|why| why.to_string());
        }
        for place in self.failed_alone().collect::<Vec<_>>() {
            if self.directory.has_room()
                && let Some(mut shard) = self.shards.open.remove(&place)
            {
                // What nobody was shown may be there when it is opened: nobody shall see half of it.
                turn.lose_snapshots(shard.database().storage().last());
                shard.redirect(turn);
            }
        }
    }

    /// See [`Server::behind`](super::Server::behind).
    pub(super) fn behind(&self, known: &Known) -> Vec<String> {
        let (me, map) = (known.me, &known.map);
        let address = |server| map.servers.get(&server).map_or("a server", String::as_str);
        let addresses =
            |servers: Vec<NodeId>| servers.into_iter().map(address).collect::<Vec<_>>().join(", ");
        let is_there = |hosted: &Hosted| !hosted.replica.is_copying() && hosted.replica.takes_part();
        let places = map.replicas_on(me).filter(|place| !self.replicas.failures.0.contains_key(place));
        let behind = places.filter_map(|place| {
            let hosted = self.replicas.hosted.get(&place);
            let missing = hosted.map(|hosted| hosted.replica.missing()).unwrap_or_default();
            let called = Self::called(place, known);
            if !missing.is_empty() {
                let missing = addresses(missing);
                return Some(format!(
                    "no majority of replicas is there for {called}: nothing is heard of {missing}"
                ));
            }
            (!hosted.is_some_and(is_there)).then(|| format!("the replica of {called} is not up to date yet"))
        });
        let managers = || addresses(map.managers());
        let unheard = (!known.clock.is_known())
            .then(|| format!("has not heard yet of {CLOCK}, which is kept by {}", managers()));
        let is_joining = !map.has(me, &known.address) && !map.draining.contains(&me);
        let unreached = is_joining
            .then(|| format!("has not joined yet: {} has to reach it at {}", managers(), known.address));
        unheard.into_iter().chain(unreached).chain(behind).chain(self.moving(known)).collect()
    }

    /// What is led here and is to have other replicas than it has: who relied on those that it is to have would lose it with those that it has.
    fn moving(&self, known: &Known) -> impl Iterator<Item = String> {
        // Who keeps the map knows it first.
        let map = self.membership.manager.as_ref().map_or(&known.map, Manager::map);
        let is_moving = |(place, hosted): &(&Place, &Hosted)| {
            let has: BTreeSet<_> = hosted.replica.group().nodes().collect();
            let is_to_have = map.replicas(**place).map(|replicas| replicas.members.iter().copied().collect());
            let is_to_spread = **place == RECORDS && map.is_to_spread();
            hosted.replica.leads()
                && (is_to_spread || is_to_have.is_some_and(|members: BTreeSet<_>| members != has))
        };
        let moving = self.replicas.hosted.iter().filter(is_moving).map(|(place, _)| *place);
        let moving: Vec<_> = moving.map(|place| Self::called(place, known)).collect();
        moving.into_iter().map(|shard| format!("the replicas of {shard} are not yet where they are to be"))
    }

    /// A replica whose disk has failed takes part again when that takes something: it may have nothing else to write for long.
    pub(super) fn try_disk(&mut self, place: Place, hosted: Option<Hosted>) -> Result<Option<Hosted>, Error> {
        if let Some(hosted) = &hosted
            && self.replicas.failures.0.contains_key(&place)
        {
            hosted.begin()?;
            self.replicas.failures.0.remove(&place);
        }
        Ok(hosted)
    }
}
