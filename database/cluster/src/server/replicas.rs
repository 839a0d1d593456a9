//! Replicas of shards: this server holds them, and serves the shards whose replicas lead here.

mod leader;

use super::copying::{Copying, Given};
use super::{Event, Held, Known, Synced, Timer, Turn};
use crate::map::{FIRST_LIFE, RECORDS};
use crate::message::{MapRequest, Message};
use crate::name::DatabaseNumber;
use crate::open::ShardOptions;
use crate::replicated::Entries;
use fulmar_kv::{Error, ShardId};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use fulmar_replication::{Event as Said, Group as Members, Member, Options, Replica, SequenceNumber, View};
use leader::{Front, Stage};
use std::collections::{BTreeMap, VecDeque};

pub(super) type Place = (DatabaseNumber, ShardId);

/// A replica of a shard.
pub(super) struct Hosted {
    pub(super) replica: Replica<Entries>,
    pub(super) entries: Entries,
    /// In which of the server's lives it began.
    life: u64,
    logged: Lsn,
    /// Which of the server's records hold which of the replica's.
    underway: VecDeque<(Lsn, Lsn)>,
    front: Option<Front>,
    pub(super) copying: Option<Copying>,
    /// Parts of what it holds that others copy.
    pub(super) given: BTreeMap<NodeId, Given>,
    /// For how many sweeps the shard has not been served here, though its replicas lead here, or have led lately; and for how
    /// many it could do with its protocol of choice.
    unserved: u32,
    complete: u32,
    /// What was committed at the last sweep.
    committed: SequenceNumber,
    /// Its disk has failed: it takes part no more.
    pub(super) is_broken: bool,
}

fn options(options: &ShardOptions) -> Options {
    Options { checkpoint: options.checkpoint, is_copied: true, ..options.leader_timeout.options() }
}

impl Hosted {
    /// Writes down in which of the server's lives it has begun.
    pub(super) fn begin(&self) -> Result<(), Error> {
        self.entries.begin(self.life)
    }

    /// It takes part in another view: operators are told, but of the first of all.
    fn tell_view(&self, view: View, place: Place, turn: &mut Turn<'_>) {
        if view == View::first_of(0) {
            return;
        }
        let (group, shard) = (self.replica.group(), Held::called(place, turn.known));
        if view == View::first_of(group.epoch()) {
            let (members, protocol) = (group.nodes().collect(), group.protocol());
            turn.out.event(Event::Group { shard: shard.clone(), members, protocol });
        }
        turn.out.event(Event::View { shard, view, leader: group.leader(view) });
    }
}

/// Sends what a replica of a shard, or its leader's client, has to say.
fn say(turn: &mut Turn<'_>, place: Place, sends: Vec<(NodeId, fulmar_replication::Message)>) {
    let (database, shard) = place;
    for (to, message) in sends {
        turn.send(to, Message::Replication { database, shard, message: Box::new(message) });
    }
}

impl Held {
    /// Begins the replicas that this server is to hold and does not yet.
    pub(super) fn host(&mut self, turn: &mut Turn<'_>) {
        let me = turn.known.me;
        let missing: Vec<_> = turn
            .known
            .map
            .replicas_on(me)
            .filter(|place| !self.replicas.hosted.contains_key(place))
            .collect();
        let mut has_opened = false;
        for place in missing {
            if self.replicas.failures.rests(place, turn.now) {
                continue;
            }
            if !self.replicas.opened.contains_key(&place) && std::mem::replace(&mut has_opened, true) {
                // To make what a replica is kept in takes dozens of syncs: others are heard in between.
                turn.out.set_timer(Timer::Host, turn.now);
                continue;
            }
            // It is tried again; without this replica the others go on.
            let opened = self.open_replica(place, turn);
            let hosted = match opened.and_then(|hosted| self.try_disk(place, hosted)) {
                Ok(Some(hosted)) => hosted,
                Ok(None) => continue,
                Err(why) => {
                    self.fail_replica(place, why, turn);
                    continue;
                }
            };
            let life = hosted.life;
            self.replicas.hosted.insert(place, hosted);
            self.step_replica(place, turn, |replica, now, out| replica.start(now, out));
            self.tell_begin(place, life, turn);
        }
    }

