//! One shard on its server: what clients ask of it, and what becomes of transactions of several shards.

mod answers;
mod commits;
mod deferred;
mod exclusion;
mod forwarding;
mod reads;
mod task;
mod transactions;

use super::balance::Heat;
use super::ledger::Ledger;
use super::reshape::{Pace, Underway, is_reshape};
use super::{AtOnce, Turn};
use crate::OUTCOME_KEPT;
use crate::message::{Answer, Message};
use crate::name::DatabaseNumber;
use crate::peer::PeerMessage;
use crate::status::ShardStatus;
pub(super) use answers::Done;
use answers::{Refused, Waiting};
use deferred::Deferred;
use exclusion::Excluding;
use fulmar_kv::{
    Commit, Database, Durability, Error, Expected, Interval, Key, Numbers, ObjectId, Outcome, Outcomes,
    ShardId, Timestamp, TransactionId, Undecided,
};
use fulmar_node::{NodeId, Time};
pub(super) use reads::Wanted;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;
pub(super) use task::{Asked, Sighted, Task};
use transactions::Owner;

/// With so many sweeps in which no leaf has gone, those that could go have gone.
const STEADY: u32 = 8;

pub(super) struct Shard {
    pub(super) name: (DatabaseNumber, ShardId),
    pub(super) database: Database,
    /// Keeps the shape of the trees.
    pub(super) trees: fulmar_dbt::Database,
    ledger: Ledger,
    /// Its newest commit when it was opened, which the clock may have to reach yet.
    opened_at: Timestamp,
    users: BTreeSet<NodeId>,
    /// The last change that each client asked for, and the answer if it was given.
    last: BTreeMap<NodeId, (u64, Option<Answer>)>,
    /// What is carried out but not yet durable, or the clock has not reached it; oldest first.
    waiting: VecDeque<Waiting>,
    /// How many bytes of it are for readers.
    shown: u64,
    /// Commits that the disk may not hold. Nobody was told of them, and nobody sees them: if they are found when the shard is opened
    /// next, they take place then.
    lost: Option<Lost>,
    /// What met a lock.
    deferred: Deferred,
    /// Whose transactions are prepared.
    owners: BTreeMap<TransactionId, Owner>,
    /// Transactions that must not be prepared any more, and their snapshots: somebody was told that they will never
    /// take place. With a snapshot that is forgotten they cannot be.
    refused: BTreeMap<TransactionId, Timestamp>,
    /// Numbers that transactions have picked, which are known by their client and snapshot.
    numbers: Numbers<(NodeId, Timestamp)>,
    /// When those of them were carried out whose snapshot is still open.
    committed: BTreeMap<(NodeId, Timestamp), Timestamp>,
    /// Snapshots that were opened elsewhere, before the database came here.
    reopened: BTreeSet<(NodeId, Timestamp)>,
    /// Changes of the shape of trees whose roots are here, in which other shards have a part.
    pub(super) reshapes: BTreeMap<TransactionId, Underway>,
    pub(super) pace: Pace,
    /// Who keeps all others from committing.
    excluding: Option<Excluding>,
    /// What its leaves have had to do.
    pub(super) heat: Heat,
    /// Where to go on looking for leaves that are to move.
    pub(super) walked: Option<(ObjectId, Key)>,
    /// When outcomes of transactions were last forgotten.
    aged: Time,
    /// How many objects there were at the last sweep, and how many sweeps ago there were not so many.
    objects: u64,
    steady: u32,
    /// What it took on the disk when somebody last looked, and its newest commit then.
    size: Option<(Timestamp, u64)>,
    /// How much it has done.
    reads: u64,
    commits: u64,
}

/// What a disk that fails leaves in doubt.
struct Lost {
    from: Timestamp,
    /// Whether other shards may show some of it.
    is_shared: bool,
}

/// Of a client that asks for more.
pub(super) fn has_enough(what: fmt::Arguments<'_>) -> Error {
    Error::Io { path: "this client".into(), source: io::Error::other(format!("has {what}: end some")) }
}

/// What became of a question.
enum Progress {
    Refused(Refused),
    /// It is answered, or will be as soon as that may be told.
    Done,
    Blocked(TransactionId),
}

