//! The leader of a shard's replicas, from its announcement until it serves the shard, and then as long as it does.
//!
//! The leader of a view first announces itself to all replicas. When that is committed, and carried out here, all that was committed
//! under others is here too, and nothing of theirs will be any more. Then it has the map say that it serves the shard; and when it has
//! asked the clock after that, it opens the shard, as if it had crashed. Who has led before may not know, and goes on to read
//! for clients: but no snapshot that is newer than the first commit of the new leader's, as it hears of such a time together
//! with the version of the map (see [`Message::Time`]).

use super::super::ledger::Ledger;
use super::super::manager::Manager;
use super::super::shard::Shard;
use super::super::{Event, Held, Timer, Turn};
use super::{Hosted, Place, say};
use crate::map::{RECORDS, Replicas};
use crate::message::{MapRequest, Message};
use crate::replicated::{DONE, Leading, Operation};
use fulmar_kv::{Database, Error};
use fulmar_node::{NodeId, Outbox, Process, Time};
use fulmar_replication::{Client, ClientId, Invoke, Member, Outcome, Protocol, View, Wish};
use std::path::Path;
use std::time::Duration;

/// How long a leader waits for its own replicas' answer before it asks all of them.
const PATIENCE: Duration = Duration::from_millis(200);
/// A shard that was not served for so many sweeps, for want of a superquorum, is to do without…
const UNSERVED: u32 = 6;
/// …until all its replicas have been there for so many. Then the first of them is to lead it again, too.
const COMPLETE: u32 = 40;

/// As the leader of a view.
pub(super) struct Front {
    pub(super) view: View,
    client: Client,
    pub(super) stage: Stage,
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

impl Hosted {
    /// The view in which it serves the shard.
    pub(in super::super) fn serves(&self) -> Option<View> {
        self.front.as_ref().filter(|front| front.stage == Stage::Serving).map(|front| front.view)
    }

    /// What is to be changed about the shard, if this server leads its replicas. Asked once a sweep.
    ///
    /// Speculation commits nothing within a view as long as no superquorum is there: then another protocol is better (Speculative
    /// Paxos, section 4.2.5). And when all are there again, the first of the members leads, so that work is shared as it was.
    pub(super) fn wish(&mut self, replicas: &Replicas, me: NodeId) -> Option<Wish> {
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

impl Held {
    /// Leads, or follows, as the replica does.
    pub(super) fn observe(&mut self, place: Place, turn: &mut Turn<'_>) {
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
    pub(in super::super) fn follow(&mut self, place: Place, turn: &mut Turn<'_>) {
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
    pub(in super::super) fn register_all(&mut self, turn: &mut Turn<'_>) {
        for place in self.replicas.hosted.keys().copied().collect::<Vec<_>>() {
            let front = self.replicas.hosted.get(&place).and_then(|hosted| hosted.front.as_ref());
            if front.is_some_and(|front| front.stage == Stage::Registering) {
                self.register(place, turn);
            }
        }
    }

    pub(super) fn step_front(
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
    pub(in super::super) fn propose(&mut self, turn: &mut Turn<'_>) -> bool {
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

    /// The clock has answered this question.
    pub(in super::super) fn begin_to_serve(&mut self, number: u64, turn: &mut Turn<'_>) {
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
    pub(in super::super) fn serves(&mut self, place: Place, turn: &mut Turn<'_>) -> Result<bool, Error> {
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

    pub(in super::super) fn wake_front(&mut self, place: Place, turn: &mut Turn<'_>) {
        self.step_front(place, turn, |client, now, out| client.expire(now, (), out));
    }
}
