//! Replicas of shards: this server holds them, and serves the shards whose replicas lead here.
//!
//! The leader of a view first announces itself to all replicas. When that is committed, and carried out here, all that was committed
//! under others is here too, and nothing of theirs will be any more. Then it has the map say that it serves the shard; and when it has
//! asked the clock after that, it opens the shard, as if it had crashed. Who has led before may not know, and goes on to read
//! for clients: but no snapshot that is newer than the first commit of the new leader's, as it hears of such a time together
//! with the version of the map (see [`Message::Time`]).

use super::copying::{Copying, Given};
use super::ledger::Ledger;
use super::manager::Manager;
use super::shard::Shard;
use super::{Event, Held, Known, Synced, Timer, Turn};
use crate::map::{FIRST_LIFE, RECORDS, Replicas};
use crate::message::{DatabaseNumber, MapRequest, Message};
use crate::open::ShardOptions;
use crate::replicated::{DONE, Entries, Leading, Operation};
use fulmar_kv::{Database, Error, ShardId};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use fulmar_replication::{
    Client, ClientId, Event as Said, Group as Members, Invoke, Member, Options, Outcome, Protocol, Replica,
    SequenceNumber, View, Wish,
};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::time::Duration;

pub(super) type Place = (DatabaseNumber, ShardId);

/// How long a leader waits for its own replicas' answer before it asks all of them.
const PATIENCE: Duration = Duration::from_millis(200);
/// A shard that was not served for so many sweeps, for want of a superquorum, is to do without…
const UNSERVED: u32 = 6;
/// …until all its replicas have been there for so many. Then the first of them is to lead it again, too.
const COMPLETE: u32 = 40;

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

/// As the leader of a view.
struct Front {
    view: View,
    client: Client,
    stage: Stage,
    /// Whether the replicas have not answered yet.
    is_asking: bool,
    /// The shard may be seen when so many of its batches are taken.
    begins_at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The replicas are to know that it leads.
    Announcing,
    /// They do; the map is to say that it serves the shard.
    Registering,
    /// It does; the clock is to answer this question, or a later one.
    Timing(u64),
    Serving,
    /// Another leads.
    Over,
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

    /// The view in which it serves the shard.
    pub(super) fn serves(&self) -> Option<View> {
        self.front.as_ref().filter(|front| front.stage == Stage::Serving).map(|front| front.view)
    }