impl Shard {
    pub(super) fn new(
        name: (DatabaseNumber, ShardId),
        (database, trees): (Database, fulmar_dbt::Database),
        (has_arrived, ledger): (bool, Ledger),
        turn: &mut Turn<'_>,
    ) -> Self {
        let storage = database.storage();
        let now = turn.known.clock.now().max(turn.known.clock.forgotten());
        let opened_at = storage.last();
        turn.reach(opened_at);
        // What is known in memory only has not come along; nor has what replicas know, if it comes from elsewhere.
        let arrived = if has_arrived { opened_at } else { Timestamp(0) };
        if matches!(ledger, Ledger::Disk) {
            storage.outcomes(|outcomes| outcomes.forget_until(arrived));
        }
        storage.advance(now, turn.known.clock.forgotten().max(arrived));
        // Somebody may have read beneath the locks of what this shard is to decide, up to now, or where it was held before: it was told, and has
        // forgotten.
        let (seen, (_, shard)) = (now.max(storage.last()), name);
        let mut owners = BTreeMap::new();
        storage.pending(|pending| {
            for undecided in pending.all_undecided().iter().filter(|undecided| undecided.primary == shard) {
                pending.postpone(undecided.transaction, seen);
                if !is_reshape(undecided.transaction) {
                    owners.insert(undecided.transaction, Owner::returning(turn.now));
                }
            }
        });
        Self {
            name,
            database,
            trees,
            ledger,
            size: None,
            opened_at,
            users: BTreeSet::new(),
            last: BTreeMap::new(),
            waiting: VecDeque::new(),
            lost: None,
            shown: 0,
            deferred: Deferred::new(Arc::clone(&turn.known.deferred)),
            owners,
            refused: BTreeMap::new(),
            numbers: Numbers::default(),
            committed: BTreeMap::new(),
            reopened: BTreeSet::new(),
            reshapes: BTreeMap::new(),
            pace: Pace::default(),
            excluding: None,
            heat: Heat::default(),
            walked: None,
            aged: turn.now,
            objects: 0,
            steady: 0,
            reads: 0,
            commits: 0,
        }
    }

    /// What this shard is to decide, and all that is committed, will be later than what was told when it was open before.
    pub(super) fn keep_promises(&self, seen: Timestamp) {
        let (storage, (_, shard)) = (self.database.storage(), self.name);
        storage.pending(|pending| {
            for undecided in pending.all_undecided().iter().filter(|undecided| undecided.primary == shard) {
                pending.postpone(undecided.transaction, seen);
            }
        });
        storage.advance(seen, Timestamp(0));
    }

    /// About how many bytes it takes on the disk. All its files are looked at for that: not as often as anybody asks, but once for each commit
    /// at most.
    pub(super) fn size(&mut self) -> u64 {
        let storage = self.database.storage();
        let last = storage.last();
        match self.size {
            Some((looked, bytes)) if looked == last => bytes,
            _ => self.size.insert((last, storage.bytes())).1,
        }
    }

    /// From when on snapshots see all that it held when it was opened.
    pub(super) fn opened_at(&self) -> Timestamp {
        self.opened_at
    }

    pub(super) fn status(&self) -> ShardStatus {
        let (database, shard) = self.name;
        let prepared = self.database.storage().pending(|pending| pending.count());
        ShardStatus {
            database,
            shard,
            reads: self.reads,
            commits: self.commits,
            prepared: prepared as u64,
            cached: self.database.cached_bytes() as u64,
            nodes: self.database.storage().objects(),
        }
    }