    /// Which of this server's lives this is, if it knows.
    fn life(known: &Known) -> Option<u64> {
        // No other has heard of the clock when it was there.
        known.clock.is_known().then(|| known.clock.born().0)
    }

    /// Has the map tell that there is a replica here, if it does not.
    fn tell_begin(&mut self, place: Place, life: u64, turn: &mut Turn<'_>) {
        if turn.known.map.is_to_begin(place, turn.known.me) {
            let manager = turn.known.map.manager;
            let request = MapRequest::Begin(place.0, place.1, life);
            turn.send(manager, Message::Ask(request));
        }
    }

    /// A replica is a founder's if it began in the life of the server in which that was to, as far as the map knows; else one has
    /// lost what it had, or it comes later. If that cannot be told yet, there is none.
    fn open_replica(&mut self, place: Place, turn: &mut Turn<'_>) -> Result<Option<Hosted>, Error> {
        let (Some(name), Some(replicas)) = (turn.known.map.name(place), turn.known.map.replicas(place))
        else {
            return Ok(None);
        };
        let (entries, records) = match self.replicas.opened.remove(&place) {
            Some(opened) => opened,
            None => {
                let (path, engine) = self.directory.engine(&name, place.1)?;
                Entries::open(&path, engine)?
            }
        };
        let new_life = || {
            if self.membership.founds && place == RECORDS { Some(FIRST_LIFE) } else { Self::life(turn.known) }
        };
        let Some(life) = entries.life().or_else(new_life) else {
            self.replicas.opened.insert(place, (entries, records));
            return Ok(None);
        };
        if entries.life().is_none() {
            // Before others count on it.
            entries.begin(life)?;
        }
        let me = turn.known.me;
        let is_founder = replicas.founders.contains(&me);
        let begun = replicas.begun.get(&me).copied();
        if is_founder && begun.is_none() {
            self.tell_begin(place, life, turn);
            self.replicas.opened.insert(place, (entries, records));
            return Ok(None);
        }
        let incarnation = if is_founder && begun == Some(life) { 0 } else { life };
        // Where they are now is told to who knows nothing else.
        let later = replicas.group.clone().filter(|_| records.is_empty());
        let group =
            later.map_or_else(|| Members::new(replicas.founders.iter().copied(), replicas.protocol), Ok);
        let group = group.map_err(|error| {
            Error::io(name.as_ref(), std::io::Error::new(std::io::ErrorKind::InvalidInput, error))
        })?;
        let member = Member { node: me, incarnation };
        let options = options(&self.directory.options());
        let replica = Replica::new(member, group, options, entries.clone(), &records);
        let logged = Lsn(records.len() as u64);
        Ok(Some(Hosted {
            replica,
            entries,
            life,
            logged,
            underway: VecDeque::new(),
            front: None,
            copying: None,
            given: BTreeMap::new(),
            unserved: 0,
            complete: 0,
            committed: SequenceNumber(0),
            is_broken: false,
        }))
    }

    pub(super) fn step_replica(
        &mut self,
        place: Place,
        turn: &mut Turn<'_>,
        step: impl FnOnce(&mut Replica<Entries>, Time, &mut Outbox<Replica<Entries>>),
    ) {
        let Some(hosted) = self.replicas.hosted.get_mut(&place).filter(|hosted| !hosted.is_broken) else {
            return;
        };
        let mut own = Outbox::after(hosted.logged);
        step(&mut hosted.replica, turn.now, &mut own);
        hosted.logged = own.logged();
        if let Err(why) = hosted.entries.store(&own.records) {
            return self.fail_replica(place, why, turn);
        }
        if !own.records.is_empty() {
            let lsn = turn.out.record(Synced::of_replica(&hosted.entries));
            hosted.underway.push_back((lsn, hosted.logged));
        }
        say(turn, place, own.sends);
        if hosted.entries.is_behind() {
            // Others are heard in between.
            turn.out.set_timer(Timer::Store(place), turn.now);
        }
        let timers = own.timers.into_iter().map(|(name, change)| (Timer::Replica(place, name), change));
        turn.out.timers.extend(timers);
        for said in own.events {
            match said {
                Said::Behind(from) => hosted.copy_from(from, place, turn),
                Said::View(view) => hosted.tell_view(view, place, turn),
            }
        }
        self.observe(place, turn);
    }