    /// What is to be changed about the shard, if this server leads its replicas. Asked once a sweep.
    ///
    /// Speculation commits nothing within a view as long as no superquorum is there: then another protocol is better (Speculative
    /// Paxos, section 4.2.5). And when all are there again, the first of the members leads, so that work is shared as it was.
    fn wish(&mut self, replicas: &Replicas, me: NodeId) -> Option<Wish> {
        if let Some(front) = &self.front {
            let before = std::mem::replace(&mut self.committed, self.replica.committed());
            let is_served = front.stage == Stage::Serving && (!front.is_asking || self.committed > before);
            self.unserved = if is_served { 0 } else { self.unserved + 1 };
            self.entries.set_stalled(self.unserved >= UNSERVED);
        }
        self.complete = if self.replica.is_complete() { self.complete + 1 } else { 0 };
        let group = self.replica.group();
        let member = |node: &NodeId| {
            let known = group.members().iter().find(|member| member.node == *node).copied();
            known.or_else(|| replicas.begun.get(node).map(|life| Member { node: *node, incarnation: *life }))
        };
        let members: Option<Vec<_>> = replicas.members.iter().map(member).collect();
        let others = members.filter(|members| members != group.members());
        let protocol = group.protocol();
        let is_long_complete = self.complete >= COMPLETE;
        let better = match protocol {
            Protocol::Speculative if self.unserved >= UNSERVED && self.replica.lacks_superquorum() => {
                Some(Protocol::Viewstamped)
            }
            Protocol::Viewstamped if is_long_complete => Some(replicas.protocol),
            _ => None,
        };
        if is_long_complete {
            self.complete = 0;
        }
        let better = better.filter(|better| *better != protocol);
        if others.is_some() || better.is_some() {
            let members = others.unwrap_or_else(|| group.members().to_vec());
            return Some(Wish::Reconfigure(members, better.unwrap_or(protocol)));
        }
        let first = replicas.members.first().copied().filter(|first| *first != me);
        first.filter(|_| is_long_complete).map(Wish::Resign)
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

    /// Leads, or follows, as the replica does.
    fn observe(&mut self, place: Place, turn: &mut Turn<'_>) {
        let Some(hosted) = self.replicas.hosted.get_mut(&place) else { return };
        let leads = hosted.replica.view().filter(|_| hosted.replica.leads());
        if hosted.front.as_ref().map(|front| front.view) != leads {
            self.follow(place, turn);
            match (leads, self.replicas.hosted.get_mut(&place)) {
                (Some(view), _) => self.lead(place, view, turn),
                (None, Some(hosted)) => hosted.front = None,
                (None, None) => {}
            }
        }
        let Some(Hosted { front: Some(front), entries, .. }) = self.replicas.hosted.get_mut(&place) else {
            return;
        };
        let is_announced = front.stage == Stage::Announcing && !front.is_asking;
        if is_announced && entries.leader() == Some(front.view) {
            if place == RECORDS {
                front.stage = Stage::Serving;
                turn.out.event(Event::Serves { shard: Self::called(place, turn.known), view: front.view });
                let kept = self.keep_records(turn);
                turn.report(|_| "go on with the clock and the map".into(), kept);
            } else {
                front.stage = Stage::Registering;
                self.register(place, turn);
            }
        }
    }

    /// Announces that the replica here leads.
    fn lead(&mut self, place: Place, view: View, turn: &mut Turn<'_>) {
        let Some(hosted) = self.replicas.hosted.get_mut(&place) else { return };
        hosted.entries.lead(view);
        // No leader of another view has this name, and none leads the same view in two lives.
        let name = ClientId(view.epoch << 32 | view.number);
        let client = Client::new(name, hosted.replica.group().clone(), PATIENCE).in_view(view);
        hosted.front = Some(Front { view, client, stage: Stage::Announcing, is_asking: true, begins_at: 0 });
        let announcement = Invoke::Execute(Operation::Lead(view).encode().into());
        self.step_front(place, turn, |client, now, out| client.request(now, announcement, out));
    }

    /// Has nothing more to say for a shard.
    pub(super) fn follow(&mut self, place: Place, turn: &mut Turn<'_>) {
        if let Some(hosted) = self.replicas.hosted.get_mut(&place) {
            hosted.entries.follow();
            let stage = hosted.front.as_mut().map(|front| std::mem::replace(&mut front.stage, Stage::Over));
            if stage == Some(Stage::Serving) {
                turn.out.event(Event::ServesNoMore { shard: Self::called(place, turn.known) });
            }
        }
        if let Some(mut shard) = self.shards.open.remove(&place) {
            shard.redirect(turn);
        }
        self.membership.manager.take_if(|_| place == RECORDS);
    }

    fn register(&mut self, place: Place, turn: &mut Turn<'_>) {
        let Some(Hosted { front: Some(front), replica, .. }) = self.replicas.hosted.get(&place) else {
            return;
        };
        let (manager, (database, shard)) = (turn.known.map.manager, place);
        let request = MapRequest::Lead(database, shard, front.view, replica.group().clone());
        turn.send(manager, Message::Ask(request));
    }

    /// Has the map say, perhaps again, that shards are served here whose replicas know: who was to say so may be gone.
    pub(super) fn register_all(&mut self, turn: &mut Turn<'_>) {
        for place in self.replicas.hosted.keys().copied().collect::<Vec<_>>() {
            let front = self.replicas.hosted.get(&place).and_then(|hosted| hosted.front.as_ref());
            if front.is_some_and(|front| front.stage == Stage::Registering) {
                self.register(place, turn);
            }
        }
    }

    fn step_front(
        &mut self,
        place: Place,
        turn: &mut Turn<'_>,
        step: impl FnOnce(&mut Client, Time, &mut Outbox<Client>),
    ) {
        let Some(Hosted { front: Some(front), .. }) = self.replicas.hosted.get_mut(&place) else { return };
        let mut own = Outbox::default();
        step(&mut front.client, turn.now, &mut own);
        say(turn, place, own.sends);
        turn.out.timers.extend(own.timers.into_iter().map(|((), change)| (Timer::Front(place), change)));
        for outcome in own.events {
            self.hear_replicas(place, outcome == Outcome::Result(vec![DONE]), turn);
        }
    }

    /// The replicas have done what they were asked to, or follow another.
    fn hear_replicas(&mut self, place: Place, is_done: bool, turn: &mut Turn<'_>) {
        let Some(Hosted { front: Some(front), entries, .. }) = self.replicas.hosted.get_mut(&place) else {
            return;
        };
        front.is_asking = false;
        if !is_done {
            return self.follow(place, turn);
        }
        if front.stage == Stage::Announcing {
            return self.observe(place, turn);
        }
        entries.is_taken();
        if let Some(shard) = self.shards.open.get_mut(&place) {
            shard.release(turn);
        }
        if let Some(manager) = self.membership.manager.as_mut().filter(|_| place == RECORDS) {
            manager.is_confirmed(turn);
            manager.durable(turn);
        }
    }

    /// Asks replicas to take what was written for them, or whether they are led from here; says whether there was anything.
    pub(super) fn propose(&mut self, turn: &mut Turn<'_>) -> bool {
        let mut due = Vec::new();
        for (place, hosted) in &mut self.replicas.hosted {
            let Some(front) = &mut hosted.front else { continue };
            if front.stage != Stage::Serving || front.is_asking {
                continue;
            }
            let asks = *place == RECORDS && self.membership.manager.as_mut().is_some_and(Manager::asks);
            let leads = || Invoke::Query(Operation::Lead(front.view).encode().into());
            let write = hosted.entries.next_operation();
            let write = write.map(|operation| Invoke::Execute(operation.encode().into()));
            if let Some(invoke) = write.or_else(|| asks.then(leads)) {
                front.is_asking = true;
                due.push((*place, invoke));
            }
        }
        let is_any = !due.is_empty();
        for (place, invoke) in due {
            self.step_front(place, turn, |client, now, out| client.request(now, invoke, out));
        }
        is_any
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

    /// The clock has answered this question.
    pub(super) fn begin_to_serve(&mut self, number: u64, turn: &mut Turn<'_>) {
        let mut places = Vec::new();
        for (place, hosted) in &mut self.replicas.hosted {
            if let Some(front) = &mut hosted.front
                && matches!(front.stage, Stage::Timing(from) if from <= number)
            {
                front.stage = Stage::Serving;
                let shard = Self::called(*place, turn.known);
                turn.out.event(Event::Serves { shard, view: front.view });
                places.push(*place);
            }
        }
        for place in places {
            let served = self.serves(place, turn);
            turn.report(|known| format!("open {}", Self::called(place, known)), served);
        }
    }

    /// Whether this server serves a shard that is replicated, which then is open.
    pub(super) fn serves(&mut self, place: Place, turn: &mut Turn<'_>) -> Result<bool, Error> {
        let Some(hosted) = self.replicas.hosted.get_mut(&place) else { return Ok(false) };
        let Some(view) = hosted.serves().filter(|_| place != RECORDS) else { return Ok(false) };
        let entries = hosted.entries.clone();
        // What was written before the failure stands.
        let has_failed = |shard: &Shard| shard.database().storage().has_failed();
        let failed =
            self.shards.open.get(&place).is_some_and(has_failed).then(|| self.shards.open.remove(&place));
        let promised = failed.flatten().map(|mut failed| {
            failed.redirect(turn);
            failed.database().storage().last()
        });
        if !self.shards.open.contains_key(&place) {
            let Some(name) = turn.known.map.name(place) else { return Ok(false) };
            let engine = Box::new(Leading { entries: entries.clone(), view });
            let options = fulmar_kv::Options { shard: place.1, ..self.directory.options().storage };
            let kv = Database::with_engine(Path::new(&*name), engine, &options)?;
            let trees = fulmar_dbt::Database::on(kv.clone())?;
            kv.storage().skip_lost_names()?;
            if let Some(front) = &mut hosted.front {
                (front.begins_at, _) = entries.progress();
            }
            let ledger = Ledger::Replicas(entries.clone());
            let shard = Shard::new(place, (kv, trees), (true, ledger), turn);
            shard.keep_promises(promised.unwrap_or_default());
            self.shards.open.insert(place, shard);
        }
        let begins_at = hosted.front.as_ref().map_or(0, |front| front.begins_at);
        Ok(entries.progress().1 >= begins_at)
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

    pub(super) fn wake_front(&mut self, place: Place, turn: &mut Turn<'_>) {
        self.step_front(place, turn, |client, now, out| client.expire(now, (), out));
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