    pub(super) fn is_replicated(&self) -> bool {
        matches!(self.ledger, Ledger::Replicas(_))
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Whether nobody uses it, and nothing would be forgotten if it were closed.
    pub(super) fn is_idle(&self) -> bool {
        let is_empty = self.waiting.is_empty() && self.refused.is_empty() && self.reshapes.is_empty();
        self.users.is_empty()
            && is_empty
            && self.database.is_settled()
            && !self.database.storage().has_failed()
    }

    /// Whether more changes may wait until they are durable.
    pub(super) fn has_room(&self) -> bool {
        self.ledger.has_room()
    }

    /// Goes on with a snapshot that the client has opened elsewhere.
    pub(super) fn reopen_snapshot(&mut self, client: NodeId, at: Timestamp) -> Result<(), Error> {
        self.users.insert(client);
        self.require_readable(at)?;
        if self.reopened.insert((client, at)) {
            self.database.reopen_snapshot(at);
        }
        // Nobody has committed here, nor before it came here, since that was opened.
        if let Some(own) = self.excluding.as_mut().filter(|own| own.client == client)
            && self.commits == 0
            && self.opened_at <= at
        {
            own.since = own.since.min(at);
        }
        Ok(())
    }

    /// A client has closed the last of its snapshots at this time.
    pub(super) fn end_snapshot(&mut self, client: NodeId, at: Timestamp) {
        if self.reopened.remove(&(client, at)) {
            self.database.close_snapshot(at);
        }
        let committed = self.committed.remove(&(client, at));
        self.numbers.end((client, at), committed);
    }

    /// See [`fulmar_kv::Store::pick`].
    pub(super) fn pick(
        &mut self,
        client: NodeId,
        at: Timestamp,
        tree: ObjectId,
        (next, count): (i64, i64),
    ) -> Result<i64, Error> {
        self.require_readable(at)?;
        Ok(self.numbers.pick((client, at), at, tree, next, count))
    }

    /// Answers a client, or will.
    pub(super) fn ask(&mut self, asked: Asked, turn: &mut Turn<'_>) {
        self.users.insert(asked.client);
        let is_due = match asked.task {
            Task::Read { .. } => !(asked.again && self.is_waited_for(asked.client, asked.number)),
            _ => self.is_next(asked.client, asked.number, turn),
        };
        if is_due {
            self.pursue(asked, turn);
        }
    }

    /// Whether an answer will come without asking again.
    fn is_waited_for(&self, client: NodeId, number: u64) -> bool {
        self.deferred.has(client, number) || self.is_about_to_be_told(client, number)
    }

    fn pursue(&mut self, asked: Asked, turn: &mut Turn<'_>) {
        if let Some((transaction, durability)) = asked.task.commits()
            && let Some(outcome) = self.database.storage().outcome(transaction)
        {
            return self.tell_outcome(&asked, outcome, durability, turn);
        }
        let progress = match &asked.task {
            Task::Read { object, from, direction, bytes, begun, sight } => {
                let wanted =
                    Wanted { object: *object, part: direction.part(from), bytes: *bytes, begun: *begun };
                self.read(&asked, wanted, sight, turn)
            }
            Task::Commit(transaction, commit, durability) => {
                self.commit(&asked, (*transaction, commit), *durability, turn)
            }
            Task::CommitUnread(transaction, commit, basis, durability) => {
                self.commit_unread(&asked, (*transaction, commit), basis, *durability, turn)
            }
            Task::Prepare(prepare) => self.prepare(&asked, prepare, turn),
            Task::Decide(transaction, at, durability) => {
                self.decide(&asked, *transaction, *at, *durability, turn)
            }
            Task::Exclude(exclusion) => self.exclude(&asked, *exclusion, turn),
        };
        let refused = match progress {
            Ok(Progress::Done) => return,
            Ok(Progress::Refused(refused)) => refused,
            Ok(Progress::Blocked(by)) => {
                let is_own = || {
                    self.owners.get(&by).is_some_and(|owner| owner.client == Some(asked.client))
                        && matches!(asked.task, Task::Exclude(_))
                };
                if asked.task.comes_after(by) || is_own() {
                    self.pass_on_that_it_is_given_up(by, turn);
                }
                self.inquire(by, asked.task.reader(), turn);
                return self.defer(by, asked, turn);
            }
            Err(error) => Refused::Failed(error),
        };
        self.refuse(&asked, refused, turn);
    }

    /// Has it wait for the end of a transaction.
    fn defer(&mut self, by: TransactionId, asked: Asked, turn: &mut Turn<'_>) {
        if let Some(asked) = self.deferred.push(by, asked) {
            self.turn_away(&asked, turn);
        }
    }

    /// There is no room for what it asks: it is to ask again in a while.
    fn turn_away(&mut self, asked: &Asked, turn: &mut Turn<'_>) {
        // It has not been asked for, then.
        if let Some((last, None)) = self.last.get_mut(&asked.client)
            && *last == asked.number
        {
            *last = last.saturating_sub(1);
        }
        self.close_untold(asked.client, asked.number, turn);
        turn.answer(asked.client, asked.number, AtOnce::Elsewhere);
    }

    /// What to do if a snapshot, which sees what was there at `at`, does not see what is expected of it, or may not.
    fn refute(
        &self,
        expected: &Expected,
        snapshot: Timestamp,
        at: Timestamp,
    ) -> Result<Option<Progress>, Error> {
        if let Some(by) = self.blocker(expected.object, &Interval::point(&expected.key), snapshot) {
            return Ok(Some(Progress::Blocked(by)));
        }
        Ok((!self.holds(expected, at)?).then_some(Progress::Refused(Refused::Unexpected)))
    }

    /// Whether for some sweeps no leaf has come or gone. Asked once a sweep.
    pub(super) fn is_steady(&mut self) -> bool {
        let objects = self.database.storage().objects();
        self.steady = if objects == self.objects && self.reshapes.is_empty() { self.steady + 1 } else { 0 };
        self.objects = objects;
        self.steady >= STEADY
    }

    /// Whatever waits for somebody who may have gone is asked after, and told, again.
    pub(super) fn sweep(&mut self, turn: &mut Turn<'_>) {
        let (_, shard) = self.name;
        self.database.storage().advance(Timestamp(0), turn.known.clock.watermark());
        let watermark = turn.known.clock.watermark();
        self.refused.retain(|_, snapshot| *snapshot >= watermark);
        // Snapshots that were opened on other servers are closed there.
        for owner in self.numbers.owners().into_iter().filter(|(_, at)| *at < watermark).collect::<Vec<_>>() {
            self.end_snapshot(owner.0, owner.1);
        }
        self.committed.retain(|(_, at), _| *at >= watermark);
        self.numbers.forget(watermark);
        let storage = self.database.storage();
        let (undecided, unconfirmed) =
            storage.pending(|pending| (pending.all_undecided(), pending.unconfirmed()));
        for Undecided { transaction, primary, .. } in &undecided {
            match self.is_owned(*transaction, turn.now) {
                true => {}
                false if *primary == shard => self.end(*transaction, Outcome::Aborted, turn),
                false => self.inquire(*transaction, None, turn),
            }
        }
        for (transaction, at, others) in unconfirmed {
            let sends = self.messages(&others, transaction, PeerMessage::Ended(Outcome::Committed(at)), turn);
            self.tell_when(Durability::Written, Done { sends, ..Done::default() }, turn);
        }
        for (by, reader) in self.deferred.transactions() {
            self.inquire(by, reader, turn);
        }
        self.abandon_old(turn);
        self.refuse_to_wait_on(turn);
        if turn.now >= self.aged + OUTCOME_KEPT {
            self.aged = turn.now;
            self.database.storage().outcomes(Outcomes::age);
        }
        self.keep_structure(&[], turn);
    }

    /// A client's connection has ended.
    pub(super) fn forget(&mut self, client: NodeId, turn: &mut Turn<'_>) {
        self.users.remove(&client);
        self.last.remove(&client);
        self.excluding.take_if(|excluding| excluding.client == client);
        let snapshots = self.numbers.owners().into_iter().chain(self.reopened.iter().copied());
        for (_, at) in snapshots.filter(|(owner, _)| *owner == client).collect::<BTreeSet<_>>() {
            self.end_snapshot(client, at);
        }
        self.committed.retain(|(owner, _), _| *owner != client);
        self.deferred.extract(|asked| asked.client == client);
        let owned: Vec<_> =
            self.owners.iter().filter(|(_, owner)| owner.client == Some(client)).map(|(t, _)| *t).collect();
        for transaction in owned {
            self.owners.remove(&transaction);
            let (_, shard) = self.name;
            let undecided = self.database.storage().pending(|pending| pending.undecided(transaction));
            if undecided.is_some_and(|undecided| undecided.primary == shard) {
                self.end(transaction, Outcome::Aborted, turn);
            }
        }
    }

    /// Before a change, in so many shards: what is forgotten cannot be compared with, and who is to be alone must have been.
    fn begin_change(
        &self,
        client: NodeId,
        (commit, shards): (&Commit, usize),
        turn: &Turn<'_>,
    ) -> Result<(), Error> {
        self.database.storage().advance(Timestamp(0), turn.known.clock.watermark());
        self.require_readable(commit.snapshot)?;
        self.require_not_excluded(client)?;
        self.ledger.require_takeable(commit)?;
        let is_alone = || {
            let (database, _) = self.name;
            let all = turn.known.map.databases.get(&database).map_or(0, |placement| placement.shards.len());
            shards >= all && self.excluding.as_ref().is_some_and(|own| own.since <= commit.snapshot)
        };
        if commit.is_exclusive && !is_alone() { Err(Error::SnapshotGone) } else { Ok(()) }
    }

    pub(super) fn messages(
        &self,
        to: &[ShardId],
        transaction: TransactionId,
        said: PeerMessage,
        turn: &Turn<'_>,
    ) -> Vec<(NodeId, Message)> {
        let (database, from) = self.name;
        let message = |shard: &ShardId| {
            let server = turn.known.map.server(database, *shard)?;
            let said = said.clone();
            Some((server, Message::Transaction { database, shard: *shard, from, transaction, said }))
        };
        to.iter().filter_map(message).collect()
    }

    /// Tells other shards something at once, which nothing that is not durable yet stands behind.
    pub(super) fn tell(
        &self,
        to: &[ShardId],
        transaction: TransactionId,
        said: PeerMessage,
        turn: &mut Turn<'_>,
    ) {
        for (server, message) in self.messages(to, transaction, said, turn) {
            turn.send(server, message);
        }
    }

    /// Keeps the trees in shape after these objects were written, or whatever was left to do.
    fn keep_structure(&mut self, written: &[ObjectId], turn: &mut Turn<'_>) {
        // A disk that fails here fails the next commit too, which says so.
        let reshapes = self.trees.reshape_after(written).unwrap_or_default();
        self.wish(reshapes, turn);
    }
}