    pub(super) fn step_replicas(
        &mut self,
        turn: &mut Turn<'_>,
        step: impl Fn(&mut Replica<Entries>, Time, &mut Outbox<Replica<Entries>>),
    ) {
        for place in self.replicas.hosted.keys().copied().collect::<Vec<_>>() {
            self.step_replica(place, turn, &step);
        }
    }

    /// The map has changed.
    pub(super) fn look_at_map(&mut self, turn: &mut Turn<'_>) {
        let Known { map, me, .. } = &*turn.known;
        let is_here = |place: Place| map.replicas(place).is_some_and(|replicas| replicas.are_on(*me));
        self.replicas.failures.retain(is_here);
        self.replicas.opened.retain(|place, _| is_here(*place));
        self.host(turn);
        let places: Vec<_> = self.replicas.hosted.keys().copied().collect();
        for place in places {
            if turn.known.map.replicas(place).is_none_or(|replicas| !replicas.are_on(turn.known.me)) {
                self.follow(place, turn);
                self.replicas.hosted.remove(&place);
            }
            let serving = turn.known.map.replicas(place).and_then(|replicas| replicas.view);
            let Some(Hosted { front: Some(front), .. }) = self.replicas.hosted.get_mut(&place) else {
                continue;
            };
            if serving > Some(front.view) {
                self.follow(place, turn);
            } else if serving == Some(front.view) && front.stage == Stage::Registering {
                front.stage = Stage::Timing(turn.known.clock.next());
                turn.ask_time_again();
            }
        }
    }

    /// A message among replicas.
    pub(super) fn hear_replica(
        &mut self,
        place: Place,
        from: NodeId,
        message: fulmar_replication::Message,
        turn: &mut Turn<'_>,
    ) {
        use fulmar_replication::Message::{Forgotten, Group, Reply, SpeculativeReply};
        let Some(hosted) = self.replicas.hosted.get(&place) else { return };
        let is_for_front =
            matches!(message, Reply { .. } | SpeculativeReply { .. } | Forgotten { .. } | Group(_));
        if is_for_front && hosted.front.is_some() {
            let message = message.clone();
            self.step_front(place, turn, |client, now, out| client.receive(now, from, message, out));
        }
        self.step_replica(place, turn, |replica, now, out| replica.receive(now, from, message, out));
    }

    pub(super) fn wake_replica(
        &mut self,
        place: Place,
        timer: fulmar_replication::Timer,
        turn: &mut Turn<'_>,
    ) {
        self.step_replica(place, turn, |replica, now, out| replica.expire(now, timer, out));
    }

    /// Some of the server's records are durable.
    pub(super) fn replicas_durable(&mut self, upto: Lsn, turn: &mut Turn<'_>) {
        let places: Vec<_> = self.replicas.hosted.keys().copied().collect();
        for place in places {
            let Some(hosted) = self.replicas.hosted.get_mut(&place) else { continue };
            let mut durable = None;
            while let Some((_, own)) = hosted.underway.pop_front_if(|(lsn, _)| *lsn <= upto) {
                durable = Some(own);
            }
            match (durable, hosted.entries.why_unsynced()) {
                (_, Some(why)) => self.fail_replica(place, why, turn),
                (Some(own), None) => {
                    self.step_replica(place, turn, |replica, now, out| replica.durable(now, own, out));
                }
                (None, None) => {}
            }
        }
    }

    /// Asks again for what was not answered.
    pub(super) fn sweep_replicas(&mut self, turn: &mut Turn<'_>) {
        // What its engine holds is let go of before it is opened again.
        self.replicas
            .hosted
            .retain(|place, hosted| !hosted.is_broken || self.replicas.failures.rests(*place, turn.now));
        self.host(turn);
        self.register_all(turn);
        let places: Vec<_> = self.replicas.hosted.keys().copied().collect();
        let me = turn.known.me;
        for place in places {
            let Some(hosted) = self.replicas.hosted.get_mut(&place) else { continue };
            hosted.copy_on(place, turn);
            let life = hosted.life;
            let wish = turn.known.map.replicas(place).and_then(|replicas| hosted.wish(replicas, me));
            self.tell_begin(place, life, turn);
            if let Some(wish) = wish {
                self.step_replica(place, turn, |replica, now, out| replica.request(now, wish, out));
            }
        }
    }
}
