//! What clients ask about shards: as soon as the clock has told what a question needs, its shard is asked.

use super::ledger::Ledger;
use super::shard::{Asked, Shard, Sighted, Task, Wanted, has_enough};
use super::{AtOnce, Held, Turn, snapshots};
use crate::message::{self, Sight};
use crate::name::DatabaseNumber;
use fulmar_kv::{Durability, Error, Exclusion, ShardId, Timestamp};
use fulmar_node::NodeId;
use std::sync::Arc;

fn opens_a_snapshot(question: &message::Question) -> bool {
    use message::Question::{OpenSnapshot, Read, ReopenSnapshot};
    matches!(question, OpenSnapshot | ReopenSnapshot(_) | Read { at: Sight::New(_) | Sight::Once(_), .. })
}

/// A client's question about a shard.
pub(super) struct ClientQuestion {
    pub(super) client: NodeId,
    pub(super) number: u64,
    pub(super) again: bool,
    pub(super) place: (DatabaseNumber, ShardId),
    pub(super) question: message::Question,
}

impl Held {
    /// Whether this server holds the shard, which then is open.
    pub(super) fn holds(
        &mut self,
        place: (DatabaseNumber, ShardId),
        turn: &mut Turn<'_>,
    ) -> Result<bool, Error> {
        if turn.known.map.replicas(place).is_some() {
            return self.serves(place, turn);
        }
        if self.shards.open.contains_key(&place) {
            return Ok(true);
        }
        let (database, shard) = place;
        if turn.known.map.server(database, shard) != Some(turn.known.me)
            || turn.known.map.leaving.contains_key(&place)
        {
            return Ok(false);
        }
        let Some(placement) = turn.known.map.databases.get(&database) else { return Ok(false) };
        let kv = self.directory.open(&placement.name, shard)?;
        let trees = fulmar_dbt::Database::on(kv.clone())?;
        kv.storage().skip_lost_names()?;
        let has_arrived = self.shards.arriving.contains_key(&place);
        let origin = (has_arrived, Ledger::Disk);
        let shard = Shard::new(place, (kv, trees), origin, turn);
        self.shards.open.insert(place, shard);
        Ok(true)
    }

    /// Answers a client's question, as soon as the clock has told what it needs.
    pub(super) fn ask(&mut self, asked: ClientQuestion, turn: &mut Turn<'_>) {
        let mut asked = asked;
        if let message::Question::Read { object, from, direction, at, bytes, begun } = &mut asked.question
            && let Sight::Once(expected) = at
        {
            let reached = turn.known.clock.reached();
            let wanted = Wanted { object: *object, part: direction.part(from), bytes: *bytes, begun: *begun };
            if let Some(shard) = self.shards.open.get_mut(&asked.place)
                && !shard.is_replicated()
                && let Some(answer) = shard.read_newest(asked.client, wanted, expected.as_ref(), reached)
            {
                return turn.answer(asked.client, asked.number, answer);
            }
            *at = Sight::New(expected.take());
        }
        // Another server may serve the shard by the time of a snapshot that was opened elsewhere.
        let is_ahead =
            turn.known.map.replicas(asked.place).is_some() && asked.sees() > turn.known.clock.now();
        if let message::Question::Exclude(Exclusion::End) = asked.question {
            let begins = |question: &message::Question| {
                matches!(question, message::Question::Exclude(Exclusion::Begin))
            };
            self.shards.untimed.extract(|(_, here)| {
                (here.client, here.place) == (asked.client, asked.place) && begins(&here.question)
            });
        }
        // What is asked again while it waits here is here.
        let is_here =
            |(_, here): &(u64, ClientQuestion)| (here.client, here.number) == (asked.client, asked.number);
        if asked.again && self.shards.untimed.iter().any(is_here) {
            return;
        }
        if asked.needs_time() || is_ahead || !turn.known.clock.is_known() {
            if matches!(asked.question, message::Question::CommitUnread(..)) {
                turn.known.clock.go_on();
            }
            return self.wait_for_the_clock(asked, turn);
        }
        self.pursue(asked, turn);
    }

    fn wait_for_the_clock(&mut self, asked: ClientQuestion, turn: &mut Turn<'_>) {
        let weight = asked.question.weight();
        if let Err((_, asked)) = self.shards.untimed.push(weight, (turn.known.clock.next(), asked)) {
            return turn.answer(asked.client, asked.number, AtOnce::Elsewhere);
        }
        turn.ask_time();
    }

    /// Answers a client's question, for which the clock is new enough.
    fn pursue(&mut self, asked: ClientQuestion, turn: &mut Turn<'_>) {
        let holds = self.holds(asked.place, turn);
        // What was committed before this server knew the clock is seen as soon as the clock has reached it.
        let is_behind =
            |shard: &Shard| shard.opened_at().max(turn.known.clock.forgotten()) > turn.known.clock.now();
        if asked.needs_time() && self.shards.open.get(&asked.place).is_some_and(is_behind) {
            return self.wait_for_the_clock(asked, turn);
        }
        let ClientQuestion { client, number, again, place, question } = asked;
        match holds {
            Ok(true) => {}
            Ok(false) => return turn.answer(client, number, AtOnce::Elsewhere),
            Err(error) => {
                // What was asked for before may have been done then.
                let error = if again { error.of_unknown_outcome() } else { error };
                let failed = turn.failed(error);
                return turn.answer(client, number, AtOnce::Failed(failed));
            }
        }
        if !question.shards().all(|shard| turn.known.map.server(place.0, shard).is_some()) {
            // Of one that is not there nobody would hear what it decides. If there is a newer map, it is known in a moment.
            return turn.answer(client, number, AtOnce::Elsewhere);
        }
        let Some(shard) = self.shards.open.get_mut(&place) else { return };
        if question.changes() && !shard.has_room() {
            // Who leads nobody may be led by another by now: the client asks again in a while, there or here.
            return turn.answer(client, number, AtOnce::Elsewhere);
        }
        // Whatever the client wants of its commits: what others have committed since may rest on it, on other disks.
        let is_rested_on = turn.known.map.is_spread(place.0) && shard.database().storage().is_kept();
        let at_least = |durability| if is_rested_on { Durability::Synced } else { durability };
        if opens_a_snapshot(&question) && turn.known.snapshots.are_enough(client) {
            let failed = turn.failed(has_enough(format_args!("{} snapshots open", snapshots::MOST)));
            return turn.answer(client, number, AtOnce::Failed(failed));
        }
        let mut open = || {
            let at = turn.known.clock.now();
            turn.known.snapshots.open(client, number, at)
        };
        let weight = question.weight();
        let task = match question {
            message::Question::OpenSnapshot => {
                let answer = open().map_or(AtOnce::Closed, AtOnce::Now);
                return turn.answer(client, number, answer);
            }
            message::Question::Newest => {
                let now = turn.known.clock.now();
                return turn.answer(client, number, AtOnce::Now(now));
            }
            message::Question::Size => {
                let bytes = shard.size();
                return turn.answer(client, number, AtOnce::Size(bytes));
            }
            message::Question::ReopenSnapshot(at) => {
                let reopened = shard.reopen_snapshot(client, at);
                let reopened = reopened.map(|()| turn.known.snapshots.open(client, number, at));
                let answer =
                    reopened.map_or_else(|error| AtOnce::Failed(turn.failed(error)), |_| AtOnce::Now(at));
                return turn.answer(client, number, answer);
            }
            message::Question::Pick { tree, next, count, at } => {
                let picked = shard.pick(client, at, tree, (next, count));
                let answer = picked.map_or_else(|error| AtOnce::Failed(turn.failed(error)), AtOnce::Picked);
                return turn.answer(client, number, answer);
            }
            message::Question::Read { object, from, direction, at, bytes, begun } => {
                let sight = match at {
                    Sight::Open(at) => Sighted { at, is_new: false, expected: None, waits: true },
                    Sight::New(expected) | Sight::Once(expected) => {
                        let Some(at) = open() else { return };
                        Sighted { at, is_new: true, expected, waits: true }
                    }
                };
                Task::Read { object, from, direction, bytes, begun, sight }
            }
            message::Question::Commit(transaction, commit, durability) => {
                Task::Commit(transaction, commit, at_least(durability))
            }
            message::Question::CommitUnread(transaction, mut commit, basis, durability) => {
                // What the clock has not reached yet would be a conflict, and the next try would find another.
                let now = turn.known.clock.now().max(shard.database().storage().last());
                Arc::make_mut(&mut commit).snapshot = now.max(basis.after);
                Task::CommitUnread(transaction, commit, basis, at_least(durability))
            }
            message::Question::Prepare(prepare) => Task::Prepare(prepare),
            message::Question::Decide(transaction, at, durability) => {
                Task::Decide(transaction, at, at_least(durability))
            }
            message::Question::Exclude(exclusion) => Task::Exclude(exclusion),
            // Asked of the server.
            message::Question::Open { .. } => return,
        };
        shard.ask(Asked { client, number, again, task, weight }, turn);
    }

    /// The clock has told where it is.
    pub(super) fn hear_time(&mut self, number: u64, turn: &mut Turn<'_>) {
        while let Some((_, asked)) = self.shards.untimed.pop_if(|(needs, _)| *needs <= number) {
            self.pursue(asked, turn);
        }
        if self.shards.untimed.is_empty() {
            turn.catch_up()
        } else {
            turn.ask_time()
        }
        self.release(turn);
    }

    pub(super) fn release(&mut self, turn: &mut Turn<'_>) {
        for shard in self.shards.open.values_mut() {
            shard.release(turn);
        }
    }

    /// Tells a shard what another has to say, if it is served here: who asks and is not answered asks again.
    pub(super) fn tell_shard(
        &mut self,
        place: (DatabaseNumber, ShardId),
        turn: &mut Turn<'_>,
        tell: impl FnOnce(&mut Shard, &mut Turn<'_>) -> Result<(), Error>,
    ) -> bool {
        if turn.known.clock.is_known()
            && matches!(self.holds(place, turn), Ok(true))
            && let Some(shard) = self.shards.open.get_mut(&place)
        {
            let told = tell(shard, turn);
            turn.report(|known| format!("write to {}", Self::called(place, known)), told);
            return true;
        }
        false
    }
}

impl ClientQuestion {
    /// The snapshot that it is about, if that was opened before.
    fn sees(&self) -> Timestamp {
        match &self.question {
            message::Question::Read { at: Sight::Open(at), .. }
            | message::Question::ReopenSnapshot(at)
            | message::Question::Pick { at, .. } => *at,
            _ => Timestamp(0),
        }
    }

    /// Whether it is to be answered with what was acknowledged before it.
    fn needs_time(&self) -> bool {
        match &self.question {
            message::Question::OpenSnapshot
            | message::Question::Newest
            | message::Question::CommitUnread(..)
            | message::Question::Exclude(Exclusion::Begin) => true,
            message::Question::Read { at, .. } => !matches!(at, Sight::Open(_)),
            _ => false,
        }
    }
}
